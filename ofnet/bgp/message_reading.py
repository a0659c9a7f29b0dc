"""Decodes the messages of a BGP peer (RFC 4271, 4760, 8950). Pure.

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
from collections.abc import Collection, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from ofnet.bgp import messages as bgp
from ofnet.bgp.messages import (
    IPV4_ONLY,
    Address,
    Family,
    Keepalive,
    MalformedBgp,
    Message,
    Notification,
    Open,
    Prefix,
    Refresh,
    Restart,
    Route,
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
        raise MalformedBgp(
            f"the peer speaks BGP version {version}, not 4", bgp.OPEN_ERROR, bgp.BAD_VERSION
        )
    if hold_time in {1, 2}:
        text = f"the peer wants a hold time of {hold_time} s: set 0, or 3 s and more, at the peer"
        raise MalformedBgp(text, bgp.OPEN_ERROR, bgp.BAD_HOLD_TIME)
    if length != len(body) - 10:
        raise MalformedBgp("parameters of a wrong length", bgp.OPEN_ERROR, 0)
    capabilities = [*_capabilities(body[10:])]
    found = dict(capabilities)
    four = found.get(bgp.FOUR_OCTETS, b"")
    return Open(
        asn=int.from_bytes(four, "big") if len(four) == 4 else asn,
        hold_time=hold_time,
        router_id=IPv4Address(router_id),
        families=_families(capabilities),
        four_octets=len(four) == 4,
        restart=_restart(found.get(bgp.GRACEFUL)),
        extended_hops=_extended_hops(capabilities),
    )


def _capabilities(parameters: bytes) -> Iterator[tuple[int, bytes]]:
    for kind, value in _options(parameters):
        if kind != bgp.CAPABILITIES:
            text = f"the OPEN has parameter {kind}, which is no list of capabilities"
            raise MalformedBgp(text, bgp.OPEN_ERROR, bgp.BAD_PARAMETER)
        yield from _options(value)


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        end = at + 2 + data[at + 1] if at + 1 < len(data) else len(data) + 1
        if end > len(data):
            raise MalformedBgp("a parameter is cut off", bgp.OPEN_ERROR, 0)
        yield data[at], data[at + 2 : end]
        at = end


def _families(capabilities: list[tuple[int, bytes]]) -> frozenset[Family]:
    """Return the families a peer speaks of; it names each in a capability of its own."""
    named = [value for kind, value in capabilities if kind == bgp.MULTIPROTOCOL]
    if not named:
        return IPV4_ONLY
    return frozenset(
        family
        for family in Family
        for value in named
        if value[:2] + value[3:] == bgp.afi_safi(family)
    )


def _extended_hops(capabilities: list[tuple[int, bytes]]) -> bool:
    """Return whether a peer takes IPv4 routes with IPv6 next hops (RFC 8950 §4)."""
    size = len(bgp.IPV4_BY_IPV6)
    named = [value for kind, value in capabilities if kind == bgp.EXTENDED_HOPS]
    return any(
        value[at : at + size] == bgp.IPV4_BY_IPV6
        for value in named
        for at in range(0, len(value), size)
    )


def _restart(value: bytes | None) -> Restart | None:
    """Return a peer's graceful restart capability.

    It may cover no family: such a peer keeps routes while its neighbours restart, and has none kept
    itself.
    """
    if value is None or len(value) < 2:
        return None
    flags = int.from_bytes(value[:2], "big")
    covered = {value[at : at + 3]: value[at + 3] for at in range(2, len(value) - 3, 4)}
    families = frozenset(one for one in Family if bgp.afi_safi(one) in covered)
    return Restart(
        seconds=flags & bgp.RESTART_TIME,
        restarting=bool(flags & bgp.RESTARTING),
        families=families,
        forwarding=frozenset(
            one for one in families if covered[bgp.afi_safi(one)] & bgp.FORWARDING
        ),
    )


def _read_update(body: bytes, as_size: int) -> Update:
    withdrawn, rest = _part(body)
    attributes, announced = _part(rest)
    found = dict(_attributes(attributes))
    prefixes = tuple(_prefixes(announced, Family.IPV4))
    reach = tuple(_read_reach(found.get(bgp.MP_REACH)))
    needed = {bgp.ORIGIN, bgp.AS_PATH} if prefixes or reach else set()
    if not found.keys() >= needed | ({bgp.NEXT_HOP} if prefixes else set()):
        raise MalformedBgp("routes without an attribute", bgp.UPDATE_ERROR, bgp.MISSING_ATTRIBUTE)
    hop = found.get(bgp.NEXT_HOP, bytes(4))
    if len(hop) != 4:
        raise _wrong_next_hop()
    return Update(
        withdrawn=(
            *_prefixes(withdrawn, Family.IPV4),
            *_read_unreach(found.get(bgp.MP_UNREACH, b"")),
        ),
        announced=(*((prefix, IPv4Address(hop)) for prefix in prefixes), *reach),
        as_path=tuple(_as_path(found.get(bgp.AS_PATH, b""), as_size)),
        end_of=_end_of_rib(body, found),
    )


_HOP_LENGTHS: Final[Mapping[Family, Collection[int]]] = {
    Family.IPV4: (4, 16, 32),
    Family.IPV6: (16, 32),
}
"""Bytes of the next hop in an MP_REACH_NLRI (RFC 4760, RFC 2545 §3, RFC 8950 §3)."""


def _read_reach(value: bytes | None) -> Iterator[Route]:
    """Yield the routes that an MP_REACH_NLRI announces (RFC 4760 §3).

    A next hop of IPv6 is one address, or a global and a link-local one. The latter is on the
    network of the session for sure, so it is taken where there is one.
    """
    family = _family(value or b"")
    if value is None or family is None:
        return
    length = value[3] if len(value) > 3 else 0
    hops, rest = value[4 : 4 + length], value[4 + length :]
    if length not in _HOP_LENGTHS[family] or len(hops) < length or not rest:
        raise _wrong_next_hop()
    hop = IPv4Address(hops) if length == 4 else _of_ipv6(hops)
    for prefix in _prefixes(rest[1:], family):
        yield prefix, hop


def _of_ipv6(hops: bytes) -> Address:
    both = [IPv6Address(hops[at : at + 16]) for at in range(0, len(hops), 16)]
    hop = both[-1] if both[-1].is_link_local else both[0]
    # An IPv6 address that has an IPv4 one in it stands for that: GoBGP sends its address so in a
    # session over IPv4.
    return hop.ipv4_mapped or hop


def _read_unreach(value: bytes) -> Iterator[Prefix]:
    family = _family(value)
    if family is not None:
        yield from _prefixes(value[3:], family)


def _family(value: bytes) -> Family | None:
    """Return the family whose unicast routes an attribute names.

    One that was not agreed on is passed over (RFC 4760 §7).
    """
    return next((one for one in Family if value[:3] == bgp.afi_safi(one)), None)


def _end_of_rib(body: bytes, attributes: dict[int, bytes]) -> Family | None:
    """Return the family whose End-of-RIB marker this UPDATE is (RFC 4724 §2)."""
    if body == bytes(4):
        return Family.IPV4
    alone = attributes.keys() == {bgp.MP_UNREACH} and body[:2] == bytes(2)
    marker = attributes[bgp.MP_UNREACH] if alone else b""
    return _family(marker) if len(marker) == len(bgp.afi_safi(Family.IPV4)) else None


def _wrong_next_hop() -> MalformedBgp:
    what = "a next hop of a wrong length"
    return MalformedBgp(what, bgp.UPDATE_ERROR, bgp.BAD_ATTRIBUTE_LENGTH)


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


def _prefixes(data: bytes, family: Family) -> Iterator[Prefix]:
    network = IPv4Network if family is Family.IPV4 else IPv6Network
    size = 4 if family is Family.IPV4 else 16
    at = 0
    while at < len(data):
        length = data[at]
        end = at + 1 + (length + 7) // 8
        if length > 8 * size or end > len(data):
            raise MalformedBgp("a malformed prefix", bgp.UPDATE_ERROR, bgp.BAD_NETWORK)
        packed = data[at + 1 : end].ljust(size, b"\0")
        yield network((packed, length), strict=False)
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
