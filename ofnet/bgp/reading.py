"""Decodes the messages of a BGP peer (RFC 4271). Pure.

Received bytes are untrusted: a message that contradicts itself raises MalformedBgp with the codes
for the NOTIFICATION. `ofnet.bgp.session` reads the bytes and ends the session.
"""

# Strict where a wrong guess would install a wrong route, lenient where RFC 4271 lets a receiver
# be. Lengths, markers, prefixes and the three mandatory attributes must be right: an error there
# means that both sides disagree about where a field begins, and nothing after it can be trusted.
# RFC 7606's "treat as withdraw" is not used: it saves sessions that carry the routes of many peers,
# and here a session carries those of one. Unknown attributes are ignored, since this host passes
# no route on.

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from ofnet.bgp import messages as bgp
from ofnet.bgp.messages import (
    Keepalive,
    MalformedBgp,
    Message,
    Notification,
    Open,
    Refresh,
    Restart,
    Update,
)


def body_length(header: bytes) -> int:
    """Return how many bytes follow a header. Raises MalformedBgp."""
    length = int.from_bytes(header[16:18], "big")
    if header[:16] != bgp.MARKER:
        raise MalformedBgp("message header without its marker", bgp.HEADER_ERROR, 1)
    if not bgp.HEADER <= length <= bgp.MAX_LENGTH:
        raise MalformedBgp(f"a message of {length} bytes", bgp.HEADER_ERROR, bgp.BAD_LENGTH)
    return length - bgp.HEADER


def read(header: bytes, body: bytes, *, four_octets: bool) -> Message:
    """Return the message of a header and what follows it. Raises MalformedBgp."""
    match header[18]:
        case bgp.OPEN:
            return _read_open(body)
        case bgp.UPDATE:
            return _read_update(body, 4 if four_octets else 2)
        case bgp.NOTIFICATION:
            if len(body) < 2:
                raise MalformedBgp(
                    "a notification without a reason", bgp.HEADER_ERROR, bgp.BAD_LENGTH
                )
            return Notification(body[0], body[1])
        case bgp.KEEPALIVE:
            return Keepalive()
        case bgp.REFRESH:
            return Refresh()
        case kind:
            raise MalformedBgp(f"a message of kind {kind}", bgp.HEADER_ERROR, bgp.BAD_TYPE)


def _read_open(body: bytes) -> Open:
    if len(body) < 10:
        raise MalformedBgp("a short OPEN", bgp.HEADER_ERROR, bgp.BAD_LENGTH)
    version, asn, hold_time, router_id, length = struct.unpack_from(">BHH4sB", body)
    if version != bgp.VERSION:
        raise MalformedBgp(f"BGP version {version}", bgp.OPEN_ERROR, bgp.BAD_VERSION)
    if hold_time in {1, 2}:
        raise MalformedBgp(f"a hold time of {hold_time} s", bgp.OPEN_ERROR, bgp.BAD_HOLD_TIME)
    if length != len(body) - 10:
        raise MalformedBgp("parameters of a wrong length", bgp.OPEN_ERROR, 0)
    found = dict(_capabilities(body[10:]))
    four = found.get(bgp.FOUR_OCTETS, b"")
    return Open(
        asn=int.from_bytes(four, "big") if len(four) == 4 else asn,
        hold_time=hold_time,
        router_id=IPv4Address(router_id),
        four_octets=len(four) == 4,
        restart=_restart(found.get(bgp.GRACEFUL, b"")),
    )


def _capabilities(parameters: bytes) -> Iterator[tuple[int, bytes]]:
    for kind, value in _options(parameters):
        if kind != bgp.CAPABILITIES:
            raise MalformedBgp(f"parameter {kind}", bgp.OPEN_ERROR, bgp.BAD_PARAMETER)
        yield from _options(value)


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        end = at + 2 + data[at + 1] if at + 1 < len(data) else len(data) + 1
        if end > len(data):
            raise MalformedBgp("a parameter is cut off", bgp.OPEN_ERROR, 0)
        yield data[at], data[at + 2 : end]
        at = end


def _restart(value: bytes) -> Restart | None:
    """Return a peer's graceful restart capability, if it covers IPv4 unicast."""
    families = [value[at : at + 4] for at in range(2, len(value), 4)]
    flags = int.from_bytes(value[:2], "big")
    for family in families:
        if family[:3] == bgp.AFI_SAFI and len(family) == 4:
            return Restart(
                seconds=flags & bgp.RESTART_TIME,
                restarting=bool(flags & bgp.RESTARTING),
                forwarding=bool(family[3] & bgp.FORWARDING),
            )
    return None


def _read_update(body: bytes, as_size: int) -> Update:
    withdrawn, rest = _part(body)
    attributes, announced = _part(rest)
    found = dict(_attributes(attributes))
    prefixes = tuple(_prefixes(announced))
    if prefixes and not found.keys() >= {bgp.ORIGIN, bgp.AS_PATH, bgp.NEXT_HOP}:
        raise MalformedBgp("routes without an attribute", bgp.UPDATE_ERROR, bgp.MISSING_ATTRIBUTE)
    hop = found.get(bgp.NEXT_HOP)
    if hop is not None and len(hop) != 4:
        raise MalformedBgp(
            "a next hop of a wrong length", bgp.UPDATE_ERROR, bgp.BAD_ATTRIBUTE_LENGTH
        )
    return Update(
        withdrawn=tuple(_prefixes(withdrawn)),
        announced=prefixes,
        next_hop=None if hop is None else IPv4Address(hop),
        as_path=tuple(_as_path(found.get(bgp.AS_PATH, b""), as_size)),
    )


def _part(data: bytes) -> tuple[bytes, bytes]:
    end = 2 + int.from_bytes(data[:2], "big")
    if len(data) < max(end, 2):
        raise MalformedBgp("an UPDATE that is cut off", bgp.UPDATE_ERROR, bgp.BAD_ATTRIBUTES)
    return data[2:end], data[end:]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at, seen = 0, set()
    while at < len(data):
        wide = 2 if data[at] & bgp.EXTENDED else 1
        start = at + 2 + wide
        end = start + int.from_bytes(data[at + 2 : start], "big")
        if end > len(data) or start > len(data) or data[at + 1] in seen:
            raise MalformedBgp(
                "attributes cut off or duplicated", bgp.UPDATE_ERROR, bgp.BAD_ATTRIBUTES
            )
        seen.add(data[at + 1])
        yield data[at + 1], data[start:end]
        at = end


def _prefixes(data: bytes) -> Iterator[IPv4Network]:
    at = 0
    while at < len(data):
        length = data[at]
        end = at + 1 + (length + 7) // 8
        if length > 32 or end > len(data):
            raise MalformedBgp("a malformed prefix", bgp.UPDATE_ERROR, bgp.BAD_NETWORK)
        packed = data[at + 1 : end].ljust(4, b"\0")
        yield IPv4Network((packed, length), strict=False)
        at = end


def _as_path(data: bytes, size: int) -> Iterator[int]:
    at = 0
    while at < len(data):
        end = at + 2 + size * data[at + 1] if at + 1 < len(data) else len(data) + 1
        if end > len(data) or not 1 <= data[at] <= 4:
            raise MalformedBgp("a malformed AS path", bgp.UPDATE_ERROR, bgp.BAD_AS_PATH)
        for start in range(at + 2, end, size):
            yield int.from_bytes(data[start : start + size], "big")
        at = end
