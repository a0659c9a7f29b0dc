"""A change of routes by the host's interfaces takes as few requests as it can."""

from collections.abc import Collection
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import cast

import pytest

from core.errors import HostError
from core.ids import HostLabel
from netplugin.bridges.host.host_ports import HostInterface, HostPorts
from netplugin.bridges.host.host_routes import PodRoutes
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.ovsdb import Ovsdb
from netplugin.world.underlay import HostUnderlay
from ofnet.world import Bridge
from tests.unit.netplugin.fakes import FakeLinks, FakeOvsdb, Faults

PRIVATE, HOST = IPv4Network("172.19.0.0/16"), IPv4Address("192.168.2.10")
NETWORK = HostRoute(subnet=IPv4Network("10.1.0.0/16"), source=HOST)
OTHER = HostRoute(subnet=IPv4Network("10.2.0.0/16"), source=HOST)


class Counting(FakeLinks):
    """Counts how routes were set."""

    def __init__(self) -> None:
        self.faults = Faults()
        super().__init__(self.faults)
        self.read = 0
        self.altered: list[tuple[int, int]] = []

    async def ensure_routes(self, name: str, routes: Collection[HostRoute]) -> None:
        self.read += 1
        await super().ensure_routes(name, routes)

    async def change_routes(
        self, name: str, gone: Collection[HostRoute], new: Collection[HostRoute]
    ) -> None:
        self.altered.append((len(gone), len(new)))
        await super().change_routes(name, gone, new)


@pytest.fixture
def links() -> Counting:
    return Counting()


@pytest.fixture
async def host_ports(links: Counting) -> HostPorts:
    ovsdb = FakeOvsdb(Faults(), links)
    known = HostUnderlay(HostLabel("h1"))
    return HostPorts(cast("Ovsdb", ovsdb), cast("KernelLinks", links), known)


def interface(*pods: str, routes: Collection[HostRoute] = (NETWORK,)) -> HostInterface:
    return HostInterface(
        bridge=Bridge.VXLAN,
        name="contivh0",
        owner="host",
        tag=2,
        ofport=1,
        mac="02:02:ac:13:ff:fe",
        addresses=[],
        routes=list(routes),
        pods=PodRoutes(frozenset(map(ip_address, pods)), PRIVATE, HOST),
    )


def subnets(links: Counting) -> set[str]:
    return {str(route.subnet) for route in links.routes["contivh0"]}


async def test_a_pod_more_is_a_route_more(links: Counting, host_ports: HostPorts) -> None:
    await host_ports.follow(lambda: interface("10.1.0.1", "10.1.0.2"))
    assert (links.read, links.altered) == (1, []), "nothing is known of the routes before"
    await host_ports.follow(lambda: interface("10.1.0.1", "10.1.0.2", "10.1.0.3"))
    await host_ports.follow(lambda: interface("10.1.0.3", "10.1.0.2"))
    await host_ports.follow(lambda: interface("10.1.0.3", "10.1.0.2"))
    assert (links.read, links.altered) == (1, [(0, 1), (1, 0)])
    assert subnets(links) == {"10.1.0.0/16", "10.1.0.2/32", "10.1.0.3/32"}


async def test_a_network_more_is_a_route_more(links: Counting, host_ports: HostPorts) -> None:
    await host_ports.follow(lambda: interface("10.1.0.1"))
    await host_ports.follow(lambda: interface("10.1.0.1", routes=(NETWORK, OTHER)))
    await host_ports.follow(lambda: interface("10.1.0.1", "10.1.0.2", routes=(OTHER,)))
    assert (links.read, links.altered) == (1, [(0, 1), (1, 1)])
    assert subnets(links) == {"10.2.0.0/16", "10.1.0.1/32", "10.1.0.2/32"}


async def test_another_source_sets_all_anew(links: Counting, host_ports: HostPorts) -> None:
    await host_ports.follow(lambda: interface("10.1.0.1"))
    moved = PodRoutes(frozenset({ip_address("10.1.0.1")}), PRIVATE, HOST + 1)
    await host_ports.follow(lambda: replace(interface(), pods=moved))
    assert (links.read, links.altered) == (2, [])
    assert {route.source for route in links.routes["contivh0"]} == {HOST, HOST + 1}


async def test_after_a_failure_all_are_set_anew(links: Counting, host_ports: HostPorts) -> None:
    await host_ports.follow(lambda: interface("10.1.0.1"))
    links.faults.failing["routes"] = HostError("busy")
    with pytest.raises(HostError, match="busy"):
        await host_ports.follow(lambda: interface("10.1.0.2"))
    links.faults.failing.clear()
    await host_ports.follow(lambda: interface("10.1.0.2"))
    assert links.read == 2
    assert subnets(links) == {"10.1.0.0/16", "10.1.0.2/32"}
