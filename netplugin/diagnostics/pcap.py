"""Captured packets: the file format of libpcap, and which packets a capture is about. Pure.

A filter is a few words of tcpdump's language: protocols, `host`, `net`, `port`, joined by `and`.
All of them must hold. Packets are untrusted bytes: one that is too short for what is asked does not
match.
"""

# https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap: little-endian, with nanoseconds.

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from core.errors import Invalid
from core.numbers import bounded

MEDIA: Final = "application/vnd.tcpdump.pcap"
LONGEST_FILTER: Final = 256

_FILE: Final = struct.Struct("<IHHiIII")
_RECORD: Final = struct.Struct("<IIII")
_MAGIC: Final = 0xA1B23C4D
_ETHERNET: Final = 1
_HEAD: Final = 14
_VLAN: Final = 0x8100
_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_ARP: Final = 0x0806
_BILLION: Final = 1_000_000_000
_PORTED: Final = frozenset({6, 17, 132})
_PROTOCOLS: Final = {"icmp": (_IPV4, 1), "icmp6": (_IPV6, 58), "tcp": (0, 6), "udp": (0, 17)}
_TYPES: Final = {"arp": _ARP, "ip": _IPV4, "ip6": _IPV6}


def file_header(snaplen: int) -> bytes:
    """Return the beginning of a file of Ethernet packets of at most `snaplen` bytes each."""
    return _FILE.pack(_MAGIC, 2, 4, 0, 0, snaplen, _ETHERNET)


def record(at: int, data: bytes, length: int) -> bytes:
    """Return a packet as the file has it; `at` is in nanoseconds, `length` that on the wire."""
    return _RECORD.pack(at // _BILLION, at % _BILLION, len(data), length) + data


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketHeaders:
    """What a filter looks at; 0 and None for what a packet does not have."""

    ethertype: int = 0
    protocol: int = 0
    source: IPv4Address | IPv6Address | None = None
    destination: IPv4Address | IPv6Address | None = None
    ports: tuple[int, ...] = ()


Matches = Callable[[PacketHeaders], bool]


def packet_filter(text: str) -> Callable[[bytes], bool]:
    """Return what says whether a packet matches; "" is any. Raises Invalid."""
    if len(text) > LONGEST_FILTER:
        raise Invalid(f"the filter is longer than {LONGEST_FILTER} characters")
    terms = list(_terms(text))

    def matches(packet: bytes) -> bool:
        if not terms:
            return True
        found = headers(packet)
        return all(term(found) for term in terms)

    return matches


def _terms(text: str) -> Iterator[Matches]:
    words = iter(word for word in text.lower().split() if word != "and")
    for word in words:
        if word in _TYPES:
            yield _of_type(_TYPES[word])
        elif word in _PROTOCOLS:
            yield _of_protocol(*_PROTOCOLS[word])
        elif word in {"host", "net", "port"}:
            value = next(words, "")
            yield _at_port(value) if word == "port" else _within(word, value)
        else:
            known = ", ".join(sorted([*_TYPES, *_PROTOCOLS]))
            raise Invalid(
                f"filter: {word} is not known; want words of {known}, host ADDRESS, net PREFIX, "
                "port NUMBER, joined by `and`"
            )


def _of_type(ethertype: int) -> Matches:
    return lambda found: found.ethertype == ethertype


def _of_protocol(ethertype: int, protocol: int) -> Matches:
    return lambda found: found.protocol == protocol and ethertype in {0, found.ethertype}


def _at_port(text: str) -> Matches:
    port = bounded(text, 1, 0xFFFF)
    if port is None:
        raise Invalid(f"filter: port {text[:80]} is not a number from 1 to 65535")
    return lambda found: port in found.ports


def _within(word: str, text: str) -> Matches:
    try:
        network: IPv4Network | IPv6Network = ip_network(text)
    except ValueError as exc:
        raise Invalid(f"filter: {word} {text}: {exc}") from exc
    if word == "host" and network.num_addresses > 1:
        raise Invalid(f"filter: host {text} is a prefix; want net {text}")
    return lambda found: any(
        one is not None and one.version == network.version and one in network
        for one in (found.source, found.destination)
    )


def headers(packet: bytes) -> PacketHeaders:
    """Return the headers of an Ethernet packet, as far as it has them."""
    at = _HEAD
    ethertype = _number(packet, 12)
    if ethertype == _VLAN:
        at, ethertype = at + 4, _number(packet, 16)
    body = packet[at:]
    if ethertype == _IPV4 and len(body) >= 20:
        protocol, length = body[9], (body[0] & 0xF) * 4
        first = not _number(body, 6) & 0x1FFF
        return PacketHeaders(
            ethertype=ethertype,
            protocol=protocol,
            source=IPv4Address(body[12:16]),
            destination=IPv4Address(body[16:20]),
            ports=_ports(protocol, body[length:]) if first else (),
        )
    if ethertype == _IPV6 and len(body) >= 40:
        # Extension headers are rare between pods, and not walked.
        return PacketHeaders(
            ethertype=ethertype,
            protocol=body[6],
            source=IPv6Address(body[8:24]),
            destination=IPv6Address(body[24:40]),
            ports=_ports(body[6], body[40:]),
        )
    if ethertype == _ARP and len(body) >= 28:
        source, destination = IPv4Address(body[14:18]), IPv4Address(body[24:28])
        return PacketHeaders(ethertype=ethertype, source=source, destination=destination)
    return PacketHeaders(ethertype=ethertype)


def _ports(protocol: int, body: bytes) -> tuple[int, ...]:
    if protocol not in _PORTED or len(body) < 4:
        return ()
    return _number(body, 0), _number(body, 2)


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")
