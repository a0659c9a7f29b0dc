"""Which service a packet is for."""

from collections.abc import Iterator
from ipaddress import IPv4Address

from ofnet.openflow.packets import Segment
from ofnet.services.directory import ServiceDirectory
from ofnet.world import Bridge, FwdMode, ServicePort, World
from tests.unit.ofnet.serving import HTTP, VIP, having, service

PROVIDER = IPv4Address("10.1.0.2")
ROUTED = World(fwd_mode=FwdMode.ROUTING)


def to(port: int, *, protocol: int = 6) -> Segment:
    return Segment(
        protocol=protocol,
        source=IPv4Address("10.1.0.1"),
        destination=VIP,
        source_port=40000,
        destination_port=port,
    )


def knowing(world: World, bridge: Bridge = Bridge.VXLAN) -> ServiceDirectory:
    known = ServiceDirectory(bridge)
    known.update(world, world.services)
    return known


def key(known: ServiceDirectory, vrf: int, segment: Segment, world: World) -> str:
    found = known.find(vrf, segment, world)
    return found[0].key if found is not None else ""


def test_a_service_is_found_by_vrf_address_protocol_and_port() -> None:
    world = having(ROUTED, service(PROVIDER))
    known = knowing(world)
    assert known.find(1, to(80), world) == (world.services["web:default"], HTTP)
    assert key(known, 2, to(80), world) == ""
    assert key(known, 1, to(80, protocol=17), world) == ""
    assert key(known, 1, to(81), world) == ""


def test_one_without_providers_leaves_its_address_to_others() -> None:
    more = service(PROVIDER, key="z", vrf=0)
    world = having(ROUTED, service(key="a"), service(PROVIDER, key="b"), more)
    assert key(knowing(world), 1, to(80), world) == "b"
    assert key(knowing(world), 2, to(80), world) == "z"


def test_a_service_that_moves_or_goes_is_not_found_where_it_was() -> None:
    before = having(ROUTED, service(PROVIDER))
    known = knowing(before)
    moved = having(ROUTED, service(PROVIDER, address=VIP + 1, ports=(ServicePort(6, 80, 1),)))
    known.update(moved, moved.services)
    assert key(known, 1, to(80), moved) == ""
    known.update(ROUTED, before.services)
    assert not known.services


def test_routed_vlan_networks_are_one_space_and_nothing_else_is() -> None:
    world = having(ROUTED, service(PROVIDER, vrf=7))
    assert key(knowing(world, Bridge.VLAN), 3, to(80), world) == "web:default"
    assert knowing(world, Bridge.VLAN).switch_vrf(0, world) == 0
    assert key(knowing(world), 3, to(80), world) == ""
    bridged = having(World(fwd_mode=FwdMode.BRIDGE), service(PROVIDER, vrf=7))
    assert key(knowing(bridged, Bridge.VLAN), 3, to(80), bridged) == ""


def test_of_two_ports_of_one_number_the_first_counts() -> None:
    first, second = ServicePort(6, 80, 8080), ServicePort(6, 80, 9090)
    world = having(ROUTED, service(PROVIDER, ports=(first, second)))
    known = knowing(world)
    assert known.find(1, to(80), world) == (world.services["web:default"], first)
    assert known.ports(world.services["web:default"], 1, world) == (first,)


class Counted(tuple[ServicePort, ...]):  # noqa: SLOT001 - a tuple's can only be empty
    """Ports that count how often they are iterated."""

    times = 0

    def __iter__(self) -> Iterator[ServicePort]:
        self.times += 1
        return super().__iter__()


def test_a_port_is_found_without_scanning_the_others() -> None:
    ports = Counted(ServicePort(6, number, number) for number in range(1, 100))
    world = having(ROUTED, service(PROVIDER, ports=ports))
    known = knowing(world)
    ports.times = 0
    assert known.ports(world.services["web:default"], 1, world) == ports
    assert ports.times == 1
