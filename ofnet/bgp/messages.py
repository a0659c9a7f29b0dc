"""BGP messages as values and as bytes (RFC 4271, 4724, 5492, 6793): IPv4 unicast alone.

Pure. What a peer sends is read by `ofnet.bgp.reading`.
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
"""Stands for an AS number that does not fit into two bytes."""

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
"""The origin that the original gives to pods' routes."""
_SEQUENCE: Final = 2
_DEFAULT_PREFERENCE: Final = 100

HEADER_ERROR, OPEN_ERROR, UPDATE_ERROR, HOLD_EXPIRED, STATE_ERROR, CEASE = range(1, 7)
BAD_LENGTH, BAD_TYPE = 2, 3
BAD_VERSION, BAD_AS, BAD_IDENTIFIER, BAD_PARAMETER, BAD_HOLD_TIME = 1, 2, 3, 4, 6
BAD_ATTRIBUTES, MISSING_ATTRIBUTE, BAD_ATTRIBUTE_LENGTH, BAD_NETWORK, BAD_AS_PATH = 1, 3, 5, 10, 11
TOO_MANY_PREFIXES, DECONFIGURED = 1, 3


class MalformedBgp(PeerFailed):
    """The peer broke the rules; `code` and `subcode` tell it how."""

    def __init__(self, message: str, code: int, subcode: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.subcode = subcode


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Graceful restart: seconds it may take; whether packets went on through the last one."""

    seconds: int
    restarting: bool = False
    forwarding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Who a speaker is. `four_octets` says that its AS numbers have four bytes."""

    asn: int
    hold_time: int
    router_id: IPv4Address
    four_octets: bool = True
    restart: Restart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Routes that are gone, and routes by one next hop; with neither, the end of all that is."""

    withdrawn: tuple[IPv4Network, ...] = ()
    announced: tuple[IPv4Network, ...] = ()
    next_hop: IPv4Address | None = None
    as_path: tuple[int, ...] = ()

    @property
    def is_end(self) -> bool:
        """Tell whether this ends the peer's first account."""
        return not (self.withdrawn or self.announced)


@dataclass(frozen=True, slots=True)
class Notification:
    """The end of a session, and why."""

    code: int
    subcode: int = 0

    def __str__(self) -> str:
        return f"notification {self.code}/{self.subcode}"


@dataclass(frozen=True, slots=True)
class Keepalive:
    """A sign of life."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """A wish to be told everything again."""


Message = Open | Update | Notification | Keepalive | Refresh


def keepalive() -> bytes:
    """Return a sign of life."""
    return _message(KEEPALIVE, b"")


def notification(code: int, subcode: int = 0) -> bytes:
    """Return the end of a session."""
    return _message(NOTIFICATION, bytes((code, subcode)))


def open_message(who: Open) -> bytes:
    """Return the beginning of a session."""
    capabilities = [
        (MULTIPROTOCOL, _IPV4_UNICAST),
        (ROUTE_REFRESH, b""),
        (FOUR_OCTETS, who.asn.to_bytes(4, "big")),
    ]
    if who.restart is not None:
        flags = RESTARTING * who.restart.restarting | who.restart.seconds & RESTART_TIME
        family = AFI_SAFI + bytes((FORWARDING * who.restart.forwarding,))
        capabilities.append((GRACEFUL, flags.to_bytes(2, "big") + family))
    packed = b"".join(bytes((code, len(value))) + value for code, value in capabilities)
    parameter = bytes((CAPABILITIES, len(packed))) + packed
    short = who.asn if who.asn <= 0xFFFF else AS_TRANS
    head = struct.pack(
        ">BHH4sB", VERSION, short, who.hold_time, who.router_id.packed, len(parameter)
    )
    return _message(OPEN, head + parameter)


def withdrawals(prefixes: Iterable[IPv4Network]) -> Iterator[bytes]:
    """Yield messages by which routes are taken back."""
    for block in _blocks(prefixes, MAX_LENGTH - HEADER - 4):
        yield _message(UPDATE, _sized(block) + _sized(b""))


def announcements(
    prefixes: Iterable[IPv4Network],
    next_hop: IPv4Address,
    as_path: Sequence[int],
    *,
    four_octets: bool,
) -> Iterator[bytes]:
    """Yield messages by which routes are told; without an AS path, to a peer of the same AS."""
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


def end_of_routes() -> bytes:
    """Return what says that all routes have been told."""
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
