"""Reads the flows of service clients from a switch's flow statistics. Pure.

In come the flow entries that `ofnet.channel.wire` cuts out of a reply; out come their matches,
actions and counters, as far as tables 3 and 6 use them. An agent that starts restores the clients'
providers from these flows (`reported_clients`); `ofnet.services.stats` reports their counters.
Received bytes are untrusted, as in `wire`.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address
from typing import Final, NamedTuple

from ofnet.changes import ObjectKind
from ofnet.channel import wire
from ofnet.flows import COOKIE_MAGIC
from ofnet.openflow.fields import VRF
from ofnet.openflow.oxm import BASIC_CLASS, PROTO_TCP
from ofnet.openflow.packets import Segment
from ofnet.tables import TableId

COOKIE: Final = COOKIE_MAGIC << 56 | ObjectKind.SERVED << 48
COOKIE_MASK: Final = 0xFFFF << 48

_ENTRY: Final = struct.Struct(">HBxIIHHHH4xQQQ")
_TLV: Final = struct.Struct(">HBB")
_PART: Final = struct.Struct(">HH")
_APPLY_ACTIONS: Final = 4
_SET_FIELD: Final = 25
_FIELDS: Final = {
    2: ("metadata", 8),
    10: ("ip_proto", 1),
    11: ("ipv4_src", 4),
    12: ("ipv4_dst", 4),
    13: ("tcp_src", 2),
    14: ("tcp_dst", 2),
    15: ("udp_src", 2),
    16: ("udp_dst", 2),
}
"""Name and size in bytes of the match fields that are read, by OXM field number."""


class FlowEntry(NamedTuple):
    """A flow of a service's client: its match, the fields it sets, and its counters."""

    table: int
    packets: int
    bytes: int
    match: Mapping[str, int]
    sets: Mapping[str, int]

    @property
    def vrf(self) -> int:
        """The VRF it matches."""
        return self.match.get("metadata", 0) >> VRF.shift & (1 << VRF.width) - 1

    @property
    def protocol(self) -> int:
        """TCP or UDP."""
        return self.match.get("ip_proto", 0)

    def address(self, name: str) -> IPv4Address:
        """Return an address that it matches."""
        return IPv4Address(self.match.get(name, 0))

    def set_address(self, name: str) -> IPv4Address:
        """Return an address that it sets."""
        return IPv4Address(self.sets.get(name, 0))

    def port(self, end: str) -> int:
        """Return the port it matches at the `src` or `dst` end, 0 for any."""
        return self.match.get(_port_of(self.protocol, end), 0)

    def set_port(self, end: str) -> int:
        """Return the port it sets at the `src` or `dst` end, 0 for none."""
        return self.sets.get(_port_of(self.protocol, end), 0)


class ReportedClient(NamedTuple):
    """A client of a service with its provider, as the switch's flows have them.

    `source` is the client's port where the flow is for one connection, else 0. `address` is the
    service's; for a direct connection it is the provider's own.
    """

    vrf: int
    client: IPv4Address
    address: IPv4Address
    protocol: int
    port: int
    source: int
    provider: IPv4Address

    @property
    def segment(self) -> Segment:
        """What the client sent."""
        return Segment(
            protocol=self.protocol,
            source=self.client,
            destination=self.address,
            source_port=self.source,
            destination_port=self.port,
        )


# The switch is the only store of assignments. A client's provider need not survive its host, and an
# agent that restarts beside a running switch finds in its flows exactly the assignments that open
# connections depend on; a file beside it could differ from them.
def reported_clients(entries: Iterable[FlowEntry]) -> Iterator[ReportedClient]:
    """Yield the clients with their providers, from the flows of table 3."""
    for entry in entries:
        if entry.table != TableId.SRV_PROXY_DNAT or not entry.port("dst"):
            continue
        if entry.set_port("dst") or entry.port("src"):
            yield ReportedClient(
                vrf=entry.vrf,
                client=entry.address("ipv4_src"),
                address=entry.address("ipv4_dst"),
                protocol=entry.protocol,
                port=entry.port("dst"),
                source=entry.port("src"),
                provider=entry.set_address("ipv4_dst")
                if entry.set_port("dst")
                else entry.address("ipv4_dst"),
            )


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
    match = dict(_oxms(data[start:end]))
    sets = dict(_set_fields(data[end + -length % 8 :]))
    return FlowEntry(table, packets, counted, match, sets)


def _set_fields(instructions: bytes) -> Iterator[tuple[str, int]]:
    for kind, instruction in _parts(instructions):
        if kind == _APPLY_ACTIONS:
            for action, body in _parts(instruction[4:]):
                if action == _SET_FIELD:
                    yield from _oxms(body)


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of structures that begin with their type and length."""
    offset = 0
    while offset < len(data):
        kind, length = wire.unpack(_PART, data, offset)
        if length < _PART.size or offset + length > len(data):
            raise wire.MalformedOpenflow(f"part of {length} bytes")
        yield kind, data[offset + _PART.size : offset + length]
        offset += length


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


def _port_of(protocol: int, end: str) -> str:
    return f"tcp_{end}" if protocol == PROTO_TCP else f"udp_{end}"
