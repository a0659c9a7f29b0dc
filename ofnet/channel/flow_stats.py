"""Reads flows of services, and counters of any flows, from a switch's flow statistics. Pure.

In come the flow entries that `ofnet.channel.wire` cuts out of a reply; out come their matches and
counters. An agent that starts learns from them which providers the switch knows;
`ofnet.services.stats` and `ofnet.hits` report the counters. Received bytes are untrusted, as in
`wire`.
"""

import struct
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from ofnet.changes import ObjectKind
from ofnet.channel import wire
from ofnet.flows import COOKIE_MAGIC
from ofnet.openflow.fields import VRF
from ofnet.openflow.oxm import BASIC_CLASS, PROTO_TCP

COOKIE: Final = COOKIE_MAGIC << 56 | ObjectKind.SERVICE << 48
COOKIE_MASK: Final = 0xFFFF << 48

_ENTRY: Final = struct.Struct(">HBxIIHHHH4xQQQ")
_TLV: Final = struct.Struct(">HBB")
_PART: Final = struct.Struct(">HH")
_FIELDS: Final = {
    2: ("metadata", 8),
    10: ("ip_proto", 1),
    11: ("ipv4_src", 4),
    12: ("ipv4_dst", 4),
    13: ("tcp_src", 2),
    14: ("tcp_dst", 2),
    15: ("udp_src", 2),
    16: ("udp_dst", 2),
    26: ("ipv6_src", 16),
    27: ("ipv6_dst", 16),
}
"""Name and size in bytes of the match fields that are read, by OXM field number."""


class FlowEntry(NamedTuple):
    """A flow of a service: its match and its counters."""

    table: int
    packets: int
    bytes: int
    match: Mapping[str, int]

    @property
    def vrf(self) -> int:
        """The VRF it matches."""
        return self.match.get("metadata", 0) >> VRF.shift & (1 << VRF.width) - 1

    @property
    def protocol(self) -> int:
        """TCP or UDP."""
        return self.match.get("ip_proto", 0)

    def address(self, end: str) -> IPv4Address | IPv6Address | None:
        """Return the address it matches at the `src` or `dst` end."""
        if f"ipv4_{end}" in self.match:
            return IPv4Address(self.match[f"ipv4_{end}"])
        found = self.match.get(f"ipv6_{end}")
        return IPv6Address(found) if found is not None else None

    def port(self, end: str) -> int:
        """Return the port it matches at the `src` or `dst` end, 0 for any."""
        kind = "tcp" if self.protocol == PROTO_TCP else "udp"
        return self.match.get(f"{kind}_{end}", 0)


class FlowCount(NamedTuple):
    """How many packets and bytes a flow has handled since it was added."""

    cookie: int
    packets: int
    bytes: int
    table: int = 0
    priority: int = 0


def counts(body: bytes) -> tuple[list[FlowCount], bool]:
    """Return the counters of the flows of one part of a reply, and whether more parts follow.

    Raises MalformedOpenflow.
    """
    parts, more = wire.flow_entries(body)
    return [_count(wire.unpack(_ENTRY, part, 0)) for part in parts], more


def _count(head: tuple[int, ...]) -> FlowCount:
    _, table, _, _, priority, _, _, _, cookie, packets, counted = head
    return FlowCount(cookie, packets, counted, table, priority)


def entries(body: bytes) -> tuple[list[FlowEntry], bool]:
    """Return the flows of one part of a flow-stats reply, and whether more parts follow.

    Raises MalformedOpenflow.
    """
    parts, more = wire.flow_entries(body)
    return [_entry(part) for part in parts], more


def _entry(data: bytes) -> FlowEntry:
    _, table, *_, packets, counted = wire.unpack(_ENTRY, data, 0)
    kind, length = wire.unpack(_PART, data, _ENTRY.size)
    start, end = _ENTRY.size + _PART.size, _ENTRY.size + length
    if kind != 1 or length < _PART.size or end > len(data):
        raise wire.MalformedOpenflow(f"flow entry with a match of {length} bytes")
    return FlowEntry(table, packets, counted, dict(_oxms(data[start:end])))


def _oxms(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield the known fields, without their masks; padding ends them."""
    offset = 0
    while offset + _TLV.size <= len(data):
        oxm_class, field, length = wire.unpack(_TLV, data, offset)
        if not oxm_class:
            return
        value = data[offset + _TLV.size : offset + _TLV.size + length]
        if len(value) < length:
            raise wire.MalformedOpenflow(f"match field of {length} bytes")
        known = _FIELDS.get(field >> 1)
        if oxm_class == BASIC_CLASS and known is not None:
            name, size = known
            if length != size * (1 + (field & 1)):
                raise wire.MalformedOpenflow(f"{name} of {length} bytes")
            yield name, int.from_bytes(value[:size], "big")
        offset += _TLV.size + length
