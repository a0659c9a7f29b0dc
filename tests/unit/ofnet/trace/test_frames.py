"""Frames of live traces are those that a pod would send, and end with their mark."""

import struct
from ipaddress import ip_address

import pytest
from os_ken.lib.packet import ethernet, icmp, icmpv6, ipv4, ipv6, packet, tcp

from ofnet.openflow import oxm
from ofnet.openflow.packets import checksum
from ofnet.trace.evaluator import PacketFields, Value
from ofnet.trace.frames import MARK, acknowledged, frame, seen
from ofnet.trace.packets import SYN

TRACE = bytes(range(MARK))
ENDS = {4: ("10.1.0.1", "10.1.0.2"), 6: ("fd00::1", "fd00::2")}


def a_packet(version: int, protocol: int) -> PacketFields:
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
    return PacketFields(fields)


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
    assert seen(made, TRACE) == seen(b"tunnel" * 9 + made, TRACE) == (False, "")


@pytest.mark.parametrize(("version", "request_type", "answer"), [(4, 8, 0), (6, 128, 129)])
def test_an_answer_is_known_behind_any_header(version: int, request_type: int, answer: int) -> None:
    made = frame(a_packet(version, oxm.PROTO_ICMP if version == 4 else oxm.PROTO_ICMP6), TRACE)
    at = len(made) - 8 - (len(made) - (34 if version == 4 else 54) - 8)
    assert made[at] == request_type
    echoed = b"tunnel" * 9 + made[:at] + bytes([answer]) + made[at + 1 :]
    assert seen(echoed, TRACE) == (True, "echo reply")


def test_what_would_reach_a_process_is_not_made() -> None:
    with pytest.raises(ValueError, match="protocol 17"):
        frame(a_packet(4, oxm.PROTO_UDP), TRACE)


@pytest.mark.parametrize("data", [b"", bytes(30), bytes(200)])
def test_other_frames_have_nothing_to_do_with_it(data: bytes) -> None:
    assert seen(data, TRACE) is None
    assert seen((data + TRACE)[-MARK:], TRACE) == (False, "")


def answered(version: int, flags: int, number: int) -> bytes:
    """Return what TCP answers, as another library writes it."""
    made = packet.Packet()
    source, target = ENDS[version]
    made.add_protocol(ethernet.ethernet(ethertype=0x0800 if version == 4 else 0x86DD))
    if version == 4:
        made.add_protocol(ipv4.ipv4(proto=6, src=target, dst=source))
    else:
        made.add_protocol(ipv6.ipv6(nxt=6, src=target, dst=source))
    made.add_protocol(tcp.tcp(src_port=80, dst_port=50000, ack=number, bits=flags))
    made.serialize()
    return bytes(made.data)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("flags", "what"), [(tcp.TCP_SYN | tcp.TCP_ACK, "SYN-ACK"), (tcp.TCP_RST | tcp.TCP_ACK, "RST")]
)
def test_what_tcp_answers_is_known_by_what_it_acknowledges(
    version: int, flags: int, what: str
) -> None:
    for mark in (TRACE, b"\xff" * MARK):
        for number in acknowledged(mark):
            assert seen(answered(version, flags, number), mark) == (True, what)
        assert seen(answered(version, flags, 7), mark) is None
    cut = answered(version, flags, acknowledged(TRACE)[0])
    for size in range(54 if version == 4 else 74):
        assert seen(cut[:size], TRACE) is None


@pytest.mark.parametrize(
    ("version", "kind", "code", "why"),
    [
        (4, 3, 0, "network unreachable, no route leads to it"),
        (4, 3, 13, "communication administratively prohibited"),
        (4, 3, 77, "type 3, code 77"),
        (4, 11, 0, "time to live exceeded"),
        (6, 1, 0, "network unreachable, no route leads to it"),
        (6, 1, 1, "communication administratively prohibited"),
    ],
)
@pytest.mark.parametrize("protocol", [oxm.PROTO_TCP, 0])
def test_an_error_of_icmp_is_known_by_the_packet_it_repeats(
    version: int, kind: int, code: int, why: str, protocol: int
) -> None:
    echo = oxm.PROTO_ICMP if version == 4 else oxm.PROTO_ICMP6
    about = frame(a_packet(version, protocol or echo), TRACE)[14:]
    source, target = ENDS[version]
    made = packet.Packet()
    made.add_protocol(ethernet.ethernet(ethertype=0x0800 if version == 4 else 0x86DD))
    if version == 4:
        made.add_protocol(ipv4.ipv4(proto=1, src=target, dst=source))
    else:
        made.add_protocol(ipv6.ipv6(nxt=58, src=target, dst=source))
    made.add_protocol(struct.pack(">BBHI", kind, code, 0, 0) + about)
    made.serialize()
    told = (True, f"ICMP error from {target}: {why}")
    assert seen(bytes(made.data), TRACE) == told
    assert seen(b"tunnel" * 9 + bytes(made.data), TRACE) == told
