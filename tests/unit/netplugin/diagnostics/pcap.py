"""What tests of pcap share."""

import struct
from ipaddress import ip_address


def ethernet(ethertype: int, body: bytes, tag: int | None = None) -> bytes:
    tagged = b"" if tag is None else struct.pack(">HH", 0x8100, tag)
    return bytes(12) + tagged + struct.pack(">H", ethertype) + body


def ipv4(source: str, target: str, protocol: int, body: bytes = b"", fragment: int = 0) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, fragment, 64, protocol, 0)
    return head + ip_address(source).packed + ip_address(target).packed + body


def ports(source: int, target: int) -> bytes:
    return struct.pack(">HH", source, target) + bytes(16)


TCP = ethernet(0x0800, ipv4("10.1.1.2", "10.1.1.3", 6, ports(40_000, 80)))


PING = ethernet(0x0800, ipv4("10.1.1.2", "10.1.1.3", 1))
