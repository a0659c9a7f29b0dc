"""Frames as pods send them."""

import struct
from ipaddress import IPv4Address, IPv6Address

from ofnet.openflow.oxm import mac_bytes
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.world import LocalEndpoint
from tests.unit.ofnet.worlds import address, address6, ip_of, mac

BROADCAST = b"\xff" * 6
UNSET = bytes(4)


def arp(sender: int, target: bytes, *, operation: int = 1, sender_ip: bytes | None = None) -> bytes:
    """Return an ARP packet of pod `sender`."""
    own = mac_bytes(mac(sender))
    return (
        BROADCAST
        + own
        + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, operation)
        + own
        + (address(sender).packed if sender_ip is None else sender_ip)
        + bytes(6)
        + target
    )


def advertisement(
    mac_address: str, target: IPv6Address, *, hops: int = 255, options: bytes | None = None
) -> bytes:
    """Return the neighbour advertisement of a machine on the physical network."""
    own = mac_bytes(mac_address)
    said = b"\x02\x01" + own if options is None else options
    message = struct.pack(">BBHI", 136, 0, 0, 0x60000000) + target.packed + said
    header = struct.pack(">IHBB", 6 << 28, len(message), 58, hops) + target.packed + target.packed
    return mac_bytes(ROUTER_MAC) + own + b"\x86\xdd" + header + message


def udp(sender: int, target: int, port: int, payload: bytes = b"payload") -> bytes:
    """Return a UDP packet of pod `sender`."""
    ethernet = mac_bytes(mac(target)) + mac_bytes(mac(sender)) + b"\x08\x00"
    datagram = struct.pack(">HHHH", 40000, port, 8 + len(payload), 0) + payload
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(datagram), 0, 0, 64, 17, 0)
    return ethernet + header + address(sender).packed + address(target).packed + datagram


def udp6(sender: int, target: int, port: int, payload: bytes = b"payload") -> bytes:
    """Return a UDP packet of pod `sender` by IPv6, without a sum."""
    ethernet = mac_bytes(mac(target)) + mac_bytes(mac(sender)) + b"\x86\xdd"
    datagram = struct.pack(">HHHH", 40000, port, 8 + len(payload), 0) + payload
    header = struct.pack(">IHBB", 6 << 28, len(datagram), 17, 64)
    return ethernet + header + address6(sender).packed + address6(target).packed + datagram


def segment(
    sender: LocalEndpoint,
    target: str,
    port: int,
    *,
    protocol: int = 6,
    source_port: int = 40000,
    vlan: int = 0,
    flags: int = 0x02,
) -> bytes:
    """Return a packet a pod sends from one port to another; by default TCP's has SYN alone."""
    tcp = struct.pack(">IIBBHHH", 1, 0, 0x50, flags, 1024, 0, 0)
    rest = tcp if protocol == 6 else struct.pack(">HH", 12, 0) + b"ping"
    body = struct.pack(">HH", source_port, port) + rest
    ends = ip_of(sender).packed + IPv4Address(target).packed
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0) + ends
    tag = struct.pack(">HH", 0x8100, vlan) if vlan else b""
    return mac_bytes(ROUTER_MAC) + mac_bytes(sender.mac) + tag + b"\x08\x00" + header + body


def error(sender: IPv4Address, private: IPv4Address, *, quotes: IPv4Address | None = None) -> bytes:
    """Return an error of ICMP, port unreachable, about a datagram of a private address."""
    quoted = _packet(17, (quotes or private).packed, sender.packed, bytes(8))
    body = struct.pack(">BBHI", 3, 3, 0, 0) + quoted
    body = body[:2] + _sum(body) + body[4:]
    frame = bytes(6) + mac_bytes(ROUTER_MAC) + b"\x08\x00"
    return frame + _packet(1, sender.packed, private.packed, body)


def error6(
    sender: IPv6Address, private: IPv6Address, *, quotes: IPv6Address | None = None
) -> bytes:
    """Return an error of ICMPv6, packet too big, about a datagram of a private address."""
    quoted = _packet6(17, (quotes or private).packed, sender.packed, bytes(8))
    body = struct.pack(">BBHI", 2, 0, 0, 1300) + quoted
    pseudo = sender.packed + private.packed + struct.pack(">II", len(body), 58)
    body = body[:2] + _sum(pseudo + body) + body[4:]
    frame = bytes(6) + mac_bytes(ROUTER_MAC) + b"\x86\xdd"
    return frame + _packet6(58, sender.packed, private.packed, body)


def _packet6(protocol: int, source: bytes, target: bytes, body: bytes) -> bytes:
    return struct.pack(">IHBB", 6 << 28, len(body), protocol, 64) + source + target + body


def _packet(protocol: int, source: bytes, target: bytes, body: bytes) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0)
    head += source + target
    return head[:10] + _sum(head) + head[12:] + body


def _sum(data: bytes) -> bytes:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ((total & 0xFFFF) + (total >> 16)) ^ 0xFFFF)
