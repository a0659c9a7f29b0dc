"""What a bridge may have of an object whose address hosts need for themselves, and what is said."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest

from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.change_signal import ChangeSignal
from netplugin.world.bridges.management_ends import ManagementEnds
from netplugin.world.bridges.spared import Spared
from netplugin.world.management import management_ports
from ofnet.changes import EVERYTHING, Changes, ObjectId, ObjectKind
from ofnet.packets.announcements import Announcements
from ofnet.world import (
    AccessPort,
    Bridge,
    FwdMode,
    LocalEndpoint,
    RemoteEndpoint,
    Router,
    Service,
    ServicePort,
    World,
)
from state.underlay import AddressKind, UnderlayAddress
from tests.unit.netplugin.worlds import EachChange
from tests.unit.ofnet.worlds import ip_of, local, remote

MASTER = IPv4Address("10.1.0.1")
HTTP, REST = ServicePort(6, 80), ServicePort(6, 9999)
SPARED = Spared(
    {MASTER: UnderlayAddress(MASTER, AddressKind.CONTROL, "master 10.1.0.1:9999")},
    ManagementEnds(frozenset({ip_network(MASTER)}), management_ports([9999])),
)
ROUTER = Router(ofport=903, mac="52:54:00:00:00:01", ip=MASTER, peer=IPv4Address("10.1.0.9"))
ACCESS = AccessPort(ofport=8, mac="02:02:ac:13:00:07", ip=MASTER)


def test_physical_networks_have_no_such_endpoint() -> None:
    for one in (SPARED.local(Bridge.VLAN, here()), SPARED.remote(Bridge.VLAN, there())):
        assert one.value is None
        (fault,) = one.faults
        assert "has 10.1.0.1, the control address of master 10.1.0.1:9999: nothing is" in fault


def test_in_its_vrf_it_is_reached_by_pods_alone() -> None:
    held, (fault,) = SPARED.local(Bridge.VXLAN, here())
    assert held == replace(here(), routed=frozenset())
    assert "this host does not reach it; delete it" in fault
    assert SPARED.remote(Bridge.VXLAN, there()).value == replace(there(), routed=False)


def test_others_stay_as_they_are() -> None:
    for bridge in Bridge:
        for one in (local(2), replace(local(2), routed=frozenset({ip_of(local(2))}))):
            assert SPARED.local(bridge, one) == (one, ())
        assert SPARED.remote(bridge, remote(2)) == (remote(2), ())


def test_a_private_address_is_the_underlays_too() -> None:
    asked = replace(local(2), nat_ip=MASTER)
    held, (fault,) = SPARED.local(Bridge.VXLAN, asked)
    assert held == replace(asked, nat_ip=None)
    assert fault.endswith("give the cluster another private subnet")
    assert SPARED.access(ACCESS).value is None
    assert SPARED.access(replace(ACCESS, ip=IPv4Address("172.19.0.7"))).faults == ()


def test_a_nodes_address_is_left_to_the_node_whatever_services_have_it() -> None:
    own = Service(key="web:t1", vrf=1, address=MASTER, ports=(HTTP,))
    assert SPARED.service(own).value is None
    shared = replace(own, key=f"shop/web@{MASTER}", vrf=0, ports=(HTTP, REST))
    held, (fault,) = SPARED.service(shared)
    assert held is None
    assert fault == (
        "service shop/web not served in full: 10.1.0.1 port 9999 is of the management of this "
        "cluster"
    )
    assert SPARED.service(replace(shared, ports=(HTTP,))) == (None, ())


def test_what_is_allowed_as_it_is_is_not_withheld() -> None:
    elsewhere = IPv4Address("10.1.0.77")
    for vrf in (0, 1):
        asked = Service(key="web", vrf=vrf, address=elsewhere, ports=(HTTP,))
        assert SPARED.service(asked).value is asked


def test_no_service_of_kubernetes_has_a_port_of_the_management_elsewhere() -> None:
    shared = Service(key=f"shop/web@{MASTER}", vrf=0, address=MASTER, ports=(HTTP, REST))
    held, _ = replace(SPARED, addresses={}).service(shared)
    assert held == replace(shared, ports=(HTTP,))


def test_no_router_of_bgp_has_such_an_address() -> None:
    assert SPARED.router(ROUTER).value is None
    free = replace(ROUTER, ip=IPv4Address("50.1.1.1"))
    assert SPARED.router(free).faults == ()
    master6 = IPv6Address("fd50::1")
    spared = Spared(
        {master6: UnderlayAddress(master6, AddressKind.CONTROL, "master [fd50::1]:9999")}
    )
    assert spared.router(replace(free, global6=master6)).value is None


@pytest.fixture
def state() -> BridgeState:
    """Give the state of a vlan bridge with all that takes the address, as it is asked for."""
    state = BridgeState(Bridge.VLAN, ChangeSignal())
    state.set_endpoint(here().key, here(), None)
    state.set_router(ROUTER)
    state.set_access(here().key, ACCESS)
    state.set_service("web:t1", Service(key="web:t1", vrf=1, address=MASTER, ports=(HTTP,)))
    state.take(NONE)
    return state


NONE = World(fwd_mode=FwdMode.BRIDGE)


def test_what_is_known_of_the_underlay_is_marked_and_comes_back(state: BridgeState) -> None:
    before = state.take(NONE)[0]
    state.spare(SPARED)
    world, changes = state.take(NONE)
    assert (world.local, world.router, world.access, world.services) == ({}, None, {}, {})
    assert world.barred == {here().key: here().ofport}
    assert {one.kind for one in changes.objects} == {
        *(ObjectKind.LOCAL, ObjectKind.BARRED, ObjectKind.ROUTER),
        *(ObjectKind.ACCESS, ObjectKind.SERVICE),
    }
    assert len(state.faults()) == 4
    state.spare(Spared())
    assert state.take(NONE)[0] == before
    assert state.faults() == []


def test_a_fault_ends_with_its_object() -> None:
    told: list[int] = []
    state = BridgeState(Bridge.VLAN, EachChange(lambda: told.append(1)))
    state.spare(SPARED)
    state.take(NONE)
    state.set_endpoint(there().key, None, there())
    assert len(state.faults()) == 1
    assert state.take(NONE)[1] == Changes(), "no flow comes of it"
    told.clear()
    state.set_endpoint(there().key, None, None)
    assert state.faults() == []
    assert told, "who shows faults looks again"


def test_a_barred_endpoint_is_not_announced(state: BridgeState) -> None:
    due = Announcements(Bridge.VLAN, NONE)
    due.update(state.take(NONE)[0], EVERYTHING)
    assert len(due.take_new().learned) == 1
    state.spare(SPARED)
    due.update(state.take(NONE)[0], Changes(objects=frozenset({BARRED})))
    due.repeat(here().key)
    assert due.take_new() == ([], [])


BARRED = ObjectId(ObjectKind.BARRED, local(1).key)


def here() -> LocalEndpoint:
    return replace(local(1), routed=frozenset({MASTER}))


def there() -> RemoteEndpoint:
    return remote(1)
