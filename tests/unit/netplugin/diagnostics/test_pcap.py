"""The format of captured packets, and which of them a filter is about."""

import struct
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from netplugin.diagnostics.pcap import file_header, headers, packet_filter, record
from tests.unit.netplugin.diagnostics.pcap import PING, TCP, ethernet, ipv4, ports


def ipv6(source: str, target: str, protocol: int, body: bytes) -> bytes:
    head = struct.pack(">IHBB", 6 << 28, len(body), protocol, 64)
    return head + ip_address(source).packed + ip_address(target).packed + body


TAGGED = ethernet(0x0800, ipv4("10.1.1.2", "10.1.1.3", 6, ports(40_000, 80)), tag=7)
LATER = ethernet(0x0800, ipv4("10.1.1.2", "10.1.1.3", 6, ports(40_000, 80), fragment=100))
UDP6 = ethernet(0x86DD, ipv6("fd00::2", "fd00::3", 17, ports(53, 5353)))
PING6 = ethernet(0x86DD, ipv6("fd00::2", "fd00::3", 58, bytes(8)))
ARP = ethernet(
    0x0806,
    bytes(14) + ip_address("10.1.1.2").packed + bytes(6) + ip_address("10.1.1.9").packed,
)
ALL = {"tcp": TCP, "tagged": TAGGED, "later": LATER, "udp6": UDP6, "ping": PING, "ping6": PING6}
ALL |= {"arp": ARP}


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("", "tcp tagged later udp6 ping ping6 arp"),
        ("tcp", "tcp tagged later"),
        ("TCP and port 80", "tcp tagged"),
        ("port 53", "udp6"),
        ("udp port 80", ""),
        ("icmp", "ping"),
        ("icmp6", "ping6"),
        ("ip6", "udp6 ping6"),
        ("arp", "arp"),
        ("host 10.1.1.9", "arp"),
        ("ip and net 10.1.0.0/16", "tcp tagged later ping"),
        ("host fd00::3 and udp", "udp6"),
        ("net 192.0.2.0/24", ""),
    ],
)
def test_all_words_of_a_filter_must_hold(text: str, matching: str) -> None:
    matches = packet_filter(text)
    assert {name for name, packet in ALL.items() if matches(packet)} == set(matching.split())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("tcp or udp", "or is not known"),
        ("port http", "port http is not a number"),
        ("port", "port  is not a number"),
        ("port 65536", "port 65536 is not"),
        ("host 10.1.1.0/24", "is a prefix; want net"),
        ("net x", "net x"),
        ("net 10.1.1.1/24", "has host bits set"),
        ("tcp " * 100, "longer than 256"),
    ],
)
def test_a_filter_that_cannot_be_read_is_refused(text: str, error: str) -> None:
    with pytest.raises(Invalid, match=error):
        packet_filter(text)


@given(st.binary(max_size=80), st.sampled_from(sorted(ALL)))
def test_any_bytes_are_a_packet(junk: bytes, name: str) -> None:
    for packet in (junk, ALL[name][: len(junk)], ALL[name] + junk, bytes(12) + junk):
        headers(packet)


def test_a_file_is_as_the_format_says() -> None:
    made = file_header(64) + record(1_700_000_000_123_456_789, b"abc", 99)
    assert struct.unpack_from("<IHHiIII", made) == (0xA1B23C4D, 2, 4, 0, 0, 64, 1)
    assert struct.unpack_from("<IIII", made, 24) == (1_700_000_000, 123_456_789, 3, 99)
    assert made[40:] == b"abc"
