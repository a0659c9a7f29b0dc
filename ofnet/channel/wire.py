"""Encodes and decodes OpenFlow 1.3 messages. Pure.

`ofnet.channel.session` owns the connection. Received bytes are untrusted: a message that
contradicts itself raises MalformedOpenflow, and nothing is read past its end.
"""

# An encoder of its own instead of os-ken's, for bulk: a flow-mod takes about 25 microseconds from
# its match to its bytes, with os-ken's classes 160 to 200 (`bench/flows.py` measures the install of
# 10 000 flows as a whole). Matches and instructions are packed when they are made and shared, so
# that encoding here is one `struct` and a concatenation. A dump reads two fields at fixed offsets
# of each entry and decodes no match. The bytes are compared with os-ken's in
# `tests/unit/ofnet/channel/test_wire.py`.

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ofnet.diff import FlowStamp
from ofnet.flows import AnyFlow, priority_of, table_of
from ofnet.openflow.actions import PORT_CONTROLLER, PacketAction
from ofnet.openflow.match import Match

VERSION: Final = 4
_NEWEST_VERSION: Final = 6
MAX_XID: Final = 0xFFFFFFFF

HELLO: Final = 0
ERROR: Final = 1
ECHO_REQUEST: Final = 2
ECHO_REPLY: Final = 3
EXPERIMENTER: Final = 4
FEATURES_REQUEST: Final = 5
FEATURES_REPLY: Final = 6
SET_CONFIG: Final = 9
PACKET_IN: Final = 10
PACKET_OUT: Final = 13
FLOW_MOD: Final = 14
GROUP_MOD: Final = 15
MULTIPART_REQUEST: Final = 18
MULTIPART_REPLY: Final = 19
BARRIER_REQUEST: Final = 20
BARRIER_REPLY: Final = 21
METER_MOD: Final = 29

BUNDLE_OPEN: Final = 0
BUNDLE_COMMIT: Final = 4
BUNDLE_DISCARD: Final = 6
_BUNDLE_ATOMIC_ORDERED: Final = 0b11

_HEADER: Final = struct.Struct(">BBHI")
_FLOW_MOD: Final = struct.Struct(">BBHIQQBBHHHIIIHH")
_FLOW_ADD: Final = struct.Struct(">2sHIQ8xBx4xH12s4x")
"""A `_FLOW_MOD` that adds: what is the same in all of them is packed already, or zero."""

_BUNDLE: Final = struct.Struct(">BBHIIIIHH")
_IN_BUNDLE: Final = struct.Struct(">2sHI8sI4s")
"""A `_BUNDLE` around a flow-mod, likewise."""

_PACKET_OUT: Final = struct.Struct(">BBHIIIH6x")
_PACKET_IN: Final = struct.Struct(">IHBBQ")
_FEATURES: Final = struct.Struct(">QIBB2xII")
_MULTIPART: Final = struct.Struct(">HH4x")
PARTS: Final = _MULTIPART.size
"""Where the entries of a multipart reply begin."""
_FLOW_REQUEST: Final = struct.Struct(">B3xII4xQQ")
_FLOW_ENTRY: Final = struct.Struct(">HB21xQ")
_TABLE_ENTRY: Final = struct.Struct(">B3xIQQ")
_TLV: Final = struct.Struct(">HBB")
_PAIR: Final = struct.Struct(">HH")

_FRAGMENTS_WITH_PORTS: Final = 3
"""OFPC_FRAG_NX_MATCH, an extension by Open vSwitch."""

_WHOLE_PACKETS: Final = 0xFFFF
_NO_BUFFER: Final = 0xFFFFFFFF
_ANY: Final = 0xFFFFFFFF
_ALL_TABLES: Final = 0xFF
_EXACT_COOKIE: Final = 0xFFFFFFFFFFFFFFFF
_DELETE: Final = 3
_FLOW_STATS: Final = 1
_TABLE_STATS: Final = 3
_MORE: Final = 1
_ONF: Final = 0x4F4E4600
_BUNDLE_CONTROL: Final = 2300
_BUNDLE_ADD: Final = 2301
_FLOW_MOD_KIND: Final = struct.pack(">BB", VERSION, FLOW_MOD)
_ALL: Final = struct.pack(">III", _NO_BUFFER, _ANY, _ANY)
_EXPERIMENTER_KIND: Final = struct.pack(">BB", VERSION, EXPERIMENTER)
_ADD_TO: Final = struct.pack(">II", _ONF, _BUNDLE_ADD)
_ORDERED: Final = struct.pack(">HH", 0, _BUNDLE_ATOMIC_ORDERED)
_FLOW_ENTRY_MIN: Final = 56
_ANY_MATCH: Final = Match().wire


class MalformedOpenflow(ValueError):
    """A received message is not valid OpenFlow 1.3."""


class OpenflowMessage(NamedTuple):
    """One received message."""

    version: int
    type: int
    xid: int
    body: bytes


class PacketIn(NamedTuple):
    """A packet that a flow sent to the controller; `tunnel_id` is None without a tunnel.

    `cookie` is the flow's, `metadata` what the packet had there.
    """

    table: int
    in_port: int
    tunnel_id: int | None
    data: bytes
    cookie: int = 0
    metadata: int = 0


def frames(buffer: bytearray) -> Iterator[OpenflowMessage]:
    """Take complete messages off the front of the buffer and yield them."""
    start = 0
    try:
        while len(buffer) - start >= _HEADER.size:
            version, kind, length, xid = _HEADER.unpack_from(buffer, start)
            if not 1 <= version <= _NEWEST_VERSION:
                raise MalformedOpenflow("this is not OpenFlow")
            if length < _HEADER.size:
                raise MalformedOpenflow(f"message of type {kind} claims {length} bytes")
            if len(buffer) - start < length:
                return
            body = bytes(buffer[start + _HEADER.size : start + length])
            start += length
            yield OpenflowMessage(version, kind, xid, body)
    finally:
        del buffer[:start]


def message(kind: int, xid: int, body: bytes = b"") -> bytes:
    """Return a message with an opaque body: hello, echo, features request, barrier."""
    return _HEADER.pack(VERSION, kind, _HEADER.size + len(body), xid) + body


def set_config(xid: int) -> bytes:
    """Return the message that has first fragments match by their ports, and later ones by 0.

    Without it (Open vSwitch's default) the ports of every fragment are 0.
    """
    return message(SET_CONFIG, xid, _PAIR.pack(_FRAGMENTS_WITH_PORTS, _WHOLE_PACKETS))


def flow_add(flow: AnyFlow, xid: int) -> bytes:
    """Return the flow-mod that adds a flow, or replaces the one with the same key."""
    body, key = flow.wire, flow.key
    length = _FLOW_ADD.size + len(body)
    where = table_of(key), priority_of(key)
    return _FLOW_ADD.pack(_FLOW_MOD_KIND, length, xid, flow.cookie, *where, _ALL) + body


def flow_delete(stamp: FlowStamp, xid: int) -> bytes:
    """Return the flow-mod that deletes every flow of that table with that cookie."""
    length = _FLOW_MOD.size + len(_ANY_MATCH)
    return (
        _FLOW_MOD.pack(
            *(VERSION, FLOW_MOD, length, xid, stamp.cookie, _EXACT_COOKIE, stamp.table, _DELETE),
            *(0, 0, 0, _NO_BUFFER, _ANY, _ANY, 0, 0),
        )
        + _ANY_MATCH
    )


def in_bundle(bundle: int, xid: int, mod: bytes) -> bytes:
    """Return the flow-mod wrapped as part of a bundle; both carry the same xid."""
    length = _IN_BUNDLE.size + len(mod)
    return _IN_BUNDLE.pack(_EXPERIMENTER_KIND, length, xid, _ADD_TO, bundle, _ORDERED) + mod


def bundle_control(bundle: int, xid: int, request: int) -> bytes:
    """Return the message that opens, commits or discards a bundle."""
    return _BUNDLE.pack(
        *(VERSION, EXPERIMENTER, _BUNDLE.size, xid, _ONF, _BUNDLE_CONTROL, bundle),
        *(request, _BUNDLE_ATOMIC_ORDERED),
    )


def flow_dump(xid: int, *, cookie: int = 0, mask: int = 0) -> bytes:
    """Return the request for all flows whose cookies equal `cookie` under `mask`."""
    asked = _FLOW_REQUEST.pack(_ALL_TABLES, _ANY, _ANY, cookie, mask) + _ANY_MATCH
    return multipart_request(_FLOW_STATS, xid, asked)


def table_dump(xid: int) -> bytes:
    """Return the request for the number of flows in each table, which costs a switch little."""
    return multipart_request(_TABLE_STATS, xid)


def packet_out(
    xid: int, data: bytes, actions: Sequence[PacketAction], *, in_port: int = PORT_CONTROLLER
) -> bytes:
    """Return the message that sends a packet out as if it had been received on `in_port`."""
    packed = b"".join([action.pack() for action in actions])
    length = _PACKET_OUT.size + len(packed) + len(data)
    head = _PACKET_OUT.pack(VERSION, PACKET_OUT, length, xid, _NO_BUFFER, in_port, len(packed))
    return head + packed + data


def datapath_id(body: bytes) -> int:
    """Return the datapath id of a features reply."""
    dpid, *_ = unpack(_FEATURES, body, 0)
    return int(dpid)


def error_text(body: bytes) -> str:
    """Return the text of an error message: its name, type and code."""
    kind, code = unpack(_PAIR, body, 0)
    name = _ERRORS.get((kind, code), _ERROR_TYPES.get(kind, "error"))
    return f"{name} (type {kind}, code {code})"


def stamps(body: bytes) -> tuple[list[FlowStamp], bool]:
    """Return the flows of one part of a flow-stats reply, and whether more parts follow."""
    out, more = [], has_more(body, _FLOW_STATS)
    for offset, _ in _entry_places(body):
        _, table, cookie = unpack(_FLOW_ENTRY, body, offset)
        out.append(FlowStamp(table, cookie))
    return out, more


def flow_entries(body: bytes) -> tuple[list[bytes], bool]:
    """Return the bytes of each flow of one part of a flow-stats reply, and whether more follow."""
    more = has_more(body, _FLOW_STATS)
    return [body[offset : offset + length] for offset, length in _entry_places(body)], more


def _entry_places(body: bytes) -> Iterator[tuple[int, int]]:
    offset = PARTS
    while offset < len(body):
        length, _, _ = unpack(_FLOW_ENTRY, body, offset)
        if length < _FLOW_ENTRY_MIN or offset + length > len(body):
            raise MalformedOpenflow(f"flow entry of {length} bytes")
        yield offset, length
        offset += length


def flow_counts(body: bytes) -> tuple[list[int], bool]:
    """Return the number of flows in each table of one part of a reply, and whether more follow."""
    more = has_more(body, _TABLE_STATS)
    places = range(PARTS, len(body), _TABLE_ENTRY.size)
    return [unpack(_TABLE_ENTRY, body, place)[1] for place in places], more


def multipart_request(kind: int, xid: int, asked: bytes = b"") -> bytes:
    """Return a request of a type of multipart message, with what it asks for."""
    return message(MULTIPART_REQUEST, xid, _MULTIPART.pack(kind, 0) + asked)


def has_more(body: bytes, kind: int) -> bool:
    """Return whether other parts of a reply follow this one, whose entries begin at `PARTS`.

    Raises MalformedOpenflow for a reply of another type.
    """
    found, flags = unpack(_MULTIPART, body, 0)
    if found != kind:
        raise MalformedOpenflow(f"multipart reply of type {found} was not requested")
    return bool(flags & _MORE)


def packet_in(body: bytes) -> PacketIn:
    """Return a packet-in's table, port, tunnel and data."""
    _buffer, total, _reason, table, cookie = unpack(_PACKET_IN, body, 0)
    kind, length = unpack(_PAIR, body, _PACKET_IN.size)
    start = _PACKET_IN.size
    data = start + length + -length % 8 + 2
    if kind != 1 or length < 4 or data > len(body):
        raise MalformedOpenflow(f"packet-in with a match of {length} bytes")
    known = _input(body[start + 4 : start + length])
    in_port, tunnel, metadata = known.get(_IN_PORT, 0), known.get(_TUNNEL), known.get(_METADATA, 0)
    return PacketIn(table, in_port, tunnel, body[data : data + total], cookie, metadata)


_IN_PORT, _METADATA, _TUNNEL = 0, 2, 38
"""The numbers of the fields that are read of a packet-in."""


def _input(oxms: bytes) -> dict[int, int]:
    """Return the fields of OpenFlow by their numbers."""
    found, offset = dict[int, int](), 0
    while offset < len(oxms):
        oxm_class, field, length = unpack(_TLV, oxms, offset)
        offset += _TLV.size
        value = oxms[offset : offset + length]
        if len(value) < length:
            raise MalformedOpenflow(f"match field of {length} bytes")
        if oxm_class == 0x8000:
            found[field >> 1] = int.from_bytes(value, "big")
        offset += length
    return found


def unpack(form: struct.Struct, data: bytes, offset: int) -> tuple[int, ...]:
    """Unpack a structure at an offset. Raises MalformedOpenflow past the end of the data."""
    try:
        return form.unpack_from(data, offset)
    except struct.error as exc:
        raise MalformedOpenflow(f"message of {len(data)} bytes ends early") from exc


_ERROR_TYPES: Final = {
    1: "bad request",
    2: "bad action",
    3: "bad instruction",
    4: "bad match",
    5: "flow refused",
    6: "group refused",
    12: "meter refused",
    0xFFFF: "experimenter error",
}
_ERRORS: Final = {
    (2, 4): "bad output port",
    (2, 9): "bad group",
    (4, 9): "match field without its prerequisite",
    (5, 1): "table full",
    (5, 2): "no such table",
    (5, 4): "not permitted",
}
