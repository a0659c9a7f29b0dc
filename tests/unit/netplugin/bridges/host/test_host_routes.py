"""The host's routes to its pods, and what is said where one cannot be made."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from core.ids import EndpointKey
from netplugin.bridges.host.host_routes import NEXT_HOP6, PodRoutes, faults, neighbours
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.world.cluster_endpoints.host_routes import Contested
from ofnet.pipelines.packet_path.stages import ROUTER_MAC

PRIVATE = IPv4Network("172.19.0.0/16")
HOST = IPv4Address("192.168.2.10")
FOUR, SIX = IPv4Address("10.1.0.1"), IPv6Address("fd00::1")
NEXT_HOP = IPv4Address("172.19.255.253")


def test_each_pod_has_a_route_of_its_own() -> None:
    assert PodRoutes(frozenset({SIX, FOUR}), PRIVATE, HOST).all() == [
        HostRoute(subnet=IPv4Network("10.1.0.1/32"), source=HOST, via=NEXT_HOP),
        HostRoute(subnet=IPv6Network("fd00::1/128"), source=None, via=NEXT_HOP6),
    ]
    assert neighbours({SIX, FOUR}, PRIVATE) == {NEXT_HOP: ROUTER_MAC, NEXT_HOP6: ROUTER_MAC}
    assert neighbours({FOUR}, PRIVATE) == {NEXT_HOP: ROUTER_MAC}, "the host may have no IPv6"
    assert neighbours([IPv6Network("fd00::/64")], PRIVATE) == {NEXT_HOP6: ROUTER_MAC}


def test_both_pods_of_an_address_are_named() -> None:
    ours, theirs = EndpointKey("n.red-a"), EndpointKey("n.blue-b")
    (fault,) = faults([Contested(FOUR, ours, (theirs,))])
    assert "10.1.0.1" in fault
    assert "reaches n.red-a, not n.blue-b" in fault
