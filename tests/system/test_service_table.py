"""Who reaches a service, by which address, over what, wherever its target is: in all four modes.

Each client asks by each way for each kind of target. What cannot pass is data (`CLOSED`), with its
reason; it is asked as well, so that no row outlives its reason.

The hosts' network and the VLANs are joined by a router, as in a data centre.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from netplugin.world.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.hosts import FABRIC_ADDRESS, UNDERLAY, UPLINK, Host
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.netns import Namespace
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, asks, dials, echoing, reaches
from tests.system.planes import FWD_MODES, NETWORKS, planes

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.timeout(240)]

API_PORT = 6443
ADDRESS, EXTERNAL = "10.96.0.10", "203.0.113.9"
NODE_PORT, HOST_PORT, TARGET = 30080, 8091, 8080
ROUTER = f"{UNDERLAY}.253"
VLAN_SUBNET = NETWORKS["vlan"][0]
PORTS = [
    {"name": name, "port": 80, "protocol": name.upper(), "nodePort": NODE_PORT}
    for name in ("tcp", "udp")
]
LARGE = 4000
"""Bytes of a datagram that is sent in fragments."""
PATIENCE, SILENCE = 3.0, 1.0
ROUNDS = 3
"""How often a row is tried that must pass: a neighbour that is not resolved costs a datagram."""
AT_ONCE = 12

KINDS = ("pod", "host", "outside")


PODS = ("provider", "near", "far")
ALL = "TCP, UDP, fragments"


class Row(NamedTuple):
    """A client, and the address it asks at."""

    client: str
    way: str


@dataclass(frozen=True, kw_only=True)
class Closed:
    """Rows that cannot pass, and why; `kinds` of targets, and what stays `silent`."""

    why: str
    plane: tuple[str, str]
    clients: Sequence[str]
    ways: Sequence[str]
    kinds: Sequence[str] = KINDS
    silent: str = ALL

    def covers(self, row: Row) -> bool:
        """Tell whether a row is one of these."""
        return row.client in self.clients and row.way in self.ways


OF_HOSTS = ("NodePort", "NodePort of the other host", "hostPort")
"""The ways that begin at an address of a host."""
OF_SERVICE = ("ClusterIP", "externalIP")
"""The ways that the switch translates for pods."""
_NO_WAY_OUT = "pods of a bridged vxlan have no way out of their network, not to a host either"
_NO_REMOTE_PODS = "no host has a way to other hosts' pods on a bridged vxlan"
_BGP = "on routed vlans pods reach by BGP alone what is no pod, and here is no BGP router"
_VROUTER = ("routing", "vxlan")
# `set(ipv4(src=...))` takes bytes 6 and 7 of a later fragment's data for the checksum of UDP
_REWRITTEN = "Open vSwitch 3.1 in userspace damages later fragments whose address it sets"
CLOSED = (
    Closed(why=_NO_WAY_OUT, plane=("bridge", "vxlan"), clients=PODS, ways=OF_HOSTS),
    Closed(
        why=_NO_WAY_OUT,
        plane=("bridge", "vxlan"),
        clients=PODS,
        ways=OF_SERVICE,
        kinds=("host", "outside"),
    ),
    Closed(
        why=_NO_REMOTE_PODS,
        plane=("bridge", "vxlan"),
        clients=("other host",),
        ways=("ClusterIP", "NodePort", "loopback", "externalIP"),
        kinds=("pod",),
    ),
    Closed(
        why=_NO_REMOTE_PODS,
        plane=("bridge", "vxlan"),
        clients=("host", "outside"),
        ways=("NodePort of the other host",),
        kinds=("pod",),
    ),
    Closed(
        why=_BGP,
        plane=("routing", "vlan"),
        clients=PODS,
        ways=OF_HOSTS,
    ),
    Closed(
        why=_BGP,
        plane=("routing", "vlan"),
        clients=PODS,
        ways=OF_SERVICE,
        kinds=("host", "outside"),
    ),
    Closed(
        why="a host reaches other hosts' pods on routed vlans by BGP alone: here is no BGP router",
        plane=("routing", "vlan"),
        clients=("other host",),
        ways=("ClusterIP", "NodePort", "loopback", "externalIP"),
        kinds=("pod",),
    ),
    Closed(
        why="as above",
        plane=("routing", "vlan"),
        clients=("host", "outside"),
        ways=("NodePort of the other host",),
        kinds=("pod",),
    ),
    Closed(
        why="the host answers by its own way to its pod, past the translation of the service",
        plane=("bridge", "vlan"),
        clients=("near",),
        ways=OF_SERVICE,
        kinds=("host",),
    ),
    *(
        Closed(
            why="a pod's answer to itself is told by its ports, which later fragments do not name",
            plane=plane,
            clients=("provider",),
            ways=OF_SERVICE,
            kinds=("pod",),
            silent="fragments",
        )
        for plane in (("bridge", "vxlan"), ("bridge", "vlan"), ("routing", "vlan"), _VROUTER)
    ),
    Closed(why=_REWRITTEN, plane=_VROUTER, clients=PODS, ways=OF_HOSTS, silent="fragments"),
    Closed(
        why=_REWRITTEN,
        plane=_VROUTER,
        clients=PODS,
        ways=OF_SERVICE,
        kinds=("host", "outside"),
        silent="fragments",
    ),
)


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(
    request: pytest.FixtureRequest,
    bed_dirs: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Run a cluster of two hosts beside an API server, and a router between all networks."""
    file = tmp_path_factory.mktemp("kubernetes") / "contiv.json"
    server = f"http://{FABRIC_ADDRESS}:{API_PORT}"
    file.write_text(json.dumps({"K8S_API_SERVER": server, "K8S_TOKEN": "secret"}))
    flags = {"netplugin": ["--k8s-config", str(file), "--audit-interval", "2"]}
    with planes(next(bed_dirs), request.param, flags=flags, cards=[UPLINK]) as bed:
        _join_networks(bed)
        with ApiServer(bed.fabric.address, API_PORT, namespace=bed.fabric.namespace) as api:
            api.token = "secret"
            bed.api = api
            yield bed
            bed.api = None


def _join_networks(bed: Bed) -> None:
    bed.physical.route({61: ["10.61.0.1/24", "fd00:61::1/64"]})
    router, outside = bed.physical.router, bed.fabric.namespace
    bed.fabric.join(router, "rlan", card="lan")
    router.run(["ip", "address", "add", f"{ROUTER}/24", "dev", "lan"])
    router.run(["ip", "route", "add", "default", "via", bed.fabric.address])
    outside.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
    outside.run(["ip", "route", "add", f"{EXTERNAL}/32", "via", bed.hosts[0].address])
    outside.run(["ip", "route", "add", VLAN_SUBNET, "via", ROUTER])
    for host in bed.hosts:
        host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        host.namespace.run(["ip", "route", "add", "default", "via", bed.fabric.address])
        host.namespace.run(["ip", "route", "add", VLAN_SUBNET, "via", ROUTER])
        for peer in bed.hosts:
            if peer is not host:
                known = partial(reaches, host.namespace, peer.address)
                eventually(known, "hosts know each other")


@pytest.fixture(scope="module", params=list(NETWORKS))
def pods(bed: Bed, request: pytest.FixtureRequest) -> Iterator[list[Pod]]:
    """Run a provider with a host port and a client beside it, and a client on the other host."""
    one, two = bed.hosts
    mapped = [
        {"hostPort": HOST_PORT, "containerPort": TARGET, "protocol": protocol}
        for protocol in ("tcp", "udp")
    ]
    network: str = request.param
    pods = [
        bed.add_pod(one, "provider", network=network, host_ports=mapped),
        bed.add_pod(one, "near", network=network),
        bed.add_pod(two, "far", network=network),
    ]
    yield pods
    for pod in pods:
        bed.delete_pod(pod)


@contextmanager
def serving(bed: Bed, provider: Pod, kind: str) -> Iterator[None]:
    """Run the service, with one target: a pod of the first host, the host itself, the outside."""
    api = bed.api
    assert api is not None
    namespace, address = {
        "pod": (provider.namespace, provider.address),
        "host": (bed.hosts[0].namespace, bed.hosts[0].address),
        "outside": (bed.fabric.namespace, bed.fabric.address),
    }[kind]
    body = service(ADDRESS, *PORTS)
    body["spec"] |= {"externalIPs": [EXTERNAL]}
    ready = [{"name": one["name"], "port": TARGET, "protocol": one["protocol"]} for one in PORTS]
    with ExitStack() as stack:
        stack.enter_context(answering(namespace, address, TARGET))
        stack.enter_context(echoing(namespace, address, TARGET))
        api.put(SLICES, "shop", "web-a", **endpoint_slice("web", address, ports=ready))
        api.put(SERVICES, "shop", "web", **body)
        eventually(lambda: all(_leads_to(host, address) for host in bed.hosts), kind, within=60)
        yield
        api.delete(SERVICES, "shop", "web")
        eventually(lambda: not any(_leads_to(host, address) for host in bed.hosts), kind)


def _leads_to(host: Host, address: str) -> bool:
    shown = host.namespace.run(["iptables", "-w", "-t", "nat", "-S"]).stdout
    chosen = [one for one in shown.splitlines() if f"--to-destination {address}:{TARGET}" in one]
    # the rules that lead to the chains come last; a host port of the pod is no service
    return any("CONTIV-T" in one for one in chosen) and "-j CONTIV-SOURCES" in shown


def rows(bed: Bed, pods: Sequence[Pod], kind: str) -> dict[Row, tuple[Namespace, str, int]]:
    """Return who asks where."""
    one, two = bed.hosts
    clients = {pod.name: pod.namespace for pod in pods}
    # a pod in the host's network is a process of the host's namespace
    clients |= {"host": one.namespace, "other host": two.namespace}
    clients["outside"] = bed.fabric.namespace
    own = {"far": two, "other host": two}
    asked: dict[Row, tuple[Namespace, str, int]] = {}
    for client, namespace in clients.items():
        here = own.get(client, one)
        there = two if here is one else one
        ways = {
            "ClusterIP": (ADDRESS, 80),
            "NodePort": (here.address, NODE_PORT),
            "NodePort of the other host": (there.address, NODE_PORT),
            "loopback": ("127.0.0.1", NODE_PORT),
            "externalIP": (EXTERNAL, 80),
            "hostPort": (one.address, HOST_PORT),
            "hostPort by loopback": ("127.0.0.1", HOST_PORT),
        }
        for way, (address, port) in ways.items():
            if _makes_sense(client, way, kind):
                asked[Row(client, way)] = (namespace, address, port)
    return asked


def _makes_sense(client: str, way: str, kind: str) -> bool:
    if "loopback" in way and "host" not in client:
        return False  # a namespace of its own has a loopback of its own
    if way == "hostPort by loopback" and client != "host":
        return False
    if client == "provider" and kind != "pod":
        return False  # it is a client like the one beside it
    if way == "ClusterIP" and client == "outside":
        return False
    return kind == "pod" or "hostPort" not in way


def answers(source: Namespace, address: str, port: int, patience: float) -> str:
    """Return what is not answered; "" if all is."""
    heard = {
        "TCP": dials(source, address, port, patience),
        "UDP": asks(source, address, port, patience=patience),
        "fragments": asks(source, address, port, LARGE, patience),
    }
    return ", ".join(name for name, answer in heard.items() if not answer)


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_leads_to_every_target(bed: Bed, pods: list[Pod], kind: str) -> None:
    network = str(pods[0].conf["contiv"]["network"])
    closed = {
        row: one.silent
        for row in rows(bed, pods, kind)
        for one in CLOSED
        if one.plane == (bed.fwd_mode, network) and kind in one.kinds and one.covers(row)
    }
    found: dict[Row, str] = {}
    with serving(bed, pods[0], kind), ThreadPoolExecutor(AT_ONCE) as pool:
        due = rows(bed, pods, kind)
        for _ in range(ROUNDS):
            patience = {row: SILENCE if row in closed else PATIENCE for row in due}
            said = {row: pool.submit(answers, *where, patience[row]) for row, where in due.items()}
            found |= {row: one.result() for row, one in said.items()}
            due = {row: due[row] for row in due if found[row] and found[row] != closed.get(row)}
            if not due:
                break
    lost = {row: silent for row, silent in found.items() if silent}
    assert lost == closed
