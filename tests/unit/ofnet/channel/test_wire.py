"""OpenFlow messages: encoded as os-ken encodes them, decoded whatever their bytes are."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_parser, ofproto_v1_3
from os_ken.ofproto import ofproto_v1_3_parser as reference

from ofnet.changes import ObjectKind
from ofnet.channel import wire
from ofnet.diff import FlowStamp
from ofnet.flows import Flow
from ofnet.openflow.actions import DROP, PORT_CONTROLLER, PORT_TABLE, Output
from ofnet.openflow.match import Match
from ofnet.tables import TableId
from tests.unit.ofnet.channel.wire import DATAPATH, packed, packet_in_bytes

FLOW = Flow(ObjectKind.LOCAL, TableId.VLAN, 10, Match(in_port=3), DROP)


def reference_add(flow: Flow) -> Any:
    return reference.OFPFlowMod(
        DATAPATH,
        cookie=flow.cookie,
        table_id=flow.table,
        priority=flow.priority,
        out_port=ofproto_v1_3.OFPP_ANY,
        out_group=ofproto_v1_3.OFPG_ANY,
        match=reference.OFPMatch(in_port=3),
        instructions=[],
    )


def test_add_is_that_of_os_ken() -> None:
    assert wire.flow_add(FLOW, 7) == packed(reference_add(FLOW), 7)


def test_fragments_are_to_be_matched_as_open_vswitch_names_it() -> None:
    """OFPC_FRAG_NX_MATCH is 3 (openflow-common.h); os-ken has no name for it."""
    expected = reference.OFPSetConfig(DATAPATH, flags=3, miss_send_len=0xFFFF)
    assert wire.set_config(7) == packed(expected, 7)


def test_delete_is_that_of_os_ken() -> None:
    expected = reference.OFPFlowMod(
        DATAPATH,
        cookie=FLOW.cookie,
        cookie_mask=0xFFFFFFFFFFFFFFFF,
        table_id=1,
        command=ofproto_v1_3.OFPFC_DELETE,
        priority=0,
        out_port=ofproto_v1_3.OFPP_ANY,
        out_group=ofproto_v1_3.OFPG_ANY,
    )
    assert wire.flow_delete(FlowStamp(1, FLOW.cookie), 8) == packed(expected, 8)


def test_bundle_messages_are_those_of_os_ken() -> None:
    flags = ofproto_v1_3.ONF_BF_ATOMIC | ofproto_v1_3.ONF_BF_ORDERED
    for request, number in (
        (wire.BUNDLE_OPEN, ofproto_v1_3.ONF_BCT_OPEN_REQUEST),
        (wire.BUNDLE_COMMIT, ofproto_v1_3.ONF_BCT_COMMIT_REQUEST),
        (wire.BUNDLE_DISCARD, ofproto_v1_3.ONF_BCT_DISCARD_REQUEST),
    ):
        control = reference.ONFBundleCtrlMsg(DATAPATH, 3, number, flags, [])
        assert wire.bundle_control(3, 9, request) == packed(control, 9)
    inner = reference_add(FLOW)
    inner.set_xid(10)
    added = reference.ONFBundleAddMsg(DATAPATH, 3, flags, inner, [])
    assert wire.in_bundle(3, 10, wire.flow_add(FLOW, 10)) == packed(added, 10)


def test_other_requests_are_those_of_os_ken() -> None:
    assert wire.message(wire.HELLO, 1) == packed(reference.OFPHello(DATAPATH), 1)
    assert wire.message(wire.BARRIER_REQUEST, 2) == packed(reference.OFPBarrierRequest(DATAPATH), 2)
    assert wire.flow_dump(3) == packed(reference.OFPFlowStatsRequest(DATAPATH), 3)
    out = reference.OFPPacketOut(
        DATAPATH,
        buffer_id=ofproto_v1_3.OFP_NO_BUFFER,
        in_port=PORT_CONTROLLER,
        actions=[reference.OFPActionOutput(PORT_TABLE, 0)],
        data=b"frame",
    )
    assert wire.packet_out(4, b"frame", (Output(PORT_TABLE),)) == packed(out, 4)


def test_packet_in_is_read() -> None:
    body = packet_in_bytes(b"abc", in_port=14, tunnel_id=10001, metadata=5)
    assert wire.packet_in(body) == wire.PacketIn(3, 14, 10001, b"abc", 5, 5)
    whole = struct.pack(">BBHI", 4, wire.PACKET_IN, 8 + len(body), 1) + body
    theirs = ofproto_parser.msg(DATAPATH, 4, wire.PACKET_IN, len(whole), 1, whole)
    assert (theirs.match["in_port"], theirs.table_id, bytes(theirs.data)) == (14, 3, b"abc")
    assert wire.packet_in(packet_in_bytes(b"", in_port=2)) == wire.PacketIn(3, 2, None, b"", 5)


def entry(table: int, cookie: int, *, extra: int = 0) -> bytes:
    return struct.pack(">HB21xQ", 56 + extra, table, cookie) + bytes(24 + extra)


def test_flow_entries_are_read() -> None:
    body = struct.pack(">HH4x", 1, 1) + entry(1, 5) + entry(7, 6, extra=16)
    assert wire.stamps(body) == ([FlowStamp(1, 5), FlowStamp(7, 6)], True)
    assert wire.stamps(struct.pack(">HH4x", 1, 0)) == ([], False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        struct.pack(">HH4x", 2, 0),
        struct.pack(">HH4x", 1, 0) + entry(1, 1)[:-1],
        struct.pack(">HH4x", 1, 0) + struct.pack(">HB21xQ", 0, 1, 1) + bytes(24),
        struct.pack(">HH4x", 1, 0) + struct.pack(">HB21xQ", 0xFFFF, 1, 1) + bytes(24),
    ],
)
def test_a_broken_flow_report_is_malformed(body: bytes) -> None:
    with pytest.raises(wire.MalformedOpenflow):
        wire.stamps(body)


@given(st.binary(max_size=200))
def test_whatever_comes_in_is_read_or_malformed(body: bytes) -> None:
    for read in (wire.packet_in, wire.stamps, wire.error_text, wire.datapath_id):
        try:
            read(body)
        except wire.MalformedOpenflow:
            continue


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 30)))
def test_messages_survive_any_fragmentation(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(wire.message(wire.ECHO_REQUEST, n, body) for n, body in enumerate(bodies))
    buffer, got = bytearray(), []
    while stream:
        size = cuts.pop() if cuts else len(stream)
        buffer += stream[:size]
        stream = stream[size:]
        got += list(wire.frames(buffer))
    assert [(message.xid, message.body) for message in got] == list(enumerate(bodies))
    assert not buffer


def test_a_message_shorter_than_its_header_is_malformed() -> None:
    buffer = bytearray(struct.pack(">BBHI", 4, 2, 7, 1))
    with pytest.raises(wire.MalformedOpenflow, match="claims 7 bytes"):
        list(wire.frames(buffer))


def test_errors_have_names() -> None:
    assert wire.error_text(struct.pack(">HH", 5, 1)) == "table full (type 5, code 1)"
    assert wire.error_text(struct.pack(">HH", 4, 7)) == "bad match (type 4, code 7)"
    assert wire.error_text(struct.pack(">HH", 99, 7)) == "error (type 99, code 7)"
