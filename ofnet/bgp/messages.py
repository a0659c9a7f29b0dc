"""BGP messages as values, and their encoding (RFC 4271, 4724, 4760, 5492, 6793, 8950). Pure.

Of the address families, IPv4 and IPv6 unicast. `ofnet.bgp.message_reading` decodes what a peer
sends.
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from core.errors import PeerFailed

HEADER: Final = 19
MAX_LENGTH: Final = 4096
AS_TRANS: Final = 23456
"""Replaces an AS number that does not fit into two bytes (RFC 6793)."""

MARKER: Final = b"\xff" * 16
VERSION: Final = 4
OPEN, UPDATE, NOTIFICATION, KEEPALIVE, REFRESH = range(1, 6)
ORIGIN, AS_PATH, NEXT_HOP = 1, 2, 3
_LOCAL_PREF: Final = 5
MP_REACH, MP_UNREACH = 14, 15
EXTENDED: Final = 0x10
_OPTIONAL: Final = 0x80
_TRANSITIVE: Final = 0x40
CAPABILITIES: Final = 2
MULTIPROTOCOL, ROUTE_REFRESH, EXTENDED_HOPS, GRACEFUL, FOUR_OCTETS = 1, 2, 5, 64, 65
UNICAST: Final = 1
"""The SAFI of the only routes spoken of here."""
RESTARTING: Final = 0x8000
RESTART_TIME: Final = 0x0FFF
FORWARDING: Final = 0x80
_EGP: Final = 1
"""The ORIGIN of pods' routes, as in the original."""
_SEQUENCE: Final = 2
_DEFAULT_PREFERENCE: Final = 100
_EXTENDED_HEAD: Final = 4
"""Bytes before the value of an attribute whose length has two bytes."""

HEADER_ERROR, OPEN_ERROR, UPDATE_ERROR, HOLD_EXPIRED, STATE_ERROR, CEASE = range(1, 7)
BAD_LENGTH, BAD_TYPE = 2, 3
BAD_VERSION, BAD_AS, BAD_IDENTIFIER, BAD_PARAMETER, BAD_HOLD_TIME = 1, 2, 3, 4, 6
BAD_CAPABILITY: Final = 7
BAD_ATTRIBUTES, MISSING_ATTRIBUTE, BAD_ATTRIBUTE_LENGTH, BAD_NETWORK, BAD_AS_PATH = 1, 3, 5, 10, 11
TOO_MANY_PREFIXES, DECONFIGURED = 1, 3


Address = IPv4Address | IPv6Address
Prefix = IPv4Network | IPv6Network
Route = tuple[Prefix, Address]
"""A prefix and its next hop."""
NextHop = IPv4Address | tuple[IPv6Address, ...]
"""What announced routes have as next hop; of IPv6 a global address, a link-local one, or both."""


class Family(IntEnum):
    """An address family, by its AFI."""

    IPV4 = 1
    IPV6 = 2

    @classmethod
    def of(cls, value: Address | Prefix) -> "Family":
        """Return the family of an address or a prefix."""
        return cls.IPV4 if value.version == 4 else cls.IPV6


IPV4_ONLY: Final = frozenset({Family.IPV4})
"""The families of a peer that names none (RFC 4760 §8)."""


class MalformedBgp(PeerFailed):
    """The peer violated the protocol; `code` and `subcode` go into the NOTIFICATION it gets."""

    def __init__(self, message: str, code: int, subcode: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.subcode = subcode


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Graceful restart: its length in seconds, and the families whose routes outlast it.

    `forwarding`: the families whose forwarding continued during the last restart.
    """

    seconds: int
    restarting: bool = False
    families: frozenset[Family] = frozenset()
    forwarding: frozenset[Family] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """An OPEN message. `four_octets`: the speaker encodes AS numbers in four bytes.

    `extended_hops`: IPv4 routes may have IPv6 next hops (RFC 8950).
    """

    asn: int
    hold_time: int
    router_id: IPv4Address
    families: frozenset[Family] = IPV4_ONLY
    four_octets: bool = True
    restart: Restart | None = None
    extended_hops: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Withdrawn routes, and announced ones.

    `end_of`: this is the End-of-RIB marker, the peer has sent all of its routes of that family.
    """

    withdrawn: tuple[Prefix, ...] = ()
    announced: tuple[Route, ...] = ()
    as_path: tuple[int, ...] = ()
    end_of: Family | None = None

    def announcing(self, families: Collection[Family]) -> "Update":
        """Return the UPDATE without the routes that it announces of other families."""
        agreed = tuple(route for route in self.announced if Family.of(route[0]) in families)
        return self if len(agreed) == len(self.announced) else replace(self, announced=agreed)


@dataclass(frozen=True, slots=True)
class Notification:
    """A NOTIFICATION: the end of a session, and its reason."""

    code: int
    subcode: int = 0

    def __str__(self) -> str:
        return f"notification {self.code}/{self.subcode}"


@dataclass(frozen=True, slots=True)
class Keepalive:
    """A KEEPALIVE."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """A ROUTE-REFRESH: the peer asks for all routes again."""


Message = Open | Update | Notification | Keepalive | Refresh


def keepalive() -> bytes:
    """Return a KEEPALIVE."""
    return _message(KEEPALIVE, b"")


def notification(code: int, subcode: int = 0) -> bytes:
    """Return a NOTIFICATION."""
    return _message(NOTIFICATION, bytes((code, subcode)))


def open_message(own: Open) -> bytes:
    """Return an OPEN."""
    capabilities = [
        *(
            (MULTIPROTOCOL, struct.pack(">HBB", family, 0, UNICAST))
            for family in sorted(own.families)
        ),
        (ROUTE_REFRESH, b""),
        (FOUR_OCTETS, own.asn.to_bytes(4, "big")),
    ]
    if own.restart is not None:
        flags = RESTARTING * own.restart.restarting | own.restart.seconds & RESTART_TIME
        families = b"".join(
            afi_safi(family) + bytes((FORWARDING * (family in own.restart.forwarding),))
            for family in sorted(own.restart.families)
        )
        capabilities.append((GRACEFUL, flags.to_bytes(2, "big") + families))
    if own.extended_hops:
        capabilities.append((EXTENDED_HOPS, IPV4_BY_IPV6))
    packed = b"".join(bytes((code, len(value))) + value for code, value in capabilities)
    parameter = bytes((CAPABILITIES, len(packed))) + packed
    short = own.asn if own.asn <= 0xFFFF else AS_TRANS
    head = struct.pack(
        ">BHH4sB", VERSION, short, own.hold_time, own.router_id.packed, len(parameter)
    )
    return _message(OPEN, head + parameter)


def afi_safi(family: Family) -> bytes:
    """Return the three bytes that name the unicast routes of a family."""
    return struct.pack(">HB", family, UNICAST)


IPV4_BY_IPV6: Final = struct.pack(">HHH", Family.IPV4, UNICAST, Family.IPV6)
"""IPv4 unicast with IPv6 next hops, in the capability of RFC 8950."""


def withdrawals(prefixes: Iterable[Prefix], family: Family) -> Iterator[bytes]:
    """Yield UPDATEs that withdraw routes of one family."""
    if family is Family.IPV4:
        for block in _blocks(prefixes, MAX_LENGTH - HEADER - 4):
            yield _message(UPDATE, _sized(block) + _sized(b""))
        return
    for block in _blocks(
        prefixes, MAX_LENGTH - HEADER - 4 - _EXTENDED_HEAD - len(afi_safi(family))
    ):
        gone = _long_attribute(MP_UNREACH, afi_safi(family) + block)
        yield _message(UPDATE, _sized(b"") + _sized(gone))


def announcements(
    prefixes: Iterable[Prefix],
    family: Family,
    next_hop: NextHop,
    as_path: Sequence[int],
    *,
    four_octets: bool,
) -> Iterator[bytes]:
    """Yield UPDATEs that announce routes of one family.

    Those of IPv4 may have an IPv6 next hop, those of IPv6 have one. An empty AS path is for a peer
    of the same AS.
    """
    size = ">I" if four_octets else ">H"
    numbers = [asn if four_octets or asn <= 0xFFFF else AS_TRANS for asn in as_path]
    path = b"".join(struct.pack(size, asn) for asn in numbers)
    segment = bytes((_SEQUENCE, len(numbers))) + path if numbers else b""
    before = _attribute(ORIGIN, bytes((_EGP,))) + _attribute(AS_PATH, segment)
    after = b""
    if not as_path:
        after = _attribute(_LOCAL_PREF, _DEFAULT_PREFERENCE.to_bytes(4, "big"))
    room = MAX_LENGTH - HEADER - 4 - len(before) - len(after)
    if isinstance(next_hop, IPv4Address):
        hop = _attribute(NEXT_HOP, next_hop.packed)
        attributes = before + hop + after
        for block in _blocks(prefixes, room - len(hop)):
            yield _message(UPDATE, _sized(b"") + _sized(attributes) + block)
        return
    # A host without a global address sends the link-local one alone, in 16 bytes. RFC 2545 wants a
    # global one before it; routers accept this form on a network they share with the speaker.
    packed = b"".join(one.packed for one in next_hop)
    hop = afi_safi(family) + bytes((len(packed),)) + packed + b"\0"
    for block in _blocks(prefixes, room - _EXTENDED_HEAD - len(hop)):
        # the first attribute, as RFC 7606 §5.1 asks for
        reach = _long_attribute(MP_REACH, hop + block)
        yield _message(UPDATE, _sized(b"") + _sized(reach + before + after))


def end_of_rib(family: Family) -> bytes:
    """Return the End-of-RIB marker of a family."""
    marker = b"" if family is Family.IPV4 else _long_attribute(MP_UNREACH, afi_safi(family))
    return _message(UPDATE, _sized(b"") + _sized(marker))


def _message(kind: int, body: bytes) -> bytes:
    return MARKER + struct.pack(">HB", HEADER + len(body), kind) + body


def _attribute(kind: int, value: bytes) -> bytes:
    return bytes((_TRANSITIVE, kind, len(value))) + value


def _long_attribute(kind: int, value: bytes) -> bytes:
    return struct.pack(">BBH", _OPTIONAL | EXTENDED, kind, len(value)) + value


def _sized(block: bytes) -> bytes:
    return len(block).to_bytes(2, "big") + block


def _blocks(prefixes: Iterable[Prefix], room: int) -> Iterator[bytes]:
    """Yield prefixes, packed, in blocks that fit into a message."""
    block = b""
    for prefix in prefixes:
        length = prefix.prefixlen
        packed = bytes((length,)) + prefix.network_address.packed[: (length + 7) // 8]
        if len(block) + len(packed) > room:
            yield block
            block = b""
        block += packed
    if block:
        yield block
