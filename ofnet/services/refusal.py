"""Refuses connections to services without providers: TCP reset, ICMP port unreachable. Pure.

In come frames that table 3 sent up; out go frames that answer in the service's name. Frames come
from pods and are untrusted: one that cannot be read, or must not be answered, has no answer.
"""

import struct
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from ofnet.openflow import oxm, packets

_ETHERNET: Final = 14
_IPV4: Final = struct.Struct(">BBHHHBBH4s4s")
_IPV6: Final = struct.Struct(">IHBB16s16s")
_TCP: Final = struct.Struct(">HHIIBBHHH")
_VERSION4: Final = 4
_FRAGMENT: Final = 0x1FFF
_HOPS: Final = 64
_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_QUOTED4: Final = 548
"""Bytes of the refused packet in an answer of ICMP: 576 with the headers (RFC 1812 4.3.2.3)."""

_QUOTED6: Final = 1232
"""The same in IPv6: 1280 with the headers (RFC 4443 3.1)."""


class _Received(NamedTuple):
    source: bytes
    destination: bytes
    protocol: int
    packet: bytes
    """The IP packet, without padding."""

    transport: bytes


def refusal(frame: bytes) -> bytes | None:
    """Return the untagged frame that refuses a TCP segment or UDP datagram of a frame."""
    frame = packets.untagged(frame)
    received = _received(frame)
    if received is None:
        return None
    if received.protocol == oxm.PROTO_TCP:
        body, protocol = _reset(received), oxm.PROTO_TCP
    elif received.protocol == oxm.PROTO_UDP:
        body, protocol = _unreachable(received)
    else:
        return None
    if body is None:
        return None
    return frame[6:12] + frame[:6] + frame[12:14] + _packet(received, protocol, body)


def _received(frame: bytes) -> _Received | None:
    packet = frame[_ETHERNET:]
    match packets.ether_type(frame):
        case oxm.ETH_IPV4 if len(packet) >= _IPV4.size:
            first, _, length, _, fragment, _, protocol, _, source, target = _IPV4.unpack_from(
                packet
            )
            header = (first & 0xF) * 4
            if first >> 4 != _VERSION4 or fragment & _FRAGMENT or header < _IPV4.size:
                return None
        case oxm.ETH_IPV6 if len(packet) >= _IPV6.size:
            _, payload, protocol, _, source, target = _IPV6.unpack_from(packet)
            header, length = _IPV6.size, _IPV6.size + payload
        case _:
            return None
    if not header <= length <= len(packet):
        return None
    return _Received(source, target, protocol, packet[:length], packet[header:length])


def _reset(received: _Received) -> bytes | None:
    """Return the segment that resets a connection (RFC 9293 3.10.7.1); a reset has no answer."""
    if len(received.transport) < _TCP.size:
        return None
    source, target, sequence, acknowledged, offset, flags, *_ = _TCP.unpack_from(received.transport)
    if flags & _RST:
        return None
    if flags & _ACK:
        numbers, answer = (acknowledged, 0), _RST
    else:
        length = len(received.transport) - (offset >> 4) * 4
        used = length + bool(flags & _SYN) + bool(flags & _FIN)
        numbers, answer = (0, (sequence + used) & 0xFFFFFFFF), _RST | _ACK
    head = (target, source, *numbers, 5 << 4, answer, 0)
    summed = _checksum(_pseudo(received, oxm.PROTO_TCP, _TCP.size) + _TCP.pack(*head, 0, 0))
    return _TCP.pack(*head, summed, 0)


def _unreachable(received: _Received) -> tuple[bytes, int]:
    """Return the message that says that nobody listens, and its protocol."""
    if len(received.source) == len(IPv6Address(0).packed):
        quoted = received.packet[:_QUOTED6]
        head = _pseudo(received, oxm.PROTO_ICMP6, 8 + len(quoted))
        summed = _checksum(head + struct.pack(">BBHI", 1, 4, 0, 0) + quoted)
        return struct.pack(">BBHI", 1, 4, summed, 0) + quoted, oxm.PROTO_ICMP6
    quoted = received.packet[:_QUOTED4]
    summed = _checksum(struct.pack(">BBHI", 3, 3, 0, 0) + quoted)
    return struct.pack(">BBHI", 3, 3, summed, 0) + quoted, oxm.PROTO_ICMP


def _packet(received: _Received, protocol: int, body: bytes) -> bytes:
    """Return the IP packet back to the sender."""
    source, target = received.destination, received.source
    if len(source) == len(IPv6Address(0).packed):
        return _IPV6.pack(6 << 28, len(body), protocol, _HOPS, source, target) + body
    head = (4 << 4 | 5, 0, _IPV4.size + len(body), 0, 0, _HOPS, protocol)
    summed = _checksum(_IPV4.pack(*head, 0, source, target))
    return _IPV4.pack(*head, summed, source, target) + body


def _pseudo(received: _Received, protocol: int, length: int) -> bytes:
    """Return the pseudo-header of an answer; both families sum up to the same form."""
    return received.destination + received.source + struct.pack(">II", length, protocol)


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
