"""Who reaches a service, by which address, over what, wherever its target is: in all four modes.

Each client asks by each way for each kind of target. What cannot pass is data (`CLOSED`), with its
reason; it is asked as well, so that no row outlives its reason. What kube-proxy passes, recorded by
`tests/system/kube_proxy.py`, passes here, but for that data; what passes here alone is data too.
Clients that keep a socket follow the target to another port, by every way that is open.

The hosts' network and the VLANs are joined by a router, as in a data centre.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.kubernetes import endpoint_slice
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.datagrams import Mouth, naming
from tests.system.joined import OUTSIDE6, joined_site
from tests.system.kube_proxy import ANSWERS
from tests.system.planes import FWD_MODES, NETWORKS, addresses, switches_lead
from tests.system.service_table import closed_rows, host_addresses, rows_of
from tests.system.service_ways import (
    ADDRESS,
    ADDRESS6,
    EXTERNAL,
    EXTERNAL6,
    HOST_PORT,
    KINDS,
    READY,
    TARGET,
    Row,
    body,
    targets,
    unanswered,
)

pytestmark = [pytest.mark.system, pytest.mark.ovs]

KUBE_PROXY = json.loads(ANSWERS.read_text(encoding="utf-8"))["unanswered"]
MORE = {Row("host", "externalIP")}
"""Passes here alone: kube-proxy 1.20 leaves out what its own host sends to such an address."""


NEXT_TARGET = TARGET + 1

DUAL = [(mode, "dual") for mode in FWD_MODES]
SIX = [(mode, "v6") for mode in FWD_MODES]
with_ipv4 = pytest.mark.parametrize("bed", DUAL, indirect=True, ids="-".join)
with_ipv6 = pytest.mark.parametrize("bed", [*DUAL, *SIX], indirect=True, ids="-".join)


@pytest.fixture(scope="module")
def bed(
    request: pytest.FixtureRequest,
    bed_dirs: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Run a cluster of two hosts beside an API server, and a router between all networks.

    Its parameters are the forwarding mode and the families of the networks.
    """
    mode, family = request.param
    with joined_site(next(bed_dirs), mode, tmp_path_factory, family=family) as bed:
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


def own(pod: Pod, version: int) -> str:
    """Return a pod's address of a family."""
    return next(one for one in addresses(pod) if (":" in one) is (version == 6))


@contextmanager
def serving(bed: Bed, provider: Pod, kind: str, version: int = 4) -> Iterator[None]:
    """Run the service, with one target: a pod of the first host, the host itself, the outside."""
    api = bed.api
    assert api is not None
    namespace, address = {
        "pod": (provider.namespace, own(provider, version)),
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


@with_ipv4
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


@with_ipv6
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_ipv6_leads_to_every_target(bed: Bed, pods: list[Pod], kind: str) -> None:
    asked = rows_of(bed, pods, kind, version=6)
    closed = closed_rows(bed, pods, kind, asked)
    with serving(bed, pods[0], kind, version=6):
        assert unanswered(asked, lambda row: closed.get(row, "")) == closed


@with_ipv4
@pytest.mark.parametrize("version", [4, 6], ids=["ipv4", "ipv6"])
def test_datagrams_follow_the_targets_port(bed: Bed, pods: list[Pod], version: int) -> None:
    provider, api = pods[0], bed.api
    assert api is not None
    asked = rows_of(bed, pods, "pod", version)
    closed = closed_rows(bed, pods, "pod", asked)
    address = own(provider, version)
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
