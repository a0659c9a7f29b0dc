"""What 10 000 endpoints of other hosts cost an agent: a new one's way here, a restart, memory.

The whole system runs on two simulated hosts (etcd, userspace datapath); the endpoints are written
straight into the store, of hosts that are nobody's, and netmaster is ended meanwhile so that it
does not read its view anew for each. What an endpoint's flows take is seen by the switch's own
monitor; beside it stands the least that could be done, a bare watch that runs `ovs-ofctl`.

A restart is SIGKILL and the start after it, until the agent answers: it does so when its bridges
have all their flows. Beside it stands the restart of the same agent before the endpoints came.
AGENTS_ENDPOINTS sets another number of endpoints.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

from bench.cni import manage
from bench.monitor import Monitor, monitor
from bench.objects import rss
from bench.records import HOSTS, Crowd, Writer, writer
from bench.table import Row, at, show
from core import ids
from core.ids import NetworkName, TenantName
from ofnet.world import Bridge
from tests.bed.cluster import STORE_PORT, Bed
from tests.bed.hosts import Host
from tests.bed.pods import Pod
from tests.bed.waiting import eventually

FEW = 1_000
MANY = int(os.environ.get("AGENTS_ENDPOINTS", "10000"))
SINGLE = 200
RESTARTS = 3
PINGS = 3_000 * max(1, MANY // 30_000)
"""For longer than a restart takes."""
PING_EVERY = 0.005
RESTART_TARGET = 1_500.0
ARRIVAL_TARGETS = {"p50": 5.0, "p99": 15.0}
"""Milliseconds, with 100 000 endpoints present."""
FLOWS_EACH = 5
"""Flows of an endpoint of another host: its group at both ends, the ways to it from pods and from
the host, who asks for it."""
FLOWS_OF_HOST = 8
"""And of a host: what comes out of its tunnel, what of that is for the agent or the host."""
NETWORK = ("--subnet=10.20.0.0/14", "--gateway=10.20.0.1", "default-net")
CROWD = Crowd(
    ids.network_id(NetworkName("default-net"), TenantName("default")),
    IPv4Address("10.21.0.0"),
    HOSTS,
)
FOLLOWED = "/bench/flows/"
BARE = "bench"


def rows() -> Iterable[Row]:
    """Measure on two hosts."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=2).start()
        try:
            manage(bed)
            bed.netctl("net", "create", *NETWORK)
            here, there = bed.hosts
            pods = [bed.add_pod(here, "a"), bed.add_pod(here, "b"), bed.add_pod(there, "c")]
            bed.netmaster.kill()
            url = f"http://{bed.fabric.address}:{STORE_PORT}"
            with writer(bed.fabric.namespace, "etcd", url, CROWD.network, CROWD.first) as records:
                yield from _measure(bed, pods, records, url)
        finally:
            bed.stop()


def _measure(bed: Bed, pods: list[Pod], records: Writer, url: str) -> Iterator[Row]:
    empty = [_restart(bed) for _ in range(RESTARTS)]
    none = rss(bed.agents[0].pid)
    _grow(bed, HOSTS * FLOWS_OF_HOST, partial(records.ask, "hosts", HOSTS))
    for start, stop in ((0, FEW), (FEW, MANY)):
        _grow(bed, (stop - start) * FLOWS_EACH, partial(records.ask, "fill", start, stop))
        yield _memory(f"agent's memory, {stop} remote endpoints", rss(bed.agents[0].pid), none)
    yield from _arrivals(bed, records, url)
    yield from _restarts(bed, pods, empty)
    yield _memory(f"the same, restarted among {MANY + SINGLE}", rss(bed.agents[0].pid), none)


def _grow(bed: Bed, flows: int, write: Callable[[], float]) -> None:
    """Write records; return when every switch has as many flows more."""
    wanted = [_flows(host) + flows for host in bed.hosts]
    write()
    within = 120 + flows / 1_000
    eventually(lambda: [_flows(host) for host in bed.hosts] == wanted, "the flows", within=within)


def _flows(host: Host) -> int:
    told = host.ovs.ofctl("dump-aggregate", Bridge.VXLAN)
    return int(told.partition("flow_count=")[2].split()[0])


def _memory(what: str, ours: float, none: float) -> Row:
    note = "VmRSS, with all flows acknowledged; reference: without endpoints"
    return Row(what=what, ours=ours, unit="MiB", reference=none, ratio=none / ours, note=note)


# -- an endpoint's way into the switch of another host


def _arrivals(bed: Bed, records: Writer, url: str) -> Iterator[Row]:
    host = bed.hosts[0]
    with ExitStack() as stack:
        stack.enter_context(_follower(bed, host, url))
        agents = stack.enter_context(monitor(host, Bridge.VXLAN))
        bare = stack.enter_context(monitor(host, BARE))
        ours, theirs = [], []
        for number in range(MANY, MANY + SINGLE):
            ours.append(_arrival(agents, records, number))
            theirs.append(_bare_arrival(bare, records, number))
    for name, rank in (("p50", 0.50), ("p99", 0.99)):
        took, reference = at(sorted(ours), rank), at(sorted(theirs), rank)
        yield Row(
            what=f"endpoint written to flows in another switch, {name}",
            ours=took,
            unit="ms",
            reference=reference,
            ratio=reference / took,
            note=f"n={SINGLE}, {MANY} present, etcd; target {ARRIVAL_TARGETS[name]:g} among "
            "100 000; reference: bare watch and ovs-ofctl",
        )


def _arrival(flows: Monitor, records: Writer, number: int) -> float:
    began = records.ask("put", number)
    address = re.escape(str(CROWD.address(number)))
    return (flows.wait(rf"={address}\b", FLOWS_EACH) - began) * 1000


def _bare_arrival(flows: Monitor, records: Writer, number: int) -> float:
    address = str(CROWD.address(number))
    flow = f"table=0,ip,nw_dst={address},actions=drop"
    began = records.ask("raw", f"{FOLLOWED}{number}", flow)
    return (flows.wait(rf"={re.escape(address)}\b", 1) - began) * 1000


@contextmanager
def _follower(bed: Bed, host: Host, url: str) -> Iterator[None]:
    host.ovs.vsctl("add-br", BARE, "--", "set", "bridge", BARE, "datapath_type=netdev")
    host.ovs.vsctl("set", "bridge", BARE, "fail_mode=secure", "protocols=OpenFlow13")
    words = [sys.executable, "-m", "bench.follower", "etcd", url, FOLLOWED, BARE]
    command = [*bed.fabric.namespace.enter, *words]
    env = {**os.environ, **host.ovs.environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        try:
            if process.stdout is None or process.stdout.readline() != b"watching\n":
                raise RuntimeError("the bare follower did not start")
            yield
        finally:
            process.kill()
            host.ovs.vsctl("del-br", BARE)


# -- restarts


def _restarts(bed: Bed, pods: list[Pod], empty: list[float]) -> Iterator[Row]:
    here = bed.hosts[0]
    flows = _flows(here)
    took, lost, lost_anyway = [], 0, 0
    for _ in range(RESTARTS):
        with _pinged(pods) as pings:
            took.append(_restart(bed))
        lost += sum(map(_lost, pings))
        with _pinged(pods) as pings:
            pass
        lost_anyway += sum(map(_lost, pings))
        if _flows(here) != flows:
            raise RuntimeError(f"{_flows(here)} flows after the restart, {flows} before")
    for name, rank in (("p50", 0.50), ("slowest", 1.0)):
        ours, reference = at(sorted(took), rank), at(sorted(empty), rank)
        yield Row(
            what=f"agent restarted among {MANY + SINGLE} remote endpoints, {name}",
            ours=ours,
            unit="ms",
            reference=reference,
            ratio=reference / ours,
            note=f"n={RESTARTS}; target {RESTART_TARGET:g}; {flows} flows; "
            "reference: without endpoints",
        )
    yield Row(
        what="packets lost by the restarts",
        ours=lost,
        unit="",
        reference=lost_anyway,
        note=f"of {2 * PINGS * RESTARTS} echo requests within the host and to another; target 0; "
        "reference: without a restart",
    )


def _restart(bed: Bed) -> float:
    agent = bed.agents[0]
    began = time.monotonic()
    agent.kill()
    agent.start(within=120)
    return (time.monotonic() - began) * 1000


@contextmanager
def _pinged(pods: list[Pod]) -> Iterator[list["subprocess.Popen[str]"]]:
    """Send echo requests from the first pod to the others, longer than the body takes."""
    source, *targets = pods
    for target in targets:  # a path that has been idle loses the first packet of its tunnel
        eventually(partial(source.ping, target.address), f"{target.name} answers")
    words = ["ping", "-q", "-n", "-c", str(PINGS), "-i", str(PING_EVERY), "-W", "2"]
    pings = [
        subprocess.Popen(
            [*source.namespace.enter, *words, target.address], stdout=subprocess.PIPE, text=True
        )
        for target in targets
    ]
    yield pings
    if any(ping.poll() is not None for ping in pings):
        raise RuntimeError("the restart outlasted the pings")


def _lost(ping: "subprocess.Popen[str]") -> int:
    told, _ = ping.communicate()
    found = re.search(r"(\d+) packets transmitted, (\d+) received", told)
    if found is None:
        raise RuntimeError(f"ping said {told!r}")
    return int(found[1]) - int(found[2])


if __name__ == "__main__":
    show(rows())
