"""The frame of a packet that a trace really sends, with a mark by which it is known again. Pure.

In come a packet (`ofnet.trace.packets`) and a mark; out come the bytes. The mark is at the end of
the frame: there it stays, whatever headers a tunnel or a VLAN puts before. Only what a kernel
answers by itself is made: echo requests of ICMP, and TCP's first packet. No process sees either.
"""

import struct
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ofnet.openflow import oxm
from ofnet.openflow.packets import checksum
from ofnet.trace.evaluator import Packet

MARK: Final = 8
"""Bytes of a mark."""
SENT: Final = frozenset({oxm.PROTO_ICMP, oxm.PROTO_TCP})
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
"""Bytes of the header of an echo."""


def frame(packet: Packet, mark: bytes) -> bytes:
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


def is_answer(data: bytes) -> bool:
    """Return whether a frame with a mark is the answer to an echo, which repeats it."""
    kind = data[-(_HEADER + _PAYLOAD)] if len(data) >= _HEADER + _PAYLOAD else None
    return kind in _ECHO_ANSWERS


def _ipv4(ends: bytes, protocol: int, size: int, mark: bytes) -> bytes:
    first = struct.pack(">BBH", 0x45, 0, 20 + size) + mark[:2] + b"\0\0"
    first += struct.pack(">BB", _HOPS, protocol)
    return first + checksum(first + ends).to_bytes(2) + ends


def _ipv6(ends: bytes, protocol: int, size: int) -> bytes:
    return struct.pack(">IHBB", 6 << 28, size, protocol, _HOPS) + ends


def _packed(packet: Packet, name: str) -> bytes:
    address = packet.value(name)
    if not isinstance(address, IPv4Address | IPv6Address):
        raise ValueError(f"{name} is no address: {address}")  # noqa: TRY004 - no wrong call
    return address.packed
