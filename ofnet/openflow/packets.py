"""The packet library's door: packets that come up are taken apart and answers built, pure.

The only module that knows os_ken. Frames come from pods and are untrusted: what cannot be read is
None, never an exception.
"""

import importlib
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from ofnet.openflow import oxm

ARP_REQUEST: Final = 1
ARP_REPLY: Final = 2

_EVERYBODY: Final = "ff:ff:ff:ff:ff:ff"
_NOBODY: Final = "00:00:00:00:00:00"
_ETHERNET: Final = 14
_ARP: Final = 28
_IPV4_MIN: Final = 20
_IPV4: Final = 4
_PART: Final = 0x3FFF
"""More fragments to come, or not the first one."""
_UDP: Final = 8
_HOPS: Final = 64
_RST: Final = 0x04
_FRAGMENT: Final = 0x1FFF
_ETHERNET_IPV4: Final = b"\x00\x01\x08\x00\x06\x04"
"""Hardware and protocol of the only ARP there is for us: Ethernet, IPv4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arp:
    """An ARP packet between Ethernet and IPv4."""

    operation: int
    sender_mac: str
    sender_ip: IPv4Address
    target_ip: IPv4Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The ends of a TCP or UDP packet over IPv4; `reset`: it ends a TCP connection at once."""

    protocol: int
    source: IPv4Address
    destination: IPv4Address
    source_port: int
    destination_port: int
    reset: bool = False


def load() -> None:
    """Load the library, which is otherwise done with the first packet.

    It takes a tenth of a second, which an agent that starts has better things to do with.
    """
    importlib.import_module("os_ken.lib.packet.ipv4")


def ether_type(frame: bytes) -> int:
    """Return what a frame carries, behind an 802.1Q tag if there is one; 0 for a stump."""
    at = 16 if is_tagged(frame) else 12
    return int.from_bytes(frame[at : at + 2], "big")


def is_tagged(frame: bytes) -> bool:
    """Return whether a frame carries an 802.1Q tag."""
    return frame[12:14] == b"\x81\x00"


def vlan(frame: bytes) -> int:
    """Return the VLAN of a frame, 0 without a tag."""
    return int.from_bytes(frame[14:16], "big") & 0xFFF if is_tagged(frame) else 0


def parse_arp(frame: bytes) -> Arp | None:
    """Return the ARP packet of a frame, or None if it is none or a broken one."""
    body = _payload(frame)
    if ether_type(frame) != oxm.ETH_ARP or len(body) < _ARP or body[:6] != _ETHERNET_IPV4:
        return None
    from os_ken.lib.packet import arp  # noqa: PLC0415 - see `load`

    parsed, _, _ = arp.arp.parser(body)
    return Arp(
        operation=parsed.opcode,
        sender_mac=parsed.src_mac,
        sender_ip=IPv4Address(parsed.src_ip),
        target_ip=IPv4Address(parsed.dst_ip),
    )


def arp_reply(request: Arp, mac: str) -> bytes:
    """Return the untagged frame that tells the asker the target's MAC."""
    from os_ken.lib.packet import arp, ethernet, packet  # noqa: PLC0415 - see `load`

    reply = packet.Packet()
    reply.add_protocol(ethernet.ethernet(dst=request.sender_mac, src=mac, ethertype=oxm.ETH_ARP))
    reply.add_protocol(
        arp.arp(
            opcode=ARP_REPLY,
            src_mac=mac,
            src_ip=str(request.target_ip),
            dst_mac=request.sender_mac,
            dst_ip=str(request.sender_ip),
        )
    )
    reply.serialize()
    return bytes(reply.data)


def arp_announcement(mac: str, address: IPv4Address) -> bytes:
    """Return the untagged frame by which an address is announced: it asks everybody for itself."""
    return arp_request(mac, address, address)


def arp_request(mac: str, address: IPv4Address, target: IPv4Address) -> bytes:
    """Return the untagged frame that asks everybody for the MAC of an address."""
    from os_ken.lib.packet import arp, ethernet, packet  # noqa: PLC0415 - see `load`

    frame = packet.Packet()
    frame.add_protocol(ethernet.ethernet(dst=_EVERYBODY, src=mac, ethertype=oxm.ETH_ARP))
    frame.add_protocol(
        arp.arp(
            opcode=ARP_REQUEST,
            src_mac=mac,
            src_ip=str(address),
            dst_mac=_NOBODY,
            dst_ip=str(target),
        )
    )
    frame.serialize()
    return bytes(frame.data)


def is_udp_to(frame: bytes, port: int) -> bool:
    """Return whether a frame is an IPv4 UDP packet, or its first fragment, to a port."""
    body = _payload(frame)
    if ether_type(frame) != oxm.ETH_IPV4 or len(body) < _IPV4_MIN or body[9] != oxm.PROTO_UDP:
        return False
    header = (body[0] & 0xF) * 4
    udp = body[header : header + _UDP]
    return len(udp) == _UDP and int.from_bytes(udp[2:4], "big") == port


def udp_payload(frame: bytes) -> bytes | None:
    """Return what the UDP packet of an untagged IPv4 frame carries; None unless it is all there."""
    if is_tagged(frame) or ether_type(frame) != oxm.ETH_IPV4:
        return None
    body = _payload(frame)
    body = body[: int.from_bytes(body[2:4], "big")]  # short frames are padded
    if len(body) < _IPV4_MIN or body[0] >> 4 != _IPV4 or body[9] != oxm.PROTO_UDP:
        return None
    header, fragment = (body[0] & 0xF) * 4, int.from_bytes(body[6:8], "big") & _PART
    datagram = body[header:]
    length = int.from_bytes(datagram[4:6], "big")
    if header < _IPV4_MIN or fragment or not _UDP <= length <= len(datagram):
        return None
    return datagram[_UDP:length]


def udp_reply(frame: bytes, payload: bytes) -> bytes:
    """Return the frame that answers a whole UDP packet (`udp_payload`) in its receiver's name.

    It lives for 64 hops; its other marks are those of the packet (`ofnetDns.go`).
    """
    from os_ken.lib.packet import ethernet, ipv4, packet, udp  # noqa: PLC0415 - see `load`

    asked, _, datagram = ipv4.ipv4.parser(_payload(frame))
    ports, _, _ = udp.udp.parser(datagram)
    outer, _, _ = ethernet.ethernet.parser(frame)
    reply = packet.Packet()
    reply.add_protocol(ethernet.ethernet(dst=outer.src, src=outer.dst, ethertype=oxm.ETH_IPV4))
    reply.add_protocol(
        ipv4.ipv4(
            identification=asked.identification,
            flags=asked.flags,
            ttl=_HOPS,
            proto=oxm.PROTO_UDP,
            src=asked.dst,
            dst=asked.src,
        )
    )
    reply.add_protocol(udp.udp(src_port=ports.dst_port, dst_port=ports.src_port))
    reply.add_protocol(payload)
    reply.serialize()
    return bytes(reply.data)


def parse_segment(frame: bytes) -> Segment | None:
    """Return the ends of a frame's TCP or UDP packet; None for what has none, as fragments."""
    body = _payload(frame)
    if ether_type(frame) != oxm.ETH_IPV4 or len(body) < _IPV4_MIN:
        return None
    transport = body[(body[0] & 0xF) * 4 :]
    fragment = int.from_bytes(body[6:8], "big") & _FRAGMENT
    if body[9] not in {oxm.PROTO_TCP, oxm.PROTO_UDP} or len(transport) < _UDP or fragment:
        return None
    return Segment(
        protocol=body[9],
        source=IPv4Address(body[12:16]),
        destination=IPv4Address(body[16:20]),
        source_port=int.from_bytes(transport[:2], "big"),
        destination_port=int.from_bytes(transport[2:4], "big"),
        reset=body[9] == oxm.PROTO_TCP and bool(transport[13:14] and transport[13] & _RST),
    )


def source(frame: bytes) -> tuple[str, IPv4Address]:
    """Return the MAC and the IPv4 address a whole IPv4 frame says it comes from."""
    return frame[6:12].hex(":"), IPv4Address(_payload(frame)[12:16])


def tagged(frame: bytes, vlan: int) -> bytes:
    """Return the frame with an 802.1Q tag, all else untouched."""
    return frame[:12] + struct.pack(">HH", oxm.ETH_VLAN, vlan) + frame[12:]


def untagged(frame: bytes) -> bytes:
    """Return the frame without its outer 802.1Q tag, if it has one."""
    return frame[:12] + frame[16:] if is_tagged(frame) else frame


def _payload(frame: bytes) -> bytes:
    return frame[_ETHERNET + 4 if is_tagged(frame) else _ETHERNET :]
