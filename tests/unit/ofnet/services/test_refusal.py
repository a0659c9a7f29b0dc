"""What a client gets back from a service that nobody provides."""

import socket
import struct
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.lib.packet import icmp, icmpv6, ipv4, ipv6, packet, tcp, udp

from ofnet.services.refusal import refusal
from tests.unit.ofnet.services.refusal import CLIENT, CLIENT6, MACS, VIP, VIP6, frame

SYN, ACK, RST = 0x02, 0x10, 0x04


def parsed(answer: bytes | None) -> packet.Packet:
    """Return an answer, which goes back to who asked."""
    assert answer is not None
    assert answer[:12] == MACS[6:] + MACS[:6]
    out = packet.Packet(answer)
    ip = out.get_protocol(ipv4.ipv4) or out.get_protocol(ipv6.ipv6)
    assert (ip.src, ip.dst) in {(VIP, CLIENT), (VIP6, CLIENT6)}
    return out


@pytest.mark.parametrize("v6", [False, True])
def test_a_connection_is_reset(*, v6: bool) -> None:
    asked = tcp.tcp(src_port=40000, dst_port=80, seq=0xFFFFFFFF, bits=SYN)
    answer = parsed(refusal(frame(asked, v6=v6))).get_protocol(tcp.tcp)
    assert (answer.src_port, answer.dst_port, answer.bits) == (80, 40000, RST | ACK)
    assert (answer.seq, answer.ack) == (0, 0), "past the SYN, which wraps around"


def test_a_connection_that_lost_its_providers_is_reset() -> None:
    asked = tcp.tcp(src_port=40000, dst_port=80, seq=5, ack=9, bits=ACK)
    answer = parsed(refusal(frame(asked, b"more"))).get_protocol(tcp.tcp)
    assert (answer.seq, answer.bits) == (9, RST)


def test_a_reset_is_not_answered() -> None:
    assert refusal(frame(tcp.tcp(bits=RST))) is None


def test_nobody_listens_for_a_datagram() -> None:
    asked = frame(udp.udp(40000, 53), b"who")
    answer = parsed(refusal(asked)).get_protocol(icmp.icmp)
    assert (answer.type, answer.code) == (3, 3)
    assert answer.data.data.startswith(asked[14:])


def test_nobody_listens_for_a_datagram_of_ipv6() -> None:
    asked = frame(udp.udp(40000, 53), b"who", v6=True)
    answer = parsed(refusal(asked)).get_protocol(icmpv6.icmpv6)
    assert (answer.type_, answer.code) == (1, 4)


@pytest.mark.parametrize("v6", [False, True])
@pytest.mark.parametrize("inner", [tcp.tcp(bits=SYN), udp.udp(1, 2)])
def test_checksums_are_right(inner: tcp.tcp | udp.udp, *, v6: bool) -> None:
    answer = refusal(frame(inner, v6=v6))
    assert answer is not None
    body = answer[14 + (40 if v6 else 20) :]
    ends = (
        IPv6Address(VIP6).packed + IPv6Address(CLIENT6).packed
        if v6
        else IPv4Address(VIP).packed + IPv4Address(CLIENT).packed
    )
    protocol = socket.IPPROTO_TCP if isinstance(inner, tcp.tcp) else socket.IPPROTO_ICMPV6
    head = ends + struct.pack(">II", len(body), protocol)
    summed = body if protocol == socket.IPPROTO_ICMPV6 and not v6 else head + body
    assert _sum(summed) == 0xFFFF
    if not v6:
        assert _sum(answer[14:34]) == 0xFFFF


def _sum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@given(junk=st.binary(max_size=80), v6=st.booleans())
def test_any_bytes_are_answered_or_not(junk: bytes, *, v6: bool) -> None:
    whole = frame(udp.udp(1, 2), b"payload", v6=v6)
    for cut in (junk, MACS + whole[12:14] + junk, whole[: len(junk)]):
        refusal(cut)
