"""BGP messages as values, and their encoding (RFC 4271, 4724, 5492, 6793): IPv4 unicast only. Pure.

`ofnet.bgp.reading` decodes what a peer sends.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
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
EXTENDED: Final = 0x10
_TRANSITIVE: Final = 0x40
CAPABILITIES: Final = 2
MULTIPROTOCOL, ROUTE_REFRESH, GRACEFUL, FOUR_OCTETS = 1, 2, 64, 65
_IPV4_UNICAST: Final = b"\x00\x01\x00\x01"
AFI_SAFI: Final = b"\x00\x01\x01"
RESTARTING: Final = 0x8000
RESTART_TIME: Final = 0x0FFF
FORWARDING: Final = 0x80
_EGP: Final = 1
"""The ORIGIN of pods' routes, as in the original."""
_SEQUENCE: Final = 2
_DEFAULT_PREFERENCE: Final = 100

HEADER_ERROR, OPEN_ERROR, UPDATE_ERROR, HOLD_EXPIRED, STATE_ERROR, CEASE = range(1, 7)
BAD_LENGTH, BAD_TYPE = 2, 3
BAD_VERSION, BAD_AS, BAD_IDENTIFIER, BAD_PARAMETER, BAD_HOLD_TIME = 1, 2, 3, 4, 6
BAD_ATTRIBUTES, MISSING_ATTRIBUTE, BAD_ATTRIBUTE_LENGTH, BAD_NETWORK, BAD_AS_PATH = 1, 3, 5, 10, 11
TOO_MANY_PREFIXES, DECONFIGURED = 1, 3


class MalformedBgp(PeerFailed):
    """The peer violated the protocol; `code` and `subcode` go into the NOTIFICATION it gets."""

    def __init__(self, message: str, code: int, subcode: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.subcode = subcode


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Graceful restart: its length in seconds; whether forwarding continued during the last one."""

    seconds: int
    restarting: bool = False
    forwarding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """An OPEN message. `four_octets`: the speaker encodes AS numbers in four bytes."""

    asn: int
    hold_time: int
    router_id: IPv4Address
    four_octets: bool = True
    restart: Restart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Withdrawn routes, and announced ones with their next hop; empty: the End-of-RIB marker."""

    withdrawn: tuple[IPv4Network, ...] = ()
    announced: tuple[IPv4Network, ...] = ()
    next_hop: IPv4Address | None = None
    as_path: tuple[int, ...] = ()

    @property
    def is_end_of_rib(self) -> bool:
        """Return whether this is the End-of-RIB marker: the peer has sent all of its routes."""
        return not (self.withdrawn or self.announced)


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
        (MULTIPROTOCOL, _IPV4_UNICAST),
        (ROUTE_REFRESH, b""),
        (FOUR_OCTETS, own.asn.to_bytes(4, "big")),
    ]
    if own.restart is not None:
        flags = RESTARTING * own.restart.restarting | own.restart.seconds & RESTART_TIME
        family = AFI_SAFI + bytes((FORWARDING * own.restart.forwarding,))
        capabilities.append((GRACEFUL, flags.to_bytes(2, "big") + family))
    packed = b"".join(bytes((code, len(value))) + value for code, value in capabilities)
    parameter = bytes((CAPABILITIES, len(packed))) + packed
    short = own.asn if own.asn <= 0xFFFF else AS_TRANS
    head = struct.pack(
        ">BHH4sB", VERSION, short, own.hold_time, own.router_id.packed, len(parameter)
    )
    return _message(OPEN, head + parameter)


def withdrawals(prefixes: Iterable[IPv4Network]) -> Iterator[bytes]:
    """Yield UPDATEs that withdraw routes."""
    for block in _blocks(prefixes, MAX_LENGTH - HEADER - 4):
        yield _message(UPDATE, _sized(block) + _sized(b""))


def announcements(
    prefixes: Iterable[IPv4Network],
    next_hop: IPv4Address,
    as_path: Sequence[int],
    *,
    four_octets: bool,
) -> Iterator[bytes]:
    """Yield UPDATEs that announce routes; an empty AS path is for a peer of the same AS."""
    size = ">I" if four_octets else ">H"
    numbers = [asn if four_octets or asn <= 0xFFFF else AS_TRANS for asn in as_path]
    path = b"".join(struct.pack(size, asn) for asn in numbers)
    segment = bytes((_SEQUENCE, len(numbers))) + path if numbers else b""
    attributes = (
        _attribute(ORIGIN, bytes((_EGP,)))
        + _attribute(AS_PATH, segment)
        + _attribute(NEXT_HOP, next_hop.packed)
    )
    if not as_path:
        attributes += _attribute(_LOCAL_PREF, _DEFAULT_PREFERENCE.to_bytes(4, "big"))
    for block in _blocks(prefixes, MAX_LENGTH - HEADER - 4 - len(attributes)):
        yield _message(UPDATE, _sized(b"") + _sized(attributes) + block)


def end_of_rib() -> bytes:
    """Return the End-of-RIB marker."""
    return _message(UPDATE, _sized(b"") + _sized(b""))


def _message(kind: int, body: bytes) -> bytes:
    return MARKER + struct.pack(">HB", HEADER + len(body), kind) + body


def _attribute(kind: int, value: bytes) -> bytes:
    return bytes((_TRANSITIVE, kind, len(value))) + value


def _sized(block: bytes) -> bytes:
    return len(block).to_bytes(2, "big") + block


def _blocks(prefixes: Iterable[IPv4Network], room: int) -> Iterator[bytes]:
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
