"""The endpoint of a bridge: which connection is used, and which events are passed on."""

import asyncio
import socket
import struct

import pytest

from core.errors import SwitchUnavailable
from ofnet.changes import ObjectKind
from ofnet.channel import wire
from ofnet.channel.session import SwitchSession
from ofnet.channel.switch import MAX_HANDSHAKES, SMALL, Switch
from ofnet.diff import FlowStamp
from ofnet.flows import Flow
from ofnet.openflow.actions import DROP, Output
from ofnet.openflow.match import Match
from ofnet.pipelines.features import policy_class
from ofnet.tables import TableId
from ofnet.world import FwdMode, PolicyClass, World
from tests.unit.ofnet.channel.wire import packet_in_bytes
from tests.unit.ofnet.fake_transport import FakeTransport


class Recorder:
    """Records the events of a bridge."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_connected(self) -> None:
        self.events.append("connected")

    def on_disconnected(self) -> None:
        self.events.append("lost")

    def on_packet_in(self, packet: wire.PacketIn) -> None:
        self.events.append(f"packet on {packet.in_port}")

    def on_error(self, text: str) -> None:
        self.events.append(text)


class Dialler:
    """A switch that dials in."""

    def __init__(self, switch: Switch, peer: "Peer | None" = None) -> None:
        self.transport = FakeTransport(peer)
        self.session: SwitchSession = switch._accept()
        self.transport.connect(self.session)

    def says(self, kind: int, body: bytes = b"") -> None:
        self.session.data_received(wire.message(kind, 1, body))

    def ready(self, datapath_id: int = 1) -> "Dialler":
        self.says(wire.HELLO)
        self.says(wire.FEATURES_REPLY, struct.pack(">QIBB2xII", datapath_id, 0, 254, 0, 0, 0))
        return self

    def lost(self) -> None:
        self.session.connection_lost(None)


def up(switch: Switch) -> bool:
    return switch.connected


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def switch(recorder: Recorder) -> Switch:
    switch = Switch("test")
    switch.attach(recorder)
    return switch


async def test_a_switch_counts_once_its_handshake_is_complete(
    switch: Switch, recorder: Recorder
) -> None:
    dialler = Dialler(switch)
    assert not up(switch)
    with pytest.raises(SwitchUnavailable, match="no switch is connected for bridge test"):
        await switch.session.dump()
    dialler.ready()
    assert up(switch)
    assert recorder.events == ["connected"]


async def test_the_newest_connection_replaces_the_old(switch: Switch, recorder: Recorder) -> None:
    old = Dialler(switch).ready()
    new = Dialler(switch).ready()
    assert old.transport.is_closing()
    assert not new.transport.is_closing()
    old.lost()
    assert up(switch)
    assert recorder.events == ["connected", "connected"]
    new.lost()
    assert not up(switch)
    assert recorder.events[2:] == ["lost"]


async def test_events_of_the_replaced_connection_are_ignored(
    switch: Switch, recorder: Recorder
) -> None:
    old = Dialler(switch).ready()
    new = Dialler(switch).ready()
    recorder.events.clear()
    old.says(wire.PACKET_IN, packet_in_bytes(b"x", in_port=3))
    new.says(wire.PACKET_IN, packet_in_bytes(b"x", in_port=4))
    new.says(wire.ERROR, struct.pack(">HH", 6, 1))
    assert recorder.events == ["packet on 4", "group refused (type 6, code 1)"]


async def test_only_the_expected_datapath_is_let_in(recorder: Recorder) -> None:
    switch = Switch("test", datapath_id=7)
    switch.attach(recorder)
    stranger = Dialler(switch).ready(8)
    assert stranger.transport.is_closing()
    assert not recorder.events
    Dialler(switch).ready(7)
    assert up(switch)


class Peer:
    """A socket whose other end is a process of a user."""

    def __init__(self, uid: int) -> None:
        self._uid = uid

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option, size) == (socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return struct.pack("3i", 1, self._uid, 1)


@pytest.mark.parametrize(
    ("peer", "reason"),
    [(Peer(1000), "not the switch's user: 1000"), (None, "not the switch's user: unknown")],
)
async def test_another_user_is_dropped_before_the_handshake(
    recorder: Recorder, peer: Peer | None, reason: str
) -> None:
    switch = Switch("test", users={0, 106})
    switch.attach(recorder)
    for uid in (0, 106):
        assert not Dialler(switch, Peer(uid)).ready().transport.is_closing()
    stranger = Dialler(switch, peer)
    assert stranger.transport.is_closing()
    assert not stranger.transport.sent()
    await asyncio.sleep(0)  # the loop reports the loss
    assert switch.counters[f"lost: {reason.partition(':')[0]}"] == 1
    assert up(switch)


async def test_connections_without_a_handshake_do_not_pile_up(switch: Switch) -> None:
    diallers = [Dialler(switch) for _ in range(MAX_HANDSHAKES + 1)]
    assert [dialler.transport.is_closing() for dialler in diallers].count(True) == 1
    assert not diallers[-1].transport.is_closing()


async def test_nothing_to_apply_sends_nothing(switch: Switch) -> None:
    dialler = Dialler(switch).ready()
    dialler.transport.sent()
    await switch.apply([], [])
    assert not dialler.transport.sent()


@pytest.mark.parametrize(("count", "kind"), [(SMALL, "flow-mods"), (SMALL + 1, "bundle")])
async def test_many_flows_go_in_a_bundle(switch: Switch, count: int, kind: str) -> None:
    dialler = Dialler(switch).ready()
    dialler.transport.sent()
    flows = [
        Flow(ObjectKind.LOCAL, TableId.VLAN, 10, Match(in_port=port), DROP)
        for port in range(1, count + 1)
    ]
    applying = switch.apply(flows, [])
    applying.send(None)
    first = dialler.transport.sent()[0]
    assert first.type == (wire.FLOW_MOD if kind == "flow-mods" else wire.EXPERIMENTER)
    with pytest.raises(SwitchUnavailable):
        applying.throw(SwitchUnavailable("enough"))


async def test_a_group_changes_its_class_in_a_bundle(switch: Switch) -> None:
    """Packets in between would meet some rules of the class it left and some of the other."""
    dialler = Dialler(switch).ready()
    for number in (3, 4):
        dialler.transport.sent()
        flows = [*policy_class.flows(PolicyClass(5, number), World(fwd_mode=FwdMode.ROUTING))]
        stamps = [FlowStamp(flow.table, flow.cookie) for flow in flows]
        applying = switch.apply(*((flows, []) if number == 3 else ([], stamps)))
        applying.send(None)
        assert dialler.transport.sent()[0].type == wire.EXPERIMENTER
        with pytest.raises(SwitchUnavailable):
            applying.throw(SwitchUnavailable("enough"))


@pytest.mark.parametrize(
    ("table", "count", "first"),
    [
        (TableId.POLICY, 1, wire.FLOW_MOD),
        (TableId.POLICY, 2, wire.EXPERIMENTER),
        (TableId.VLAN, 2, wire.FLOW_MOD),
    ],
)
async def test_rules_go_together(switch: Switch, table: TableId, count: int, first: int) -> None:
    """A deny that went before an allow below it would let pass what is denied by a new rule."""
    dialler = Dialler(switch).ready()
    dialler.transport.sent()
    applying = switch.apply([], [FlowStamp(table, cookie) for cookie in range(count)])
    applying.send(None)
    assert dialler.transport.sent()[0].type == first
    with pytest.raises(SwitchUnavailable):
        applying.throw(SwitchUnavailable("enough"))


async def test_a_packet_without_a_switch_is_counted(switch: Switch) -> None:
    switch.send_packet(b"x", (Output(1),), in_port=2)
    assert switch.counters["packet_out_dropped"] == 1
    Dialler(switch).ready()
    switch.send_packet(b"x", (Output(1),), in_port=2)
    assert switch.counters["packet_out"] == 1


async def test_a_listener_that_is_not_started_has_no_port(switch: Switch) -> None:
    with pytest.raises(SwitchUnavailable, match="not started"):
        _ = switch.port
