"""Services for tests, in the World of `tests.unit.ofnet.pipelines.scene`."""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

from ofnet.flows import Flow
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, Provider, Service, ServicePort, World
from tests.unit.ofnet.pipelines.scene import world
from tests.unit.ofnet.walk import flows_of

VIP = IPv4Address("10.1.0.200")
VIP6 = IPv6Address("2001:db8::c8")
Address = IPv4Address | IPv6Address


def service(
    *providers: Address,
    key: str = "web:default",
    address: Address = VIP,
    vrf: int = 1,
    protocol: int = 6,
    port: int = 80,
    affinity: int = 0,
    draining: Iterable[Address] = (),
) -> Service:
    """Return a service with one port, provided at port 8080 of pods in VRF 1."""
    found, keep = (
        frozenset(Provider(one, 8080, 1) for one in some) for some in (providers, draining)
    )
    ports = (ServicePort(protocol, port, found, keep),)
    return Service(key=key, vrf=vrf, address=address, ports=ports, affinity=affinity)


def having(here: World, *services: Service) -> World:
    """Return a World with these services."""
    return replace(here, services={one.key: one for one in services})


def flows_of_services(
    *services: Service, mode: FwdMode = FwdMode.ROUTING, bridge: Bridge = Bridge.VXLAN
) -> list[Flow]:
    """Return all flows of a World that has these services."""
    return flows_of(having(world(mode, vxlan=bridge is Bridge.VXLAN), *services), bridge)


def lines(flows: list[Flow], *tables: TableId) -> list[str]:
    """Return the flows of some tables as Open vSwitch prints them, without misses."""
    return sorted(str(one) for one in flows if one.table in tables and one.priority > 1)
