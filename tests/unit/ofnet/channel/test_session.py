"""A session against a switch that answers late, wrongly, or not at all."""

import asyncio
import struct
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SwitchRefused, SwitchUnavailable
from ofnet.changes import ObjectKind
from ofnet.channel import wire
from ofnet.channel.requests import MAX_DUMP, FlowsRefused
from ofnet.channel.session import MAX_UNSENT, ChannelTiming, SwitchSession
from ofnet.channel.workload import Workload
from ofnet.diff import FlowStamp
from ofnet.flows import Flow
from ofnet.openflow.actions import DROP, Output
from ofnet.openflow.match import Match
from ofnet.tables import TableId
from tests.bed.waiting import WITHIN
from tests.unit.ofnet.fake_transport import FakeTransport

FLOWS = [Flow(ObjectKind.LOCAL, TableId.VLAN, 10, Match(in_port=n), DROP) for n in range(1, 5)]
GONE = [FlowStamp(1, 77)]
TABLE_FULL = struct.pack(">HH", 5, 1)
FEATURES = struct.pack(">QIBB2xII", 0xABC, 0, 254, 0, 0, 0)


class Recorder:
    """Records the events of a session."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.packets: list[wire.PacketIn] = []
        self.gone = asyncio.Event()
        self.refused = ""

    def refusal(self, transport: asyncio.BaseTransport) -> str:
        assert not transport.is_closing()
        return self.refused

    def on_ready(self, session: SwitchSession) -> None:
        self.events.append(f"ready {session.datapath_id:#x}")

    def on_lost(self, session: SwitchSession, reason: str) -> None:
        assert not session.open
        self.events.append(f"lost: {reason}")
        self.gone.set()

    def on_packet_in(self, session: SwitchSession, packet: wire.PacketIn) -> None:
        assert session.open
        self.packets.append(packet)

    def on_error(self, session: SwitchSession, text: str) -> None:
        assert session.open
        self.events.append(f"error: {text}")


class Peer:
    """A session and the switch's side of it."""

    def __init__(
        self,
        timing: ChannelTiming | None = None,
        *,
        workload: Workload | None = None,
        max_dump: int = MAX_DUMP,
    ) -> None:
        self.recorder = Recorder()
        self.transport = FakeTransport()
        self.session = SwitchSession(
            self.recorder, timing or ChannelTiming(), workload or Workload(), max_dump=max_dump
        )
        self.transport.connect(self.session)

    def says(self, kind: int, xid: int = 0, body: bytes = b"", *, version: int = 4) -> None:
        length = 8 + len(body)
        self.session.data_received(struct.pack(">BBHI", version, kind, length, xid) + body)

    def ready(self) -> "Peer":
        self.says(wire.HELLO, version=6)
        self.says(wire.FEATURES_REPLY, body=FEATURES)
        self.transport.sent()
        return self

    async def request(self) -> list[wire.OpenflowMessage]:
        """Return what the session sent, when it has sent something."""
        await self.transport.wrote.wait()
        return self.transport.sent()

    async def asked_to_dump(self, flows: int = 4) -> wire.OpenflowMessage:
        """Return the request for a dump, after telling how many flows there are."""
        [counting] = await self.request()
        table = struct.pack(">B3xIQQ", 0, flows, 0, 0)
        self.says(wire.MULTIPART_REPLY, counting.xid, struct.pack(">HH4x", 3, 0) + table)
        [request] = await self.request()
        return request

    async def lost(self) -> str:
        await self.recorder.gone.wait()
        return self.recorder.events[-1]


async def test_handshake() -> None:
    peer = Peer()
    assert [message.type for message in peer.transport.sent()] == [wire.HELLO]
    peer.says(wire.HELLO, version=6)
    assert [message.type for message in peer.transport.sent()] == [wire.FEATURES_REQUEST]
    assert not peer.recorder.events
    peer.says(wire.FEATURES_REPLY, body=FEATURES)
    assert peer.recorder.events == ["ready 0xabc"]
    assert [message.type for message in peer.transport.sent()] == [wire.SET_CONFIG]


async def test_a_peer_that_is_refused_is_told_nothing() -> None:
    recorder, transport = Recorder(), FakeTransport()
    recorder.refused = "another user"
    transport.connect(SwitchSession(recorder, ChannelTiming(), Workload()))
    assert transport.is_closing()
    assert not transport.sent()
    await recorder.gone.wait()
    assert recorder.events == ["lost: another user"]


async def test_echo_is_answered() -> None:
    peer = Peer().ready()
    peer.says(wire.ECHO_REQUEST, 9, b"data")
    assert peer.transport.sent() == [wire.OpenflowMessage(4, wire.ECHO_REPLY, 9, b"data")]


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda peer: peer.says(wire.HELLO, version=1), "version 1 instead of a hello"),
        (lambda peer: peer.says(wire.PACKET_IN), "type 10"),
        (lambda peer: peer.session.data_received(b"GET / HTTP/1.1\r\n\r\n"), "protocol violation"),
        (lambda peer: peer.ready().says(wire.PACKET_IN, body=b"x"), "ends early"),
        (lambda peer: peer.ready().says(wire.BARRIER_REPLY, version=1), "OpenFlow version 1"),
        (
            lambda peer: (
                peer.says(wire.HELLO),
                peer.says(wire.ERROR, body=struct.pack(">HH", 0, 0)),
            ),
            "handshake refused",
        ),
    ],
)
async def test_a_peer_that_breaks_the_protocol_is_dropped(
    break_it: Callable[[Peer], object], reason: str
) -> None:
    peer = Peer()
    break_it(peer)
    assert reason in await peer.lost()


async def test_messages_behind_a_violation_are_not_read() -> None:
    peer = Peer().ready()
    bad = struct.pack(">BBHI", 1, wire.ECHO_REQUEST, 8, 1)
    peer.session.data_received(bad + wire.message(wire.ECHO_REQUEST, 2))
    await peer.lost()
    assert not peer.transport.sent()


async def test_a_small_write_is_flow_mods_and_a_barrier_in_order() -> None:
    peer = Peer().ready()
    writing = asyncio.gather(peer.session.write_flows(FLOWS, GONE))
    sent = await peer.request()
    assert [message.type for message in sent] == [wire.FLOW_MOD] * 5 + [wire.BARRIER_REQUEST]
    assert sent[4].body == wire.flow_delete(GONE[0], 0)[8:]
    assert not writing.done()
    peer.says(wire.BARRIER_REPLY, sent[-1].xid)
    await writing


async def test_refused_flows_are_named() -> None:
    peer = Peer().ready()
    writing = asyncio.gather(peer.session.write_flows(FLOWS, GONE))
    sent = await peer.request()
    peer.says(wire.ERROR, sent[1].xid, TABLE_FULL)
    peer.says(wire.ERROR, sent[4].xid, TABLE_FULL)
    peer.says(wire.BARRIER_REPLY, sent[-1].xid)
    with pytest.raises(FlowsRefused, match="table full") as caught:
        await writing
    assert [flow for flow, _ in caught.value.flows] == [FLOWS[1]]


async def test_two_writes_at_once_get_their_own_answers() -> None:
    peer = Peer().ready()
    first = asyncio.gather(peer.session.write_flows(FLOWS[:2], []), return_exceptions=True)
    second = asyncio.gather(peer.session.write_flows(FLOWS[2:], []), return_exceptions=True)
    sent = await peer.request()
    mods = [message for message in sent if message.type == wire.FLOW_MOD]
    barriers = [message for message in sent if message.type == wire.BARRIER_REQUEST]
    peer.says(wire.ERROR, mods[3].xid, TABLE_FULL)
    for barrier in barriers:
        peer.says(wire.BARRIER_REPLY, barrier.xid)
    [acknowledged], [refusal] = await first, await second
    assert acknowledged is None
    assert isinstance(refusal, FlowsRefused)
    assert [flow for flow, _ in refusal.flows] == [FLOWS[3]]


async def bundle(peer: Peer, *, refuse: int | None) -> list[wire.OpenflowMessage]:
    """Play the switch for one bundle; return everything that was sent."""
    [opened] = await peer.request()
    peer.says(wire.EXPERIMENTER, opened.xid)
    added = await peer.request()
    if refuse is not None:
        peer.says(wire.ERROR, added[refuse].xid, TABLE_FULL)
    peer.says(wire.BARRIER_REPLY, added[-1].xid)
    [ended] = await peer.request()
    peer.says(wire.EXPERIMENTER, ended.xid)
    return [opened, *added, ended]


def bundle_request(message: wire.OpenflowMessage) -> int:
    return int.from_bytes(message.body[12:14], "big")


async def test_a_bundle_is_committed_when_nothing_was_refused() -> None:
    peer = Peer().ready()
    sent, _ = await asyncio.gather(
        bundle(peer, refuse=None), peer.session.write_bundle(FLOWS, GONE)
    )
    assert bundle_request(sent[0]) == wire.BUNDLE_OPEN
    assert [message.type for message in sent[1:-1]] == [wire.EXPERIMENTER] * 5 + [
        wire.BARRIER_REQUEST
    ]
    assert bundle_request(sent[-1]) == wire.BUNDLE_COMMIT


async def test_a_bundle_with_a_refused_flow_is_discarded() -> None:
    peer = Peer().ready()
    sent, outcome = await asyncio.gather(
        bundle(peer, refuse=2), peer.session.write_bundle(FLOWS, []), return_exceptions=True
    )
    assert isinstance(sent, list)
    assert bundle_request(sent[-1]) == wire.BUNDLE_DISCARD
    assert isinstance(outcome, FlowsRefused)
    assert [flow for flow, _ in outcome.flows] == [FLOWS[2]]


async def test_a_bundle_that_expired_half_sent_is_not_committed() -> None:
    peer = Peer().ready()
    writing = asyncio.gather(peer.session.write_bundle(FLOWS, []), return_exceptions=True)
    [opened] = await peer.request()
    peer.says(wire.EXPERIMENTER, opened.xid)
    [*_, barrier] = await peer.request()
    peer.says(wire.ERROR, opened.xid, struct.pack(">HH", 17, 6))
    peer.says(wire.BARRIER_REPLY, barrier.xid)
    [end] = await peer.request()
    assert bundle_request(end) == wire.BUNDLE_DISCARD
    peer.says(wire.EXPERIMENTER, end.xid)
    [outcome] = await writing
    assert isinstance(outcome, SwitchRefused)
    assert not isinstance(outcome, FlowsRefused)


async def test_a_flow_that_fails_the_commit_is_named() -> None:
    peer = Peer().ready()
    writing = asyncio.gather(peer.session.write_bundle(FLOWS, []), return_exceptions=True)
    [opened] = await peer.request()
    peer.says(wire.EXPERIMENTER, opened.xid)
    added = await peer.request()
    peer.says(wire.BARRIER_REPLY, added[-1].xid)
    [commit] = await peer.request()
    peer.says(wire.ERROR, added[0].xid, TABLE_FULL)
    peer.says(wire.ERROR, commit.xid, struct.pack(">HH", 17, 9))
    [outcome] = await writing
    assert isinstance(outcome, FlowsRefused)
    assert [flow for flow, _ in outcome.flows] == [FLOWS[0]]


async def test_a_switch_without_bundles_is_an_error_not_a_hang() -> None:
    peer = Peer().ready()
    writing = asyncio.gather(peer.session.write_bundle(FLOWS, []), return_exceptions=True)
    [opened] = await peer.request()
    peer.says(wire.ERROR, opened.xid, struct.pack(">HH", 1, 3))
    [outcome] = await writing
    assert isinstance(outcome, SwitchRefused)
    assert not isinstance(outcome, FlowsRefused)


def report(stamps: list[FlowStamp], *, more: bool) -> bytes:
    entries = [
        struct.pack(">HB21xQ", 56, stamp.table, stamp.cookie) + bytes(24) for stamp in stamps
    ]
    return struct.pack(">HH4x", 1, int(more)) + b"".join(entries)


async def test_a_dump_is_put_together_from_its_parts() -> None:
    peer = Peer().ready()
    dumping = asyncio.gather(peer.session.dump())
    request = await peer.asked_to_dump()
    peer.says(wire.MULTIPART_REPLY, request.xid, report([FlowStamp(1, 2)], more=True))
    peer.says(wire.MULTIPART_REPLY, request.xid + 1, report([FlowStamp(9, 9)], more=False))
    assert not dumping.done()
    peer.says(wire.MULTIPART_REPLY, request.xid, report([FlowStamp(3, 4)], more=False))
    [stamps] = await dumping
    assert stamps == [FlowStamp(1, 2), FlowStamp(3, 4)]


async def test_an_endless_dump_is_dropped() -> None:
    peer = Peer(max_dump=10).ready()
    dumping = asyncio.gather(peer.session.dump(), return_exceptions=True)
    request = await peer.asked_to_dump()
    for _ in range(2):
        part = report([FlowStamp(1, 2)] * 6, more=True)
        peer.says(wire.MULTIPART_REPLY, request.xid, part)
    assert "more than 10 flows" in await peer.lost()
    [outcome] = await dumping
    assert isinstance(outcome, SwitchUnavailable)


async def test_a_lost_connection_fails_what_waits() -> None:
    peer = Peer().ready()
    waiting = asyncio.gather(
        peer.session.dump(),
        peer.session.write_flows(FLOWS, []),
        peer.session.write_bundle(FLOWS, []),
        return_exceptions=True,
    )
    await peer.request()
    peer.session.connection_lost(ConnectionResetError("reset"))
    assert [type(outcome) for outcome in await waiting] == [SwitchUnavailable] * 3
    with pytest.raises(SwitchUnavailable):
        await peer.session.dump()


async def test_an_answer_that_does_not_come_ends_the_connection() -> None:
    peer = Peer(ChannelTiming(reply=0.01)).ready()
    with pytest.raises(SwitchUnavailable, match=r"did not answer within 0\.0102 s"):
        await peer.session.write_flows(FLOWS, [])
    assert "no answer in time" in await peer.lost()


async def test_a_silent_switch_gets_an_echo_request_and_is_dropped() -> None:
    peer = Peer(ChannelTiming(handshake=1.0, echo=0.01, silence=0.05)).ready()
    assert "silent" in await asyncio.wait_for(peer.lost(), WITHIN)
    assert wire.ECHO_REQUEST in {message.type for message in peer.transport.sent()}


QUICK = ChannelTiming(handshake=1.0, echo=0.01, silence=0.05, reply=0.05)


async def asked_for_long(peer: Peer) -> None:
    """Return when the session has asked for an answer for more than twice its limits."""
    asked = 0
    while asked < 20:
        asked += sum(message.type == wire.ECHO_REQUEST for message in await peer.request())


async def test_a_switch_at_work_may_be_silent_on_all_its_bridges() -> None:
    work = Workload(per_flow=1000.0)
    idle, busy = (Peer(QUICK, workload=work).ready() for _ in range(2))
    writing = asyncio.gather(busy.session.write_flows(FLOWS, GONE))
    [*_, barrier] = await busy.request()
    await asyncio.wait_for(asked_for_long(idle), WITHIN)
    assert idle.session.open
    assert busy.session.open
    busy.says(wire.BARRIER_REPLY, barrier.xid)
    await writing
    # it may still be at the messages of the other bridge that came meanwhile
    await asyncio.wait_for(asked_for_long(idle), WITHIN)
    assert idle.session.open
    for peer in idle, busy:
        peer.says(wire.ECHO_REPLY)
        assert "silent" in await asyncio.wait_for(peer.lost(), WITHIN)


async def test_a_request_waits_for_the_work_of_another_bridge() -> None:
    work = Workload(per_flow=1000.0)
    peer = Peer(QUICK, workload=work).ready()
    asking = asyncio.gather(peer.session.groups())
    [request] = await peer.request()
    with work.of(1):
        await asyncio.wait_for(asked_for_long(peer), WITHIN)
    assert not asking.done()
    peer.says(wire.MULTIPART_REPLY, request.xid, struct.pack(">HH4x", 7, 0))
    [found] = await asking
    assert not found


async def test_a_dump_may_take_its_time_for_all_flows() -> None:
    peer = Peer(QUICK, workload=Workload(per_flow=1000.0)).ready()
    counting = asyncio.gather(peer.session.counts(ObjectKind.RULE))
    request = await peer.asked_to_dump(flows=1)
    await asyncio.wait_for(asked_for_long(peer), WITHIN)
    assert peer.session.open
    peer.says(wire.MULTIPART_REPLY, request.xid, report([], more=False))
    [found] = await counting
    assert not found


def compute(seconds: float) -> None:
    """Keep the event loop from reading anything."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def test_a_busy_agent_does_not_take_the_switch_for_silent() -> None:
    peer = Peer(QUICK).ready()
    await peer.request()
    compute(2 * QUICK.silence)
    [echo] = await asyncio.wait_for(peer.request(), WITHIN)
    assert echo.type == wire.ECHO_REQUEST
    assert "silent" in await asyncio.wait_for(peer.lost(), WITHIN)


MANY = [Flow(ObjectKind.LOCAL, TableId.VLAN, 10, Match(in_port=n), DROP) for n in range(1, 602)]


async def test_a_bundle_waits_for_a_switch_that_reads_slowly() -> None:
    peer = Peer().ready()
    writing = asyncio.gather(peer.session.write_bundle(MANY, []))
    [opened] = await peer.request()
    peer.session.pause_writing()
    peer.says(wire.EXPERIMENTER, opened.xid)
    first = await peer.request()
    assert len(first) < len(MANY)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not peer.transport.sent()
    peer.session.resume_writing()
    rest: list[wire.OpenflowMessage] = []
    while not rest or rest[-1].type != wire.BARRIER_REQUEST:
        rest += await peer.request()
    assert len(first) + len(rest) == len(MANY) + 1
    peer.says(wire.BARRIER_REPLY, rest[-1].xid)
    [commit] = await peer.request()
    peer.says(wire.EXPERIMENTER, commit.xid)
    await writing


async def test_a_bundle_that_waits_fails_with_the_connection() -> None:
    peer = Peer().ready()
    writing = asyncio.gather(peer.session.write_bundle(MANY, []), return_exceptions=True)
    [opened] = await peer.request()
    peer.session.pause_writing()
    peer.says(wire.EXPERIMENTER, opened.xid)
    await peer.request()
    peer.session.connection_lost(ConnectionResetError("reset"))
    [outcome] = await writing
    assert isinstance(outcome, SwitchUnavailable)


async def test_a_handshake_that_does_not_end_is_dropped() -> None:
    peer = Peer(ChannelTiming(handshake=0.01))
    assert "handshake not completed" in await asyncio.wait_for(peer.lost(), WITHIN)


async def test_an_error_that_answers_no_request_is_passed_on() -> None:
    peer = Peer().ready()
    peer.says(wire.ERROR, 4711, TABLE_FULL)
    assert peer.recorder.events[-1].startswith("error: table full")


async def test_packets_for_a_switch_that_does_not_read_are_dropped() -> None:
    peer = Peer().ready()
    assert peer.session.send_packet(b"frame", (Output(3),), in_port=1)
    peer.transport.unsent = MAX_UNSENT + 1
    assert not peer.session.send_packet(b"frame", (Output(3),), in_port=1)
    assert [message.type for message in peer.transport.sent()] == [wire.PACKET_OUT]


async def test_request_numbers_start_again_before_they_run_out() -> None:
    peer = Peer().ready()
    peer.session._requests.next_xid = wire.MAX_XID - 2
    writing = asyncio.gather(peer.session.write_flows(FLOWS, []))
    sent = await peer.request()
    assert [message.xid for message in sent] == [1, 2, 3, 4, 5]
    peer.says(wire.BARRIER_REPLY, 5)
    await writing


@given(st.binary(max_size=300))
def test_no_input_raises_into_the_event_loop(data: bytes) -> None:
    async def feed() -> None:
        Peer().session.data_received(data)
        peer = Peer().ready()
        peer.session.data_received(data)
        for kind in (wire.PACKET_IN, wire.MULTIPART_REPLY, wire.ERROR, wire.ECHO_REQUEST):
            Peer().ready().says(kind, 1, data)

    asyncio.run(feed())
