"""Frames of live traces are those that a pod would send, and end with their mark."""

import struct
from ipaddress import ip_address

import pytest
from os_ken.lib.packet import ethernet, icmp, icmpv6, ipv4, ipv6, packet, tcp

from ofnet.openflow import oxm
from ofnet.openflow.packets import checksum
from ofnet.trace.evaluator import Packet, Value
from ofnet.trace.frames import MARK, frame, is_answer
from ofnet.trace.packets import SYN

TRACE = bytes(range(MARK))
ENDS = {4: ("10.1.0.1", "10.1.0.2"), 6: ("fd00::1", "fd00::2")}


def a_packet(version: int, protocol: int) -> Packet:
    source, target = map(ip_address, ENDS[version])
    fields: dict[str, Value] = {
        "in_port": 3,
        "eth_src": "02:00:00:00:00:01",
        "eth_dst": "02:00:00:00:00:02",
        "eth_type": oxm.ETH_IPV4 if version == 4 else oxm.ETH_IPV6,
        f"ipv{version}_src": source,
        f"ipv{version}_dst": target,
        "ip_proto": protocol,
        "icmp_type": 8,
        "icmpv6_type": 128,
        "tcp_src": 50000,
        "tcp_dst": 80,
    }
    return Packet(fields)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("protocol", [oxm.PROTO_TCP, 0])
def test_every_layer_is_right(version: int, protocol: int) -> None:
    echo = oxm.PROTO_ICMP if version == 4 else oxm.PROTO_ICMP6
    made = frame(a_packet(version, protocol or echo), TRACE)
    assert made.endswith(TRACE)
    assert len(made) >= 60
    read = packet.Packet(made)
    link, ends = read.get_protocol(ethernet.ethernet), read.protocols[1]
    assert (link.src, link.dst) == ("02:00:00:00:00:01", "02:00:00:00:00:02")
    assert (ends.src, ends.dst) == ENDS[version]
    size = len(made) - 14
    if isinstance(ends, ipv4.ipv4):
        assert ends.total_length == size
        assert checksum(made[14:34]) == 0
    else:
        assert isinstance(ends, ipv6.ipv6)
        assert ends.payload_length == size - 40
    if protocol:
        segment = read.get_protocol(tcp.tcp)
        assert (segment.src_port, segment.dst_port, segment.bits) == (50000, 80, SYN)
    else:
        kind = read.get_protocol(icmp.icmp) or read.get_protocol(icmpv6.icmpv6)
        assert getattr(kind, "type", None) == 8 or getattr(kind, "type_", None) == 128
    body = made[34 if version == 4 else 54 :]
    packed = b"".join(ip_address(one).packed for one in ENDS[version])
    pseudo = packed + struct.pack(">II", len(body), protocol or echo)
    assert checksum((b"" if echo == oxm.PROTO_ICMP and not protocol else pseudo) + body) == 0
    assert not is_answer(made)


@pytest.mark.parametrize(("version", "request_type", "answer"), [(4, 8, 0), (6, 128, 129)])
def test_an_answer_is_known_behind_any_header(version: int, request_type: int, answer: int) -> None:
    made = frame(a_packet(version, oxm.PROTO_ICMP if version == 4 else oxm.PROTO_ICMP6), TRACE)
    at = len(made) - 8 - (len(made) - (34 if version == 4 else 54) - 8)
    assert made[at] == request_type
    assert is_answer(b"tunnel" * 9 + made[:at] + bytes([answer]) + made[at + 1 :])


def test_what_would_reach_a_process_is_not_made() -> None:
    with pytest.raises(ValueError, match="protocol 17"):
        frame(a_packet(4, oxm.PROTO_UDP), TRACE)


@pytest.mark.parametrize("data", [b"", bytes(30)])
def test_short_frames_are_no_answers(data: bytes) -> None:
    assert not is_answer(data)
