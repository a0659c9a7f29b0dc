"""What a bridge has to realise, and that no change of it goes unmarked."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from ipaddress import IPv4Address, IPv4Network

import pytest

from core.collections.overlay import SMALL, Overlay
from core.ids import GroupKey, NetworkId
from netplugin.world.bridges.bridge_state import BridgeState, check_sources
from netplugin.world.bridges.change_signal import ChangeSignal
from ofnet.changes import Changes, ObjectKind
from ofnet.world import (
    AccessPort,
    Bridge,
    FwdMode,
    HostPort,
    Network,
    PolicyClass,
    PolicySubject,
    Router,
    Rule,
    Uplink,
    Vtep,
    World,
)
from tests.unit.netplugin.records import PEER, key
from tests.unit.netplugin.worlds import EachChange
from tests.unit.ofnet.worlds import NET, network, remote

NONE = World(fwd_mode=FwdMode.ROUTING)
TUNNEL = Vtep(host=PEER, ip=IPv4Address("192.0.2.2"), ofport=7)
HOST_PORT = HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))
UPLINK = Uplink(ofport=900, mac="52:54:00:00:00:01")
ROUTER = Router(
    ofport=903, mac=UPLINK.mac, ip=IPv4Address("192.0.2.1"), peer=IPv4Address("192.0.2.254")
)
ACCESS = AccessPort(ofport=8, mac="02:02:ac:13:00:07", ip=IPv4Address("172.19.0.7"))
PREFIX = IPv4Network("10.9.0.0/16")


@pytest.fixture
def state() -> BridgeState:
    """Give the state of a bridge with nothing to take."""
    state = BridgeState(Bridge.VLAN, ChangeSignal())
    state.take(NONE)
    return state


@pytest.mark.parametrize(
    ("change", "back", "kind"),
    [
        (
            lambda s: s.set_access(key("c1"), ACCESS),
            lambda s: s.set_access(key("c1"), None),
            ObjectKind.ACCESS,
        ),
        (
            lambda s: s.set_peer_mac(PEER, "m"),
            lambda s: s.set_peer_mac(PEER, None),
            ObjectKind.PEER,
        ),
        (lambda s: s.set_vteps({PEER: TUNNEL}), lambda s: s.set_vteps({}), ObjectKind.VTEP),
        (
            lambda s: s.set_host_port(HOST_PORT),
            lambda s: s.set_host_port(None),
            ObjectKind.HOST_PORT,
        ),
        (lambda s: s.set_uplinks([UPLINK]), lambda s: s.set_uplinks([]), ObjectKind.UPLINKS),
        (lambda s: s.set_router(ROUTER), lambda s: s.set_router(None), ObjectKind.ROUTER),
        (lambda s: s.set_routes({PREFIX: "m"}), lambda s: s.set_routes({}), ObjectKind.ROUTE),
        (
            lambda s: s.set_learning(learning=True),
            lambda s: s.set_learning(learning=False),
            ObjectKind.ROUTER,
        ),
    ],
)
def test_what_changes_is_marked_and_nothing_else(
    state: BridgeState,
    change: Callable[[BridgeState], None],
    back: Callable[[BridgeState], None],
    kind: ObjectKind,
) -> None:
    before, _ = state.take(NONE)
    for step in (change, back):
        step(state)
        assert state.dirty
        world, changes = state.take(NONE)
        assert (world == before) is (step is back)
        names = changes.names(kind)
        assert names
        assert changes == Changes.of(kind, names)
        step(state)
        assert not state.dirty


def test_tunnel_ports_are_replaced_as_a_whole(state: BridgeState) -> None:
    other = Vtep(host=PEER, ip=TUNNEL.ip, ofport=9)
    state.set_vteps({PEER: TUNNEL})
    state.set_vteps({PEER: other})
    world, changes = state.take(NONE)
    assert world.vteps == {PEER: other}
    assert changes == Changes.of(ObjectKind.VTEP, {PEER})


def test_policies_come_with_the_first_network_and_go_with_the_last(state: BridgeState) -> None:
    rules = {"r": Rule(id="r", priority=1, allow=False)}
    subjects = {"s": PolicySubject(1, IPv4Address("10.1.0.2"))}
    classes = {GroupKey("web:red"): PolicyClass(5, 3)}
    cluster = replace(NONE, rules=rules, policy_classes=classes, policy_subjects=subjects)
    one, two = (Network(id=NetworkId(name), vrf=1, vlan=1, vni=1) for name in ("n1", "n2"))

    state.alter_rules(rules, classes)
    state.alter_kube_policies((), subjects)
    assert not state.dirty, "there is nothing to judge"

    state.set_network(one.id, one)
    world, changes = state.take(cluster)
    assert (world.rules, world.policy_subjects) == (rules, subjects)
    assert world.policy_classes == classes
    assert changes.everything

    state.set_network(two.id, two)
    state.set_network(one.id, None)
    state.alter_rules(rules, classes)
    world, changes = state.take(cluster)
    assert world.rules == rules
    assert not changes.everything
    assert changes.names(ObjectKind.RULE) == {"r"}
    assert changes.names(ObjectKind.POLICY_CLASS) == {"web:red"}

    state.set_network(two.id, None)
    world, changes = state.take(cluster)
    assert (world.rules, world.policy_subjects) == ({}, {})
    assert not world.policy_classes
    assert changes.everything


def test_a_world_keeps_what_it_had_and_shares_what_did_not_change(state: BridgeState) -> None:
    state.set_vteps({PEER: TUNNEL})
    state.set_access(key("c1"), ACCESS)
    before, _ = state.take(NONE)
    state.set_access(key("c1"), None)
    after, _ = state.take(NONE)
    assert (before.access, after.access) == ({key("c1"): ACCESS}, {})
    assert before.vteps == after.vteps == {PEER: TUNNEL}
    assert before.vteps is after.vteps


def test_worlds_share_the_many_endpoints_of_other_hosts(state: BridgeState) -> None:
    far = {one.key: one for one in map(remote, range(2 * SMALL))}
    for one in far.values():
        state.set_endpoint(one.key, None, one)
    state.set_network(NET, network())
    before, _ = state.take(NONE)
    assert isinstance(before.remote, dict)
    gone, moved, new = remote(1), replace(remote(2), host=PEER), remote(2 * SMALL)
    state.set_endpoint(gone.key, None, None)
    state.set_endpoint(moved.key, None, moved)
    state.set_endpoint(new.key, None, new)
    after, changes = state.take(NONE)
    assert isinstance(after.remote, Overlay)
    assert before.remote == far
    wanted = {**far, moved.key: moved, new.key: new}
    del wanted[gone.key]
    assert after.remote == wanted
    assert {one.name for one in changes.objects} == {gone.key, moved.key, new.key}
    # all endpoints behind a tunnel port are looked for
    state.set_vteps({PEER: TUNNEL})
    assert isinstance(state.take(NONE)[0].remote, dict)
    for number in range(10):
        assert after.remote.get(remote(number).key) == wanted.get(remote(number).key)


def test_an_observer_that_takes_at_once_gets_the_change() -> None:
    taken: list[World] = []
    observed = BridgeState(Bridge.VLAN, EachChange(lambda: taken.append(observed.take(NONE)[0])))
    for number in range(2 * SMALL):
        observed.set_endpoint(remote(number).key, None, remote(number))
    assert len(taken[-1].remote) == 2 * SMALL
    observed.set_endpoint(remote(1).key, None, None)
    assert remote(1).key not in taken[-1].remote
    assert remote(1).key in taken[-2].remote


@dataclass(frozen=True, slots=True, kw_only=True)
class Wider(World):
    flood_ports: tuple[int, ...] = ()


def test_a_field_of_the_world_without_a_source_is_an_error() -> None:
    with pytest.raises(TypeError, match="flood_ports"):
        check_sources(Wider)


def test_a_source_of_no_field_and_two_sources_of_one_are_errors() -> None:
    names = [field.name for field in fields(World)]
    check_sources(World, names)
    for wrong in ([*names, "flood_ports"], [*names, "routes"]):
        with pytest.raises(TypeError, match=wrong[-1]):
            check_sources(World, wrong)
