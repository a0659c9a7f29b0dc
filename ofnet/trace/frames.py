"""The frame of a packet that a trace really sends, with a mark by which it is known again. Pure.

In come a packet (`ofnet.trace.packets`) and a mark; out come the bytes. The mark is at the end of
the frame: there it stays, whatever headers a tunnel or a VLAN puts before. Only what a kernel
answers by itself is made: echo requests of ICMP, and TCP's first packet. No process sees either.

Answers are known again as well: an echo and an error of ICMP repeat the mark, what answers TCP's
first packet acknowledges its number (`acknowledged`).
"""

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from ofnet.openflow import oxm
from ofnet.openflow.packets import checksum
from ofnet.trace.evaluator import PacketFields

MARK: Final = 8
"""Bytes of a mark."""
"""The protocols that are sent; ICMP stands for ICMPv6 too."""

_TEXT: Final = b"contiv live trace\0\0\0\0\0\0\0"
_PAYLOAD: Final = len(_TEXT) + MARK
"""Bytes behind the header: no frame is so short that a card has to pad it."""
_HOPS: Final = 64
_SYN: Final = 0x5002
"""A header of five words, and the flag SYN."""
_WINDOW: Final = 1024
_ECHO_ANSWERS: Final = frozenset({0, 129})
_HEADER: Final = 8
"""Bytes of the header of an echo, and of an error."""
_LINK: Final = 14
"""Bytes of the header of Ethernet."""
_TCP_HEADER: Final = 20
_RST_FLAG: Final = 0x04

ECHO: Final = "echo reply"
ACCEPTED: Final = "SYN-ACK"
REFUSED: Final = "RST"

_ERRORS: Final = {
    (4, 3): {
        0: "network unreachable, no route leads to it",
        1: "host unreachable",
        2: "protocol unreachable",
        3: "port unreachable",
        4: "fragmentation needed",
        9: "network administratively prohibited",
        10: "host administratively prohibited",
        13: "communication administratively prohibited",
    },
    (4, 11): {0: "time to live exceeded"},
    (4, 12): {},
    (6, 1): {
        0: "network unreachable, no route leads to it",
        1: "communication administratively prohibited",
        3: "host unreachable",
        4: "port unreachable",
        6: "rejected by a route",
    },
    (6, 2): {0: "packet too big"},
    (6, 3): {0: "time to live exceeded"},
    (6, 4): {},
}
"""Errors of ICMP (RFC 792, 1812, 4443), by version of IP and type, then by code."""


class _Layout(NamedTuple):
    """What of a header of IP tells where the next one is, and what that is."""

    size: int
    first: int
    """The byte it begins with, in Linux's packets without options."""
    mask: int
    protocol_at: int
    source: slice
    icmp: int


_LAYOUTS: Final = {
    4: _Layout(20, 0x45, 0xFF, 9, slice(12, 16), oxm.PROTO_ICMP),
    6: _Layout(40, 0x60, 0xF0, 6, slice(8, 24), oxm.PROTO_ICMP6),
}


class SeenFrame(NamedTuple):
    """What a frame is: the packet itself, with the text "", or an answer, by what it says."""

    answer: bool
    what: str


def frame(packet: PacketFields, mark: bytes) -> bytes:
    """Return the frame of a packet as a pod sends it. Raises ValueError for other protocols."""
    payload = _TEXT + mark
    protocol = packet.number("ip_proto")
    four = "ipv4_src" in packet.fields
    ends = b"".join(_packed(packet, f"ipv{4 if four else 6}_{end}") for end in ("src", "dst"))
    if protocol == oxm.PROTO_TCP:
        ports = (packet.number("tcp_src"), packet.number("tcp_dst"))
        number = int.from_bytes(mark[:4])
        body = struct.pack(">HHIIHHHH", *ports, number, 0, _SYN, _WINDOW, 0, 0) + payload
        at = 16
    elif protocol in {oxm.PROTO_ICMP, oxm.PROTO_ICMP6}:
        kind = packet.number("icmp_type" if four else "icmpv6_type")
        body = struct.pack(">BBH", kind, 0, 0) + mark[:2] + b"\0\1" + payload
        at = 2
    else:
        raise ValueError(f"packets of protocol {protocol} are not sent")
    pseudo = b"" if protocol == oxm.PROTO_ICMP else ends + struct.pack(">II", len(body), protocol)
    body = body[:at] + checksum(pseudo + body).to_bytes(2) + body[at + 2 :]
    head = _ipv4(ends, protocol, len(body), mark) if four else _ipv6(ends, protocol, len(body))
    link = b"".join(oxm.mac_bytes(str(packet.value(name))) for name in ("eth_dst", "eth_src"))
    return link + packet.number("eth_type").to_bytes(2) + head + body


def acknowledged(mark: bytes) -> tuple[int, int]:
    """Return what TCP acknowledges of a marked packet: all but its data, or all."""
    number = int.from_bytes(mark[:4])
    return (number + 1) % (1 << 32), (number + 1 + _PAYLOAD) % (1 << 32)


def seen(data: bytes, mark: bytes) -> SeenFrame | None:
    """Return what a frame has to do with a marked packet; None for nothing.

    TCP's answers are not known again within tunnels: nothing of a mark is at their ends.
    """
    if not data.endswith(mark):
        return _of_tcp(data, mark)
    if (error := _error(data)) is not None:
        return SeenFrame(answer=True, what=error)
    kind = data[-(_HEADER + _PAYLOAD)] if len(data) >= _HEADER + _PAYLOAD else None
    return (
        SeenFrame(answer=True, what=ECHO)
        if kind in _ECHO_ANSWERS
        else SeenFrame(answer=False, what="")
    )


def _of_tcp(data: bytes, mark: bytes) -> SeenFrame | None:
    for version, ether_type in ((4, oxm.ETH_IPV4), (6, oxm.ETH_IPV6)):
        end = _LINK + _LAYOUTS[version].size
        if int.from_bytes(data[12:_LINK]) != ether_type or len(data) < end + _TCP_HEADER:
            continue
        number, flags = int.from_bytes(data[end + 8 : end + 12]), data[end + 13]
        if _is(version, data, _LINK, oxm.PROTO_TCP) and number in acknowledged(mark):
            return SeenFrame(answer=True, what=REFUSED if flags & _RST_FLAG else ACCEPTED)
    return None


def _error(data: bytes) -> str | None:
    """Return the words for an error of ICMP about a marked packet; None for no such error."""
    for version, one in _LAYOUTS.items():
        for protocol, header in ((oxm.PROTO_TCP, _TCP_HEADER), (one.icmp, _HEADER)):
            about = len(data) - _PAYLOAD - header - one.size
            outer = about - _HEADER - one.size
            if outer < 0 or not _is(version, data, about, protocol):
                continue
            known = _ERRORS.get((version, data[about - _HEADER]))
            if _is(version, data, outer, one.icmp) and known is not None:
                code = data[about - _HEADER + 1]
                source = ip_address(data[outer : outer + one.size][one.source])
                why = known.get(code, f"type {data[about - _HEADER]}, code {code}")
                return f"ICMP error from {source}: {why}"
    return None


def _is(version: int, data: bytes, at: int, protocol: int) -> bool:
    """Return whether a header of IP begins there, before one of a protocol."""
    one = _LAYOUTS[version]
    return data[at] & one.mask == one.first and data[at + one.protocol_at] == protocol


def _ipv4(ends: bytes, protocol: int, size: int, mark: bytes) -> bytes:
    first = struct.pack(">BBH", 0x45, 0, 20 + size) + mark[:2] + b"\0\0"
    first += struct.pack(">BB", _HOPS, protocol)
    return first + checksum(first + ends).to_bytes(2) + ends


def _ipv6(ends: bytes, protocol: int, size: int) -> bytes:
    return struct.pack(">IHBB", 6 << 28, size, protocol, _HOPS) + ends


def _packed(packet: PacketFields, name: str) -> bytes:
    address = packet.value(name)
    if not isinstance(address, IPv4Address | IPv6Address):
        raise ValueError(f"{name} is no address: {address}")  # noqa: TRY004 - no wrong call
    return address.packed
