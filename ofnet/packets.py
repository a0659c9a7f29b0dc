"""The packet library's door: ARP and DNS packets taken apart and built, pure.

The only module that knows os_ken. Frames come from pods and are untrusted: what cannot be read is
None, never an exception.
"""

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from os_ken.lib.packet import arp, ethernet, packet

from ofnet import oxm

ARP_REQUEST: Final = arp.ARP_REQUEST
ARP_REPLY: Final = arp.ARP_REPLY

_EVERYBODY: Final = "ff:ff:ff:ff:ff:ff"
_NOBODY: Final = "00:00:00:00:00:00"
_ETHERNET: Final = 14
_ARP: Final = 28
_IPV4_MIN: Final = 20
_UDP: Final = 8
_ETHERNET_IPV4: Final = b"\x00\x01\x08\x00\x06\x04"
"""Hardware and protocol of the only ARP there is for us: Ethernet, IPv4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arp:
    """An ARP packet between Ethernet and IPv4."""

    operation: int
    sender_mac: str
    sender_ip: IPv4Address
    target_ip: IPv4Address


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
    parsed, _, _ = arp.arp.parser(body)
    return Arp(
        operation=parsed.opcode,
        sender_mac=parsed.src_mac,
        sender_ip=IPv4Address(parsed.src_ip),
        target_ip=IPv4Address(parsed.dst_ip),
    )


def arp_reply(request: Arp, mac: str) -> bytes:
    """Return the untagged frame that tells the asker the target's MAC."""
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


def source(frame: bytes) -> tuple[str, IPv4Address]:
    """Return the MAC and the IPv4 address a whole IPv4 frame says it comes from."""
    return frame[6:12].hex(":"), IPv4Address(_payload(frame)[12:16])


def tagged(frame: bytes, vlan: int) -> bytes:
    """Return the frame with an 802.1Q tag, all else untouched."""
    return frame[:12] + struct.pack(">HH", oxm.ETH_VLAN, vlan) + frame[12:]


def _payload(frame: bytes) -> bytes:
    return frame[_ETHERNET + 4 if is_tagged(frame) else _ETHERNET :]
