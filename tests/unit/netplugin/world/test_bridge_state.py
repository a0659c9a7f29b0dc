"""What a bridge has to realise, and that no change of it goes unmarked."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network

import pytest

from netplugin.world.bridge_state import BridgeState
from ofnet.changes import Changes, ObjectKind
from ofnet.world import AccessPort, FwdMode, HostPort, Router, Uplink, Vtep, World
from tests.unit.netplugin.records import PEER, key

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
    state = BridgeState(changed=lambda: None)
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
