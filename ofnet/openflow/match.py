"""Matches of flows: frozen values with their OpenFlow 1.3 bytes and OVS text.

A match is packed once, when it is made, however many flows share it: thousands are made when an
agent starts.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from operator import call, itemgetter
from typing import Any, Final, NamedTuple, Self, TypedDict, Unpack

from ofnet.openflow import oxm
from ofnet.openflow.fields import Bits, CtState, Flags, Fragment, Ports

PADDING: Final = tuple(bytes(-length % 8) for length in range(8))
"""Zero bytes that bring a length to a multiple of eight, by the length modulo eight."""

_HEAD: Final = struct.Struct(">HH")


class MatchFields(TypedDict, total=False):
    """The fields of a match; one that is left out is not matched. MAC text may have a mask."""

    in_port: int
    metadata: Bits
    eth_dst: str
    eth_src: str
    eth_type: int
    vlan_vid: int
    ip_dscp: int
    ip_proto: int
    ipv4_src: IPv4Address | IPv4Network
    ipv4_dst: IPv4Address | IPv4Network
    tcp_src: int | Ports
    tcp_dst: int | Ports
    udp_src: int | Ports
    udp_dst: int | Ports
    sctp_dst: int | Ports
    arp_op: int
    arp_spa: IPv4Address | IPv4Network
    arp_tpa: IPv4Address | IPv4Network
    arp_sha: str
    icmp_type: int
    icmpv6_type: int
    ipv6_src: IPv6Address | IPv6Network
    ipv6_dst: IPv6Address | IPv6Network
    nd_target: IPv6Address | IPv6Network
    tunnel_id: int
    tcp_flags: Flags
    ip_frag: Fragment
    conj_id: int
    ct_state: CtState
    ct_zone: int
    ct_nw_proto: int
    ct_nw_dst: IPv4Address | IPv4Network
    ct_ipv6_dst: IPv6Address | IPv6Network
    ct_tp_src: int
    ct_tp_dst: int
    reg0: int
    reg1: int
    reg2: int
    reg3: int
    reg4: int


class _Shape(NamedTuple):
    """The names of a match, in the order of the field numbers and as a set, and how to pack it."""

    order: tuple[str, ...]
    names: frozenset[str]
    pick: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    """Returns the values of the fields in the order of the field numbers."""

    packers: tuple[Callable[[Any], bytes], ...]


class _Content(NamedTuple):
    shape: _Shape
    """Shared by all matches of the same fields: there are a dozen."""

    values: tuple[Any, ...]
    wire: bytes
    """The `ofp_match` structure, padded to eight bytes."""


class Match(_Content):
    """The fields a packet must have: `Match(in_port=3, …)`; a tuple for speed (`ofnet.flows`)."""

    __slots__ = ()

    def __new__(cls, **fields: Unpack[MatchFields]) -> Self:
        """Put the fields in order and pack them."""
        shape = _shape(tuple(fields))
        values = shape.pick(fields)
        body = b"".join(map(call, shape.packers, values))
        head, padding = _frame(len(body))
        return tuple.__new__(cls, (shape, values, head + body + padding))

    @property
    def fields(self) -> tuple[tuple[str, Any], ...]:
        """Name and value of each field, in the order of the field numbers."""
        return tuple(zip(self.shape.order, self.values, strict=True))

    def but(self, **fields: Unpack[MatchFields]) -> "Match":
        """Return the same match with other values of some fields."""
        return Match(**{**dict(self.fields), **fields})

    @property
    def names(self) -> frozenset[str]:
        """The names of the fields."""
        return self.shape.names

    def __str__(self) -> str:
        values = dict(self.fields)
        shorthand, implied = _shorthand(values)
        parts = [_field_text(name, values[name]) for name in _TEXT_FIRST if name in values]
        parts += [shorthand] if shorthand else []
        for name in _TEXT_ORDER:
            if name in values and name not in implied:
                parts.append(_field_text(name, values[name]))
        return ",".join(parts)


def matches_by(name: str, **fields: Unpack[MatchFields]) -> Callable[[Any], Match]:
    """Return what makes the matches that differ in the value of one field alone.

    What they share is packed here, once: `matches_by("ipv4_dst", eth_type=0x0800)(address)` is
    `Match(ipv4_dst=address, eth_type=0x0800)`, in a third of the time.
    """
    shape = _shape((*fields, name))
    place = shape.order.index(name)
    others = [fields[one] for one in shape.order if one != name]  # type: ignore[literal-required]
    first, last = tuple(others[:place]), tuple(others[place:])
    before = b"".join(map(call, shape.packers[:place], first))
    pack = shape.packers[place]
    after = b"".join(map(call, shape.packers[place + 1 :], last))

    def match(value: Any) -> Match:
        body = before + pack(value) + after
        head, padding = _frame(len(body))
        return _new(Match, (shape, (*first, value, *last), head + body + padding))

    return match


_new: Final = tuple.__new__
_PACK: Final = {name: known.pack for name, known in oxm.FIELDS.items()}
_NUMBERS: Final = {name: number for number, name in enumerate(oxm.FIELDS)}

_TEXT_FIRST: Final = (
    *("conj_id", "ct_state", "ct_zone", "ct_nw_dst", "ct_ipv6_dst"),
    *("ct_nw_proto", "ct_tp_src", "ct_tp_dst"),
)
"""What Open vSwitch prints before the kind of packet."""

_TEXT_ORDER: Final = (
    *("reg0", "reg1", "reg2", "reg3", "reg4"),
    *("tunnel_id", "metadata", "in_port", "vlan_vid", "eth_src", "eth_dst", "eth_type"),
    *("ipv4_src", "ipv4_dst", "arp_spa", "arp_tpa", "ipv6_src", "ipv6_dst", "ip_proto", "arp_op"),
    *(
        "arp_sha",
        "ip_dscp",
        "ip_frag",
        "tcp_src",
        "udp_src",
        "tcp_dst",
        "udp_dst",
        "sctp_dst",
        "icmp_type",
        "icmpv6_type",
    ),
    *("nd_target", "tcp_flags"),
)
_ETHERTYPES: Final = {oxm.ETH_IPV4: "ip", oxm.ETH_ARP: "arp", oxm.ETH_IPV6: "ipv6"}
_TRANSPORTS: Final = {
    (oxm.ETH_IPV4, oxm.PROTO_ICMP): "icmp",
    (oxm.ETH_IPV6, oxm.PROTO_ICMP6): "icmp6",
    (oxm.ETH_IPV4, oxm.PROTO_TCP): "tcp",
    (oxm.ETH_IPV4, oxm.PROTO_UDP): "udp",
    (oxm.ETH_IPV6, oxm.PROTO_TCP): "tcp6",
    (oxm.ETH_IPV6, oxm.PROTO_UDP): "udp6",
    (oxm.ETH_IPV4, oxm.PROTO_SCTP): "sctp",
    (oxm.ETH_IPV6, oxm.PROTO_SCTP): "sctp6",
}


def _field_text(name: str, value: Any) -> str:
    known = oxm.FIELDS[name]
    text = known.match_text or known.text
    return f"{known.match_name}={text(value)}"


@cache
def _shape(names: tuple[str, ...]) -> _Shape:
    # cached: a pipeline builds thousands of matches of a dozen shapes
    order = tuple(sorted(names, key=_NUMBERS.__getitem__))
    packers = tuple(_PACK[name] for name in order)
    return _Shape(order, frozenset(names), _picker(order), packers)


@cache
def _picker(order: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    # Cached, because shapes are compared: fields named in another order have an equal one.
    # An `itemgetter` is fastest, but makes a tuple of two values or more alone.
    if len(order) > 1:
        return itemgetter(*order)
    return lambda fields: tuple(fields.values())


@cache
def _frame(size: int) -> tuple[bytes, bytes]:
    """Return what stands before and after fields of so many bytes."""
    length = 4 + size
    return _HEAD.pack(1, length), PADDING[length % 8]


def _shorthand(values: dict[str, Any]) -> tuple[str, frozenset[str]]:
    eth_type, ip_proto = values.get("eth_type", 0), values.get("ip_proto", 0)
    transport = _TRANSPORTS.get((eth_type, ip_proto))
    if transport is not None:
        return transport, frozenset({"eth_type", "ip_proto"})
    name = _ETHERTYPES.get(eth_type, "")
    return name, frozenset({"eth_type"} if name else ())
