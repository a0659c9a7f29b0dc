"""Services: new connections and throughput through one, beside the same pods without one.

The whole system runs on two simulated hosts. A client asks a service of two pods on the other host,
with and without affinity, and one of the pods itself, at a port of no service: each in turns. Then
the service has many neighbours: what 1000 services of ten providers each take in flows, time and
memory, beside `ovs-ofctl`, which gives a bare bridge of the same switch the same flows and groups.
"""

import json
import re
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from bench.cni import NETWORK, manage
from bench.objects import rss
from bench.table import Row, show
from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.hosts import FABRIC_ADDRESS, Host
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.pods import Pod
from tests.bed.traffic import throughput
from tests.bed.waiting import eventually
from tests.system.crowd import Server

API_PORT: Final = 6443
CONNECTIONS: Final = 1000
ROUNDS: Final = 5
SECONDS: Final = 3
MANY: Final = 1000
EACH: Final = 10
PATIENCE: Final = 10.0
TARGET: Final = 0.8
DIRECT: Final = 8079
PROVIDED: Final = {"service": 8080, "affinity": 8081}
"""Other ports for each: a client that makes so many connections uses its ports again (ADR 21)."""

SPEED, DIRECT_SPEED = 5201, 5202
PORTS = [
    {"name": "tcp", "port": 80, "protocol": "TCP"},
    {"name": "udp", "port": 80, "protocol": "UDP"},
    {"name": "speed", "port": SPEED, "protocol": "TCP"},
]
WAYS: Final = {"service": "10.96.0.10", "affinity": "10.96.0.11"}
"""Its address, by what a service is like."""

FIRST: Final = IPv4Address("10.97.0.1")


def rows() -> Iterable[Row]:
    """Measure on two simulated hosts."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        conf, server = Path(directory, "contiv.json"), f"http://{FABRIC_ADDRESS}:{API_PORT}"
        conf.write_text(json.dumps({"K8S_API_SERVER": server, "K8S_TOKEN": "secret"}))
        flags = {"netplugin": ["--k8s-config", str(conf)]}
        bed = Bed(Path(directory, "bed"), hosts=2, flags=flags)
        bed.dir.mkdir()
        bed.start()
        try:
            manage(bed)
            bed.netctl("net", "create", *NETWORK)
            with ApiServer(FABRIC_ADDRESS, API_PORT, namespace=bed.fabric.namespace) as api:
                api.token, bed.api = "secret", api
                yield from _rows(bed, api)
        finally:
            bed.stop()


def _rows(bed: Bed, api: ApiServer) -> Iterator[Row]:
    here, there = bed.hosts
    client = bed.add_pod(here, "client")
    pods = [bed.add_pod(there, name) for name in ("one", "two")]
    with _provided(bed, api, client, pods):
        pair = Pair(client, pods)
        yield from _rates(pair, "TCP connections", _connections)
        yield from _rates(pair, "UDP connections", _datagrams)
        yield _of_clients(here)
        yield from _speeds(pair)
        yield from _many(bed, api, pair)


@dataclass(frozen=True, slots=True)
class Pair:
    """Who asks, and who answers."""

    client: Pod
    pods: list[Pod]

    def ends(self, provided: int, direct: int) -> dict[str, tuple[str, int]]:
        """Return address and port of each way to a port, and the port's double of no service."""
        ways = {way: (address, provided) for way, address in WAYS.items()}
        return {**ways, "direct": (self.pods[0].address, direct)}


@contextmanager
def _provided(bed: Bed, api: ApiServer, client: Pod, pods: list[Pod]) -> Iterator[None]:
    """Run the services, and their servers."""
    for way, address in WAYS.items():
        body = service(address, *PORTS)
        body["spec"] |= {"sessionAffinity": "ClientIP" if way == "affinity" else "None"}
        api.put(SERVICES, "shop", way, **body)
        web = [{**one, "port": PROVIDED[way]} for one in PORTS if one["name"] != "speed"]
        found = [pod.address for pod in pods]
        api.put(SLICES, "shop", f"{way}-a", **endpoint_slice(way, *found, ports=web))
        # iperf3 has two connections, and both must come to the same server
        speed = [one for one in PORTS if one["name"] == "speed"]
        api.put(SLICES, "shop", f"{way}-b", **endpoint_slice(way, found[0], ports=speed))
    with ExitStack() as stack:
        for pod in pods:
            for port in (*PROVIDED.values(), DIRECT):
                stack.callback(Server(pod.namespace.enter, pod.name, port).kill)
        for address in WAYS.values():
            asked = partial(client.namespace.call, partial(_connections, address, 80, 20))
            eventually(lambda asked=asked: _answers(asked), "the service", within=60)  # type: ignore[misc]
        yield
    assert bed.api is api


def _answers(asked: Callable[[], float]) -> bool:
    with suppress(OSError):
        return asked() > 0
    return False


# -- connections and throughput


def _rates(pair: Pair, what: str, measure: Callable[[str, int, int], float]) -> Iterator[Row]:
    ways = pair.ends(80, DIRECT)

    def rate(end: tuple[str, int]) -> float:
        return pair.client.namespace.call(partial(measure, *end, CONNECTIONS))

    found = _in_turns(ways, rate)
    for way in WAYS:
        yield _beside(what, way, found, "/s", f"{CONNECTIONS} one after the other")


def _speeds(pair: Pair) -> Iterator[Row]:
    ways = pair.ends(SPEED, DIRECT_SPEED)

    def speed(end: tuple[str, int]) -> float:
        address, port = end
        return throughput(
            pair.client.namespace,
            pair.pods[0].namespace,
            pair.pods[0].address,
            seconds=SECONDS,
            port=port,
            by=address,
        )

    found = _in_turns(ways, speed)
    for way in WAYS:
        yield _beside("TCP throughput", way, found, "Mbit/s", f"{SECONDS} s")


def _in_turns(
    ways: Mapping[str, tuple[str, int]], measure: Callable[[tuple[str, int]], float]
) -> dict[str, float]:
    found = [{way: measure(end) for way, end in ways.items()} for _ in range(ROUNDS)]
    return {way: statistics.median(one[way] for one in found) for way in ways}


def _beside(what: str, way: str, found: Mapping[str, float], unit: str, how: str) -> Row:
    ours, direct = found[way], found["direct"]
    by = "a service" if way == "service" else "a service with affinity"
    return Row(
        what=f"{what} through {by}",
        ours=ours,
        unit=unit,
        reference=direct,
        ratio=ours / direct,
        note=f"median of {ROUNDS}, {how}; target {TARGET:g}; reference: direct to a pod",
    )


def _connections(address: str, port: int, count: int) -> float:
    """Return how many connections a second are answered."""
    began = time.perf_counter()
    for number in range(count):
        with closing(socket.socket()) as end:
            end.settimeout(PATIENCE)
            try:
                end.connect((address, port))
                served = end.recv(100)
            except OSError as exc:
                raise ConnectionError(f"{address}:{port}: connection {number}: {exc}") from exc
            if not served:
                raise ConnectionError("closed by the other end")
    return count / (time.perf_counter() - began)


def _datagrams(address: str, port: int, count: int) -> float:
    """Return how many datagrams a second are answered, each from a port of its own."""
    began = time.perf_counter()
    for _ in range(count):
        with closing(socket.socket(type=socket.SOCK_DGRAM)) as end:
            end.settimeout(PATIENCE)
            end.connect((address, port))
            end.send(b"who")
            end.recv(100)
    return count / (time.perf_counter() - began)


# -- what clients and services take


def _of_clients(host: Host) -> Row:
    """Return what the client that has just measured left in its switch."""
    shown = host.ovs.ofctl("dump-flows", Bridge.VXLAN, "table=13")
    megaflows = host.ovs.appctl("dpctl/dump-flows").count("recirc_id(")
    return Row(
        what="flows that clients left, without affinity",
        ours=sum("NXM_NX_REG1" in line and WAYS["service"] in line for line in shown.splitlines()),
        unit="flows",
        note=f"{shown.count('NXM_NX_REG1')} with affinity (one for each port); {megaflows} "
        f"megaflows after {CONNECTIONS * ROUNDS * 6} connections",
    )


def _many(bed: Bed, api: ApiServer, pair: Pair) -> Iterator[Row]:
    host, agent = bed.hosts[0], bed.agents[0]
    flows, groups = _flows(host), _groups(host)
    small, switch = rss(agent.pid), rss(_switch(host))
    names = [f"s{number}" for number in range(MANY)]
    targets = [str(IPv4Address("10.20.200.0") + number) for number in range(EACH)]
    ready = [{"name": "web", "port": 8080, "protocol": "TCP"}]
    began = time.monotonic()
    for number, name in enumerate(names):
        web = {"name": "web", "port": 80, "protocol": "TCP"}
        api.put(SERVICES, "many", name, **service(str(FIRST + number), web))
        # other targets for each: services share the flows of a target, and a group of all
        found = [str(IPv4Address(one) + number * EACH) for one in targets]
        api.put(SLICES, "many", f"{name}-a", **endpoint_slice(name, *found, ports=ready))
    told = time.monotonic() - began
    eventually(lambda: _groups(host) >= groups + MANY, "a group for each", within=300)
    _settled(host)
    took = time.monotonic() - began
    more, memory = _flows(host) - flows, rss(agent.pid)
    grown = rss(_switch(host)) - switch
    bare = _bare(host)
    yield Row(
        what=f"{MANY} services of {EACH} providers: into the switch",
        ours=took,
        unit="s",
        reference=bare,
        ratio=bare / took,
        note=f"{told:.1f} s of it until the API server had them; reference: ovs-ofctl --bundle, "
        "the same flows and groups, which are known",
    )
    yield Row(
        what="flows of each",
        ours=more / MANY,
        unit="flows",
        note=f"and {(_groups(host) - groups) / MANY:g} groups; two for each provider, for answers "
        "and for connections to its own address",
    )
    note = f"VmRSS; ovs-vswitchd {grown:.0f} MiB more; reference: without them"
    ratio = small / memory
    yield Row(
        what="agent's memory", ours=memory, unit="MiB", reference=small, ratio=ratio, note=note
    )
    yield from _rates(pair, f"TCP connections among {MANY} services", _connections)


def _settled(host: Host) -> None:
    """Wait until flows come no more."""
    before, since = -1, time.monotonic()

    def rests() -> bool:
        nonlocal before, since
        if (now := _flows(host)) != before:
            before, since = now, time.monotonic()
        return time.monotonic() - since > 1

    eventually(rests, "the flows rest", within=120)


def _flows(host: Host) -> int:
    told = host.ovs.ofctl("dump-aggregate", Bridge.VXLAN)
    return int(told.partition("flow_count=")[2].split()[0])


def _groups(host: Host) -> int:
    return host.ovs.ofctl("dump-groups", Bridge.VXLAN).count("group_id=")


def _switch(host: Host) -> int:
    return int((host.ovs.rundir / "ovs-vswitchd.pid").read_text())


def _bare(host: Host) -> float:
    """Return the seconds in which `ovs-ofctl` gives another bridge the same."""
    groups = host.ovs.ofctl("dump-groups", Bridge.VXLAN).splitlines()
    flows = host.ovs.ofctl("--no-stats", "--no-names", "dump-flows", Bridge.VXLAN).splitlines()
    file = host.ovs.rundir / "groups.txt"
    added = [f"group add {line.strip()}" for line in groups if "group_id=" in line]
    # what the switch has learned for clients is no flow of ours
    added += [
        f"flow add {re.sub(r'send_flow_rem ', '', line.strip())}"
        for line in flows
        if "actions=" in line and "table=13," not in line
    ]
    file.write_text("\n".join(added))
    host.ovs.vsctl("add-br", "bare", "--", "set", "bridge", "bare", "datapath_type=netdev")
    command = ["ovs-ofctl", "-O", "OpenFlow14", "bundle", "bare", str(file)]
    host.ovs.vsctl("set", "bridge", "bare", "protocols=OpenFlow13,OpenFlow14")
    began = time.monotonic()
    done = subprocess.run(
        [*host.namespace.enter, *command],
        check=False,
        capture_output=True,
        text=True,
        env=host.ovs.environment | {"PATH": "/usr/bin:/bin"},
    )
    took = time.monotonic() - began
    host.ovs.vsctl("del-br", "bare")
    if done.returncode:
        raise RuntimeError(f"ovs-ofctl: {done.stderr[:500]}")
    return took


if __name__ == "__main__":
    show(rows())
