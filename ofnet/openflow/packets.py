"""Parses the frames of packet-ins and builds the frames of packet-outs. Pure.

Frames come from pods and are untrusted: a frame that cannot be parsed is None, never an exception.
The only module that uses os-ken.
"""

# Where os-ken is used and where not. Its packet library builds and parses ARP, IPv4 and UDP here: a
# frame at a time, where speed does not matter and checksums and padding must be right. Its OpenFlow
# codec is not used for flows (`ofnet.channel.wire`): an agent that starts encodes tens of thousands
# of flow-mods at once, and os-ken takes six to eight times as long for one. Tests use that codec as
# the reference instead (`tests/unit/ofnet/channel/test_wire.py`). Fields that decide quickly
# whether a frame matters (ether type, ports) are read here without it.

import importlib
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ofnet.openflow import oxm

ARP_REQUEST: Final = 1
ARP_REPLY: Final = 2

_BROADCAST: Final = "ff:ff:ff:ff:ff:ff"
_ZERO_MAC: Final = "00:00:00:00:00:00"
_ETHERNET: Final = 14
_ARP: Final = 28
_IPV4_MIN: Final = 20
_IPV4: Final = 4
_PART: Final = 0x3FFF
"""More fragments to come, or not the first one."""
_UDP: Final = 8
_ICMP: Final = 8
_FLAGS: Final = 0xE0
"""The three flags above the offset of a fragment."""

_HOPS: Final = 64
_IPV6: Final = 40
_VERSION6: Final = 6
_ADVERT: Final = 24
"""Bytes of an ICMPv6 neighbour advertisement before its options."""
_TARGET_MAC: Final = b"\x02\x01"
"""The option with the target's MAC address: its kind, and its length in units of eight bytes."""
_ND_HOPS: Final = 255
"""The hop limit of ND: a packet from beyond the network would have a lower one."""
SOLICITED_OVERRIDE: Final = 0x60000000
"""The flags of an advertisement that answers a solicitation, and replaces what was known."""
_OVERRIDE: Final = 0x20000000
_ALL_NODES: Final = IPv6Address("ff02::1").packed

_SOLICITED_NODE: Final = int(IPv6Address("ff02::1:ff00:0"))
_ETHERNET_IPV4: Final = b"\x00\x01\x08\x00\x06\x04"
"""Hardware and protocol of the only ARP that is handled: Ethernet, IPv4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arp:
    """An ARP packet between Ethernet and IPv4."""

    operation: int
    sender_mac: str
    sender_ip: IPv4Address
    target_ip: IPv4Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """An address and the MAC address that its owner said it has, by ARP or ND."""

    address: IPv4Address | IPv6Address
    mac: str


def load() -> None:
    """Import os-ken, which is otherwise done for the first packet.

    The import takes a tenth of a second, which would delay the start of an agent.
    """
    importlib.import_module("os_ken.lib.packet.ipv4")


def ether_type(frame: bytes) -> int:
    """Return a frame's ether type, behind an 802.1Q tag if any; 0 for a truncated frame."""
    at = 16 if is_tagged(frame) else 12
    return int.from_bytes(frame[at : at + 2], "big")


def is_tagged(frame: bytes) -> bool:
    """Return whether a frame carries an 802.1Q tag."""
    return frame[12:14] == b"\x81\x00"


def vlan(frame: bytes) -> int:
    """Return the VLAN of a frame, 0 without a tag."""
    return int.from_bytes(frame[14:16], "big") & 0xFFF if is_tagged(frame) else 0


def parse_arp(frame: bytes) -> Arp | None:
    """Return the ARP packet of a frame; None for another or a broken one."""
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
    """Return the untagged frame that answers a request with the target's MAC."""
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
    """Return the untagged frame of a gratuitous ARP: a broadcast request for the address itself."""
    return arp_request(mac, address, address)


def arp_to_itself(mac: str, address: IPv4Address) -> bytes:
    """Return an untagged gratuitous ARP from a MAC to the same MAC.

    A learning switch learns the MAC at the port that it came by, and forwards it at most to the
    port where it knew the MAC before.
    """
    return _arp_request(mac, address, address, to=mac)


def arp_request(mac: str, address: IPv4Address, target: IPv4Address) -> bytes:
    """Return the untagged broadcast frame that requests the MAC of an address."""
    return _arp_request(mac, address, target, to=_BROADCAST)


def _arp_request(mac: str, address: IPv4Address, target: IPv4Address, *, to: str) -> bytes:
    from os_ken.lib.packet import arp, ethernet, packet  # noqa: PLC0415 - see `load`

    frame = packet.Packet()
    frame.add_protocol(ethernet.ethernet(dst=to, src=mac, ethertype=oxm.ETH_ARP))
    frame.add_protocol(
        arp.arp(
            opcode=ARP_REQUEST,
            src_mac=mac,
            src_ip=str(address),
            dst_mac=_ZERO_MAC,
            dst_ip=str(target),
        )
    )
    frame.serialize()
    return bytes(frame.data)


def parse_advertisement(frame: bytes) -> Neighbour | None:
    """Return what an untagged neighbour advertisement says; None for another or a broken frame.

    One that a router has forwarded, or that has no MAC address, says nothing (RFC 4861 §7.1.2).
    """
    packet = frame[_ETHERNET:]
    length = int.from_bytes(packet[4:6], "big")
    message = packet[_IPV6 : _IPV6 + length]
    if is_tagged(frame) or ether_type(frame) != oxm.ETH_IPV6 or len(message) < max(length, _ADVERT):
        return None
    kind = packet[6], packet[7], message[0], message[1]
    if kind != (oxm.PROTO_ICMP6, _ND_HOPS, oxm.ND_ADVERT, 0):
        return None
    at = _ADVERT
    while at + 8 <= len(message) and message[at + 1]:
        if message[at : at + 2] == _TARGET_MAC:
            mac = message[at + 2 : at + 8].hex(":")
            return Neighbour(address=IPv6Address(message[8:_ADVERT]), mac=mac)
        at += 8 * message[at + 1]
    return None


def advertisement(frame: bytes) -> bytes | None:
    """Return the neighbour advertisement that a solicitation gets from its frame's sender.

    In the frame the switch has put the answer's MAC and address as those of the sender, and the
    requester's as those of the receiver (`ofnet.pipelines.packet_path.neighbours`). The rest is as
    its sender made it: None unless it is a whole and valid solicitation for that address, without a
    tag (RFC 4861 §7.1.1). Nothing else of it is in the answer.
    """
    packet = frame[_ETHERNET:]
    length = int.from_bytes(packet[4:6], "big")
    message = packet[_IPV6 : _IPV6 + length]
    if is_tagged(frame) or ether_type(frame) != oxm.ETH_IPV6 or len(message) < max(length, _ADVERT):
        return None
    kind = packet[0] >> 4, packet[6], packet[7], message[0], message[1]
    if kind != (6, oxm.PROTO_ICMP6, _ND_HOPS, oxm.ND_SOLICIT, 0):
        return None
    own, requester = packet[8:24], packet[24:40]
    if message[8:_ADVERT] != own or not _is_unicast(requester) or not _are_options(message):
        return None
    body = struct.pack(">I", SOLICITED_OVERRIDE) + own + _TARGET_MAC + frame[6:12]
    size = len(body) + 4
    summed = checksum(_pseudo6(own, requester, size) + bytes((oxm.ND_ADVERT, 0, 0, 0)) + body)
    head = packet[:4] + struct.pack(">HBB", size, oxm.PROTO_ICMP6, _ND_HOPS) + own + requester
    return frame[:_ETHERNET] + head + struct.pack(">BBH", oxm.ND_ADVERT, 0, summed) + body


def _is_unicast(address: bytes) -> bool:
    parsed = IPv6Address(address)
    return not (parsed.is_multicast or parsed.is_unspecified)


def _are_options(message: bytes) -> bool:
    """Return whether what follows an ND message's target is whole options."""
    at = _ADVERT
    while at + 2 <= len(message) and message[at + 1]:
        at += 8 * message[at + 1]
    return at == len(message)


def unsolicited(mac: str, address: IPv6Address) -> bytes:
    """Return the untagged frame that advertises an address to all nodes without being asked."""
    own = address.packed
    body = struct.pack(">I", _OVERRIDE) + own + _TARGET_MAC + bytes.fromhex(mac.replace(":", ""))
    size = len(body) + 4
    summed = checksum(_pseudo6(own, _ALL_NODES, size) + bytes((oxm.ND_ADVERT, 0, 0, 0)) + body)
    ethernet = b"\x33\x33" + _ALL_NODES[-4:] + bytes.fromhex(mac.replace(":", "")) + b"\x86\xdd"
    head = struct.pack(">IHBB", 6 << 28, size, oxm.PROTO_ICMP6, _ND_HOPS) + own + _ALL_NODES
    return ethernet + head + struct.pack(">BBH", oxm.ND_ADVERT, 0, summed) + body


def solicitation(mac: str, address: IPv6Address, target: IPv6Address) -> bytes:
    """Return the untagged multicast frame that requests the MAC of an IPv6 address."""
    from os_ken.lib.packet import ethernet, icmpv6, ipv6, packet  # noqa: PLC0415 - see `load`

    group = IPv6Address(_SOLICITED_NODE | int(target) & 0xFFFFFF)
    group_mac = (b"\x33\x33" + group.packed[-4:]).hex(":")
    frame = packet.Packet()
    frame.add_protocol(ethernet.ethernet(dst=group_mac, src=mac, ethertype=oxm.ETH_IPV6))
    frame.add_protocol(
        ipv6.ipv6(src=str(address), dst=str(group), nxt=oxm.PROTO_ICMP6, hop_limit=_ND_HOPS)
    )
    sender = icmpv6.nd_option_sla(hw_src=mac)
    wanted = icmpv6.nd_neighbor(dst=str(target), option=sender)
    frame.add_protocol(icmpv6.icmpv6(type_=oxm.ND_SOLICIT, data=wanted))
    frame.serialize()
    return bytes(frame.data)


def is_udp_to(frame: bytes, port: int) -> bool:
    """Return whether a frame is a UDP packet, or IPv4's first fragment of one, to a port."""
    body = _payload(frame)
    if ether_type(frame) == oxm.ETH_IPV6:
        ports = body[_IPV6 : _IPV6 + 4]
        return body[6:7] == bytes((oxm.PROTO_UDP,)) and ports[2:] == port.to_bytes(2)
    if ether_type(frame) != oxm.ETH_IPV4 or len(body) < _IPV4_MIN or body[9] != oxm.PROTO_UDP:
        return False
    header = (body[0] & 0xF) * 4
    udp = body[header : header + _UDP]
    return len(udp) == _UDP and int.from_bytes(udp[2:4], "big") == port


def udp_payload(frame: bytes) -> bytes | None:
    """Return the payload of an untagged frame's UDP packet; None unless it is complete.

    An IPv6 packet with extension headers is none.
    """
    if is_tagged(frame):
        return None
    body = _payload(frame)
    if ether_type(frame) == oxm.ETH_IPV6:
        return _udp_payload6(body)
    if ether_type(frame) != oxm.ETH_IPV4:
        return None
    body = body[: int.from_bytes(body[2:4], "big")]  # short frames are padded
    if len(body) < _IPV4_MIN or body[0] >> 4 != _IPV4 or body[9] != oxm.PROTO_UDP:
        return None
    header, fragment = (body[0] & 0xF) * 4, int.from_bytes(body[6:8], "big") & _PART
    datagram = body[header:]
    length = int.from_bytes(datagram[4:6], "big")
    if header < _IPV4_MIN or fragment or not _UDP <= length <= len(datagram):
        return None
    return datagram[_UDP:length]


def _udp_payload6(body: bytes) -> bytes | None:
    if len(body) < _IPV6 + _UDP:
        return None
    datagram = body[_IPV6:][: int.from_bytes(body[4:6], "big")]
    length = int.from_bytes(datagram[4:6], "big")
    if body[0] >> 4 != _VERSION6 or body[6] != oxm.PROTO_UDP or not _UDP <= length <= len(datagram):
        return None
    return datagram[_UDP:length]


def _udp_reply6(frame: bytes, payload: bytes) -> bytes:
    body = _payload(frame)
    own, requester, ports = body[24:40], body[8:24], body[_IPV6:][:4]
    length = _UDP + len(payload)
    datagram = ports[2:] + ports[:2] + length.to_bytes(2) + bytes(2) + payload
    pseudo = own + requester + struct.pack(">IxxxB", length, oxm.PROTO_UDP)
    # a sum of zero would say that there is none, which IPv6 does not allow (RFC 8200 §8.1)
    summed = checksum(pseudo + datagram) or 0xFFFF
    head = struct.pack(">IHBB", _VERSION6 << 28, length, oxm.PROTO_UDP, _HOPS) + own + requester
    return (
        frame[6:12] + frame[:6] + frame[12:14] + head + datagram[:6] + summed.to_bytes(2) + payload
    )


def udp_reply(frame: bytes, payload: bytes) -> bytes:
    """Return the frame that answers a complete UDP packet (`udp_payload`) from its destination.

    Its TTL is 64; identification and flags are those of the packet (`ofnetDns.go`).
    """
    # Packed here, not by os-ken, which takes ten times as long: pods ask many times a second.
    if ether_type(frame) == oxm.ETH_IPV6:
        return _udp_reply6(frame, payload)
    body = _payload(frame)
    ports = body[(body[0] & 0xF) * 4 :][:4]
    length = _UDP + len(payload)
    identification, flags = body[4:6], body[6] & _FLAGS
    ends = body[16:20] + body[12:16]
    head = struct.pack(">BBH", 0x45, 0, _IPV4_MIN + length) + identification
    head += struct.pack(">BBBB", flags, 0, _HOPS, oxm.PROTO_UDP)
    head += checksum(head + ends).to_bytes(2) + ends
    datagram = ports[2:] + ports[:2] + length.to_bytes(2)
    pseudo = ends + struct.pack(">BBH", 0, oxm.PROTO_UDP, length)
    # 0 would mean that there is no checksum (RFC 768)
    summed = checksum(pseudo + datagram + b"\0\0" + payload) or 0xFFFF
    return (
        frame[6:12]
        + frame[:6]
        + struct.pack(">H", oxm.ETH_IPV4)
        + head
        + datagram
        + summed.to_bytes(2)
        + payload
    )


def quoted_sender(frame: bytes) -> IPv4Address | IPv6Address | None:
    """Return the sender of the packet that an error of ICMP quotes: the error's own receiver.

    None unless it is a whole and valid error about a packet of that receiver.
    """
    return _quoted_sender6(frame) if ether_type(frame) == oxm.ETH_IPV6 else _quoted_sender4(frame)


def _quoted_sender6(frame: bytes) -> IPv6Address | None:
    packet = _payload(frame)
    size = int.from_bytes(packet[4:6], "big")
    error, quoted = packet[_IPV6 : _IPV6 + size], packet[_IPV6 + _ICMP : _IPV6 + size]
    # a fragment, or an error behind other headers, has another number there
    if len(packet) < _IPV6 or (packet[0] >> 4, packet[6]) != (6, oxm.PROTO_ICMP6):
        return None
    if len(error) < size or len(quoted) < _IPV6 or quoted[0] >> 4 != 6:
        return None
    receiver = packet[24:40]
    if checksum(_pseudo6(packet[8:24], receiver, size) + error) or quoted[8:24] != receiver:
        return None
    return IPv6Address(receiver)


def _pseudo6(source: bytes, destination: bytes, size: int) -> bytes:
    """Return what the checksum of ICMPv6 counts besides the message, which has so many bytes."""
    return source + destination + struct.pack(">II", size, oxm.PROTO_ICMP6)


def _quoted_sender4(frame: bytes) -> IPv4Address | None:
    body = _payload(frame)
    length = int.from_bytes(body[2:4], "big")
    if length < _IPV4_MIN or len(body) < length:
        return None
    body = body[:length]  # short frames are padded
    header = (body[0] & 0xF) * 4
    error, quoted = body[header:], body[header + _ICMP :]
    if ether_type(frame) != oxm.ETH_IPV4 or header < _IPV4_MIN or body[9] != oxm.PROTO_ICMP:
        return None
    if int.from_bytes(body[6:8], "big") & _PART or checksum(error):
        return None
    if len(quoted) < _IPV4_MIN or len(quoted) < _quoted_header(quoted) or quoted[0] >> 4 != _IPV4:
        return None
    return IPv4Address(quoted[12:16]) if quoted[12:16] == body[16:20] else None


def error_about(frame: bytes, address: IPv4Address | IPv6Address) -> bytes:
    """Return an error of ICMP (`quoted_sender`) with another receiver, who sent what it quotes.

    The address is of the error's family. The checksum of the quoted TCP or UDP stays as it is:
    nobody checks it, and it may be cut off.
    """
    start = len(frame) - len(_payload(frame))
    if address.version == 6:
        packet = frame[start : start + _IPV6 + int.from_bytes(frame[start + 4 : start + 6], "big")]
        return frame[:start] + _error_about6(packet, address.packed)
    header = (frame[start] & 0xF) * 4
    body = frame[start : start + int.from_bytes(frame[start + 2 : start + 4], "big")]
    quoted = body[header + _ICMP :]
    size = _quoted_header(quoted)
    inner = _summed(quoted[:12] + address.packed + quoted[16:size], 10) + quoted[size:]
    error = _summed(body[header : header + _ICMP] + inner, 2)
    return frame[:start] + _summed(body[:16] + address.packed + body[20:header], 10) + error


def _error_about6(packet: bytes, address: bytes) -> bytes:
    error, quoted = packet[_IPV6 : _IPV6 + _ICMP], packet[_IPV6 + _ICMP :]
    message = error[:2] + bytes(2) + error[4:] + quoted[:8] + address + quoted[24:]
    summed = checksum(_pseudo6(packet[8:24], address, len(message)) + message)
    return packet[:24] + address + message[:2] + summed.to_bytes(2) + message[4:]


def _quoted_header(quoted: bytes) -> int:
    return max((quoted[0] & 0xF) * 4, _IPV4_MIN)


def _summed(data: bytes, at: int) -> bytes:
    """Return a header with its checksum, which is at an offset."""
    blank = data[:at] + bytes(2) + data[at + 2 :]
    return data[:at] + checksum(blank).to_bytes(2) + data[at + 2 :]


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    words: tuple[int, ...] = struct.unpack(f">{len(data) // 2}H", data)
    total = sum(words)
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def source(frame: bytes) -> tuple[str, IPv4Address | IPv6Address]:
    """Return the source MAC and the source address of a complete frame of either family."""
    packet = _payload(frame)
    if ether_type(frame) == oxm.ETH_IPV6:
        return frame[6:12].hex(":"), IPv6Address(packet[8:24])
    return frame[6:12].hex(":"), IPv4Address(packet[12:16])


def destination(frame: bytes) -> IPv4Address | IPv6Address:
    """Return the destination address of a complete frame of either family."""
    packet = _payload(frame)
    if ether_type(frame) == oxm.ETH_IPV6:
        return IPv6Address(packet[24:40])
    return IPv4Address(packet[16:20])


def tagged(frame: bytes, vlan: int) -> bytes:
    """Return the frame with an 802.1Q tag added."""
    return frame[:12] + struct.pack(">HH", oxm.ETH_VLAN, vlan) + frame[12:]


def untagged(frame: bytes) -> bytes:
    """Return the frame without its outer 802.1Q tag, if it has one."""
    return frame[:12] + frame[16:] if is_tagged(frame) else frame


def _payload(frame: bytes) -> bytes:
    return frame[_ETHERNET + 4 if is_tagged(frame) else _ETHERNET :]
