"""Who reaches a service, by which address, over what, wherever its target is: in all four modes.

Each client asks by each way for each kind of target. What cannot pass is data (`CLOSED`), with its
reason; it is asked as well, so that no row outlives its reason. What kube-proxy passes, recorded by
`tests/system/kube_proxy.py`, passes here, but for that data; what passes here alone is data too.
Clients that keep a socket follow the target to another port, by every way that is open.

The hosts' network and the VLANs are joined by a router, as in a data centre.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest

from netplugin.world.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.kubernetes import endpoint_slice
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.datagrams import Mouth, naming
from tests.system.joined import OUTSIDE6, address6, joined_site
from tests.system.kube_proxy import ANSWERS
from tests.system.planes import FWD_MODES, NETWORKS, addresses, switches_lead
from tests.system.service_ways import (
    ADDRESS,
    ADDRESS6,
    ALL,
    EXTERNAL,
    EXTERNAL6,
    HOST_PORT,
    KINDS,
    PODS,
    READY,
    TARGET,
    Asked,
    Row,
    body,
    rows,
    targets,
    unanswered,
)

pytestmark = [pytest.mark.system, pytest.mark.ovs]

KUBE_PROXY = json.loads(ANSWERS.read_text(encoding="utf-8"))["unanswered"]
MORE = {Row("host", "externalIP")}
"""Passes here alone: kube-proxy 1.20 leaves out what its own host sends to such an address."""


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


NEXT_TARGET = TARGET + 1
OF_HOSTS = ("NodePort", "NodePort of the other host", "hostPort")
"""The ways that begin at an address of a host."""
OF_SERVICE = ("ClusterIP", "externalIP")
"""The ways that the switch translates for pods."""
_NO_WAY_OUT = "pods of a bridged vxlan have no way out of their network, not to a host either"
_BGP = "on routed vlans pods reach by BGP alone what is no pod, and here is no BGP router"
LOOPBACK = "the host's ports for pods alone route loopback addresses: neighbours must not get in"
PLANES = [(mode, encap) for mode in ("routing", "bridge") for encap in ("vxlan", "vlan")]
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
    *(
        Closed(why=LOOPBACK, plane=plane, clients=clients, ways=("loopback",), kinds=(kind,))
        for plane in PLANES
        for clients, kind in ((("host", "other host"), "outside"), (("other host",), "host"))
    ),
    Closed(
        why=LOOPBACK,
        plane=("bridge", "vlan"),
        clients=("other host",),
        ways=("loopback",),
        kinds=("pod",),
    ),
)


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(
    request: pytest.FixtureRequest,
    bed_dirs: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Run a cluster of two hosts beside an API server, and a router between all networks."""
    with joined_site(next(bed_dirs), request.param, tmp_path_factory) as bed:
        yield bed


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
def serving(bed: Bed, provider: Pod, kind: str, version: int = 4) -> Iterator[None]:
    """Run the service, with one target: a pod of the first host, the host itself, the outside."""
    api = bed.api
    assert api is not None
    namespace, address = {
        "pod": (provider.namespace, addresses(provider)[version == 6]),
        "host": (bed.hosts[0].namespace, host_addresses(bed, version)[0]),
        "outside": (bed.fabric.namespace, bed.fabric.address if version == 4 else OUTSIDE6),
    }[kind]
    with targets(namespace, address):
        lead(bed, address)
        services = [ADDRESS, EXTERNAL] if version == 4 else [ADDRESS6, EXTERNAL6]
        at = f"{address if version == 4 else f'[{address}]'}:{TARGET}"
        switches_lead(bed, str(provider.conf["contiv"]["network"]), services, at)
        yield
        api.delete(SERVICES, "shop", "web")
        eventually(lambda: not any(_leads_to(host, address) for host in bed.hosts), kind)


def host_addresses(bed: Bed, version: int) -> list[str]:
    """Return the addresses of both hosts in their network."""
    return [host.address if version == 4 else address6(host) for host in bed.hosts]


def lead(bed: Bed, address: str, port: int = TARGET) -> None:
    """Have the service's only target at an address and port; return when the hosts' rules do."""
    api, version = bed.api, ip_address(address).version
    assert api is not None
    ports = [{**one, "port": port} for one in READY]
    served = endpoint_slice("web", address, ports=ports, family=f"IPv{version}")
    api.put(SLICES, "shop", "web-a", **served)
    api.put(SERVICES, "shop", "web", **body(version))
    there = partial(_leads_to, address=address, port=port)
    eventually(lambda: all(map(there, bed.hosts)), f"{address} port {port}")


def _leads_to(host: Host, address: str, port: int = TARGET) -> bool:
    program, to = "iptables", address
    if ":" in address:
        program, to = "ip6tables", f"[{address}]"
    shown = host.namespace.run([program, "-w", "-t", "nat", "-S"]).stdout
    chosen = [one for one in shown.splitlines() if f"--to-destination {to}:{port}" in one]
    # the rules that lead to the chains come last; a host port of the pod is no service
    return any("CONTIV-T" in one for one in chosen) and "-j CONTIV-SOURCES" in shown


def rows_of(bed: Bed, pods: Sequence[Pod], kind: str, version: int = 4) -> Asked:
    """Return who asks where."""
    one, two = bed.hosts
    clients = {pod.name: pod.namespace for pod in pods}
    clients |= {"host": one.namespace, "other host": two.namespace}
    clients["outside"] = bed.fabric.namespace
    first, second = host_addresses(bed, version)
    return rows(clients, first, second, kind)


def closed_rows(
    bed: Bed, pods: Sequence[Pod], kind: str, asked: Asked, known: Sequence[Closed] = CLOSED
) -> dict[Row, str]:
    """Return what stays silent in which rows."""
    plane = bed.fwd_mode, str(pods[0].conf["contiv"]["network"])
    return {
        row: one.silent
        for row in asked
        for one in known
        if one.plane == plane and kind in one.kinds and one.covers(row)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_leads_to_every_target(bed: Bed, pods: list[Pod], kind: str) -> None:
    asked = rows_of(bed, pods, kind)
    closed = closed_rows(bed, pods, kind, asked)
    with serving(bed, pods[0], kind):
        lost = unanswered(asked, lambda row: closed.get(row, ""))
    assert lost == closed
    proxied = {
        Row(client, way): silent
        for client, ways in KUBE_PROXY[kind].items()
        for way, silent in ways.items()
    }
    assert proxied.keys() == {row for row in asked if "hostPort" not in row.way}
    assert {row for row, silent in proxied.items() if silent and row not in lost} == MORE


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_ipv6_leads_to_every_target(bed: Bed, pods: list[Pod], kind: str) -> None:
    asked = rows_of(bed, pods, kind, version=6)
    closed = closed_rows(bed, pods, kind, asked)
    with serving(bed, pods[0], kind, version=6):
        assert unanswered(asked, lambda row: closed.get(row, "")) == closed


@pytest.mark.parametrize("version", [4, 6], ids=["ipv4", "ipv6"])
def test_datagrams_follow_the_targets_port(bed: Bed, pods: list[Pod], version: int) -> None:
    provider, api = pods[0], bed.api
    assert api is not None
    asked = rows_of(bed, pods, "pod", version)
    closed = closed_rows(bed, pods, "pod", asked)
    address = addresses(provider)[version == 6]
    with ExitStack() as stack:
        for port, name in ((TARGET, "before"), (NEXT_TARGET, "after")):
            stack.enter_context(naming(provider, port, name, version))
        mouths = {
            row: stack.enter_context(Mouth(*where))
            for row, where in asked.items()
            if row not in closed and "hostPort" not in row.way
        }
        for port, name in ((TARGET, "before"), (NEXT_TARGET, "after")):
            lead(bed, address, port)
            for row, mouth in mouths.items():
                eventually(partial(mouth.hears, name), str(row))
        api.delete(SERVICES, "shop", "web")
