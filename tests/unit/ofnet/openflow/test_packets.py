"""ARP and UDP packets taken apart and built, as another library reads them."""

import struct
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.lib.packet import arp as reference
from os_ken.lib.packet import icmpv6, ipv6, packet

from ofnet.openflow import packets
from ofnet.openflow.oxm import mac_bytes
from tests.unit.ofnet import frames
from tests.unit.ofnet.worlds import address, address6, mac

REQUEST = frames.arp(1, address(2).packed)


def test_a_request_is_read_with_and_without_a_tag() -> None:
    for frame in (REQUEST, packets.tagged(REQUEST, 5)):
        assert packets.parse_arp(frame) == packets.Arp(
            operation=packets.ARP_REQUEST,
            sender_mac=mac(1),
            sender_ip=address(1),
            target_ip=address(2),
        )


def test_the_reply_answers_the_requester() -> None:
    request = packets.parse_arp(REQUEST)
    assert request is not None
    reply = packet.Packet(packets.arp_reply(request, "00:00:11:11:11:11"))
    ethernet, arp = reply.protocols[0], reply.get_protocol(reference.arp)
    assert (ethernet.dst, ethernet.src) == (mac(1), "00:00:11:11:11:11")
    assert arp.opcode == packets.ARP_REPLY
    assert (arp.src_mac, arp.src_ip) == ("00:00:11:11:11:11", str(address(2)))
    assert (arp.dst_mac, arp.dst_ip) == (mac(1), str(address(1)))


def test_a_request_is_broadcast() -> None:
    frame = packet.Packet(packets.arp_request(mac(1), address(1), address(2)))
    ethernet, arp = frame.protocols[0], frame.get_protocol(reference.arp)
    assert (ethernet.dst, ethernet.src) == ("ff:ff:ff:ff:ff:ff", mac(1))
    assert (arp.opcode, arp.src_ip, arp.dst_ip) == (1, str(address(1)), str(address(2)))


def test_an_announcement_is_a_broadcast_request_for_itself() -> None:
    frame = packet.Packet(packets.arp_announcement(mac(1), address(1)))
    ethernet, arp = frame.protocols[0], frame.get_protocol(reference.arp)
    assert (ethernet.dst, ethernet.src) == ("ff:ff:ff:ff:ff:ff", mac(1))
    assert (arp.opcode, arp.dst_mac) == (packets.ARP_REQUEST, "00:00:00:00:00:00")
    assert (arp.src_mac, arp.src_ip, arp.dst_ip) == (mac(1), str(address(1)), str(address(1)))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        REQUEST[:-1],
        REQUEST[:12],
        frames.udp(1, 2, 53),
        REQUEST[:14] + struct.pack(">HHBB", 1, 0x86DD, 6, 16) + REQUEST[20:] + bytes(24),
    ],
)
def test_what_is_no_arp_is_none(frame: bytes) -> None:
    assert packets.parse_arp(frame) is None


def test_a_tag_leaves_all_else_untouched() -> None:
    frame = packets.tagged(REQUEST, 4093)
    assert packets.is_tagged(frame)
    assert frame[12:16] == b"\x81\x00\x0f\xfd"
    assert frame[:12] + frame[16:] == REQUEST
    assert (packets.vlan(frame), packets.vlan(REQUEST)) == (4093, 0)
    assert packets.vlan(packets.tagged(REQUEST, 0xE005)) == 5, "priority bits are no part of it"


def test_udp_is_identified_by_its_port() -> None:
    assert packets.is_udp_to(frames.udp(1, 2, 53), 53)
    assert packets.is_udp_to(packets.tagged(frames.udp(1, 2, 53), 7), 53)
    assert not packets.is_udp_to(frames.udp(1, 2, 54), 53)
    assert not packets.is_udp_to(frames.udp(1, 2, 53)[:36], 53)
    assert not packets.is_udp_to(REQUEST, 53)


def ipv4(frame: bytes, **fields: int) -> bytes:
    """Return an IPv4 frame with other values in its header."""
    body = bytearray(frame[14:])
    for name, value in fields.items():
        at, size = PLACES[name]
        body[at : at + size] = value.to_bytes(size, "big")
    return frame[:14] + bytes(body)


PLACES = {
    "version": (0, 1),
    "length": (2, 2),
    "id": (4, 2),
    "fragment": (6, 2),
    "proto": (9, 1),
    "source_port": (20, 2),
}
QUERY = frames.udp(1, 2, 53, b"who?")


def test_what_udp_carries_is_read_from_padded_frames_too() -> None:
    assert packets.udp_payload(QUERY) == b"who?"
    assert packets.udp_payload(QUERY + bytes(18)) == b"who?"
    assert packets.udp_payload(ipv4(QUERY, fragment=0x4000)) == b"who?", "not to be fragmented"
    assert packets.udp_payload(frames.udp(1, 2, 53, b"")) == b""


@pytest.mark.parametrize(
    "frame",
    [
        QUERY[:-1],
        packets.tagged(QUERY, 7),
        ipv4(QUERY, version=0x65),
        ipv4(QUERY, version=0x44, source_port=12),
        ipv4(QUERY, version=0x4F),
        ipv4(QUERY, length=31),
        ipv4(QUERY, length=0),
        ipv4(QUERY, fragment=0x2000),
        ipv4(QUERY, fragment=1),
        ipv4(QUERY, proto=6),
        QUERY[:38] + b"\0\x07" + QUERY[40:],
        REQUEST,
        b"",
    ],
)
def test_an_incomplete_udp_packet_has_no_payload(frame: bytes) -> None:
    assert packets.udp_payload(frame) is None


def test_a_reply_has_the_ends_of_its_question_swapped() -> None:
    question = ipv4(QUERY, fragment=0x4000, id=77)
    options = question[:14] + b"\x46" + question[15:34] + bytes(4) + question[34:]
    for frame in (question, ipv4(options, length=36)):
        reply = packet.Packet(packets.udp_reply(frame, b"me"))
        ethernet, ip, udp, payload = reply.protocols
        assert (ethernet.dst, ethernet.src) == (mac(1), mac(2))
        assert (ip.dst, ip.src) == (str(address(1)), str(address(2)))
        assert (udp.dst_port, udp.src_port, payload) == (40000, 53, b"me")
        assert (ip.ttl, ip.header_length, ip.flags, ip.identification) == (64, 5, 2, 77)


def test_the_checksum_of_a_reply() -> None:
    """The example of the original: 192.168.0.1 to 192.168.0.199, 115 bytes."""
    asked = frames.udp(1, 2, 53)
    ends = IPv4Address("192.168.0.199").packed + IPv4Address("192.168.0.1").packed
    reply = packets.udp_reply(ipv4(asked[:26] + ends + asked[34:], fragment=0x4000), bytes(87))
    assert reply[14:34].hex() == "45000073000040004011b861c0a80001c0a800c7"


QUERY6 = frames.udp6(1, 2, 53, b"who?")


def test_what_udp_carries_over_ipv6() -> None:
    assert packets.udp_payload(QUERY6) == b"who?"
    assert packets.udp_payload(QUERY6 + bytes(18)) == b"who?"
    assert packets.is_udp_to(QUERY6, 53)
    assert not packets.is_udp_to(QUERY6, 54)
    assert packets.destination(QUERY6) == address6(2)
    extended = QUERY6[:20] + b"\x2c" + QUERY6[21:]
    version = QUERY6[:14] + b"\x40" + QUERY6[15:]
    short = QUERY6[:58] + b"\0\x07" + QUERY6[60:]
    for frame in (QUERY6[:-1], packets.tagged(QUERY6, 7), extended, version, short, QUERY6[:54]):
        assert packets.udp_payload(frame) is None


def test_a_reply_over_ipv6_has_the_ends_swapped_and_a_sum() -> None:
    reply = packets.udp_reply(QUERY6, b"me")
    ethernet, ip, udp, payload = packet.Packet(reply).protocols
    assert (ethernet.dst, ethernet.src) == (mac(1), mac(2))
    assert (ip.dst, ip.src, ip.hop_limit) == (str(address6(1)), str(address6(2)), 64)
    assert (udp.dst_port, udp.src_port, payload) == (40000, 53, b"me")
    pseudo = address6(2).packed + address6(1).packed + bytes((0, 0, 0, 10, 0, 0, 0, 17))
    assert packets.checksum(pseudo + reply[54:]) == 0


@given(
    st.binary(max_size=80),
    st.sampled_from([b"", b"\x08\x06", b"\x08\x00", b"\x81\x00", b"\x86\xdd"]),
)
def test_no_frame_raises(noise: bytes, ethertype: bytes) -> None:
    frame = noise[:12].ljust(12, b"\x02") + ethertype + noise[12:]
    packets.parse_arp(frame)
    packets.is_udp_to(frame, 53)
    packets.ether_type(frame)
    if packets.udp_payload(frame) is not None:
        assert packets.udp_payload(packets.udp_reply(frame, noise)) == noise


@given(st.integers(0, 29), st.binary(min_size=1, max_size=4))
def test_whatever_a_header_says_a_reply_can_be_read(at: int, noise: bytes) -> None:
    frame = QUERY[: 14 + at] + noise + QUERY[14 + at + len(noise) :]
    if packets.udp_payload(frame) is not None:
        assert packets.udp_payload(packets.udp_reply(frame, b"me")) == b"me"


@given(st.binary(min_size=20, max_size=20))
def test_no_arp_body_raises(body: bytes) -> None:
    request = packets.parse_arp(REQUEST[:22] + body)
    assert request is not None
    assert packets.parse_arp(packets.arp_reply(request, "00:00:11:11:11:11")) is not None


OWN6, HOP6 = IPv6Address("fe80::1"), IPv6Address("fe80::12:3456")


def test_a_solicitation_is_multicast_to_those_who_may_have_the_address() -> None:
    frame = packet.Packet(packets.solicitation(mac(1), OWN6, HOP6))
    ethernet, header = frame.protocols[0], frame.get_protocol(ipv6.ipv6)
    message = frame.get_protocol(icmpv6.icmpv6)
    assert (ethernet.dst, ethernet.src) == ("33:33:ff:12:34:56", mac(1))
    assert (header.src, header.dst, header.hop_limit) == (str(OWN6), "ff02::1:ff12:3456", 255)
    assert (message.type_, message.data.dst) == (icmpv6.ND_NEIGHBOR_SOLICIT, str(HOP6))
    assert message.data.option.hw_src == mac(1)


def test_an_advertisement_names_the_targets_mac() -> None:
    told = packets.Neighbour(address=HOP6, mac=mac(2))
    own = b"\x02\x01" + bytes.fromhex(mac(2).replace(":", ""))
    nonce = b"\x0e\x01" + bytes(6)
    for options in (own, nonce + own):
        frame = frames.advertisement(mac(9), HOP6, options=options)
        assert packets.parse_advertisement(frame) == told
        assert packets.parse_advertisement(frame + bytes(6)) == told, "short frames are padded"


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(frames.advertisement(mac(2), HOP6, hops=254), id="forwarded"),
        pytest.param(frames.advertisement(mac(2), HOP6, options=b""), id="without a MAC"),
        pytest.param(frames.advertisement(mac(2), HOP6, options=b"\x02\0" * 4), id="no length"),
        pytest.param(frames.advertisement(mac(2), HOP6)[:-1], id="cut off"),
        pytest.param(packets.solicitation(mac(1), OWN6, HOP6), id="solicitation"),
        pytest.param(REQUEST, id="ARP"),
        pytest.param(b"", id="empty"),
    ],
)
def test_other_frames_are_no_advertisements(frame: bytes) -> None:
    assert packets.parse_advertisement(frame) is None


def begun(
    *,
    requester: IPv6Address = HOP6,
    target: IPv6Address = OWN6,
    hops: int = 255,
    code: int = 0,
    options: bytes = b"\x01\x01" + bytes(6),
) -> bytes:
    """Return a solicitation in which the switch has put the answer's ends."""
    message = struct.pack(">BBHI", 135, code, 0, 0) + target.packed + options
    header = struct.pack(">IHBB", 6 << 28, len(message), 58, hops) + OWN6.packed + requester.packed
    return mac_bytes(mac(1)) + mac_bytes(mac(2)) + b"\x86\xdd" + header + message


NONCE = b"\x0e\x01" + bytes(6)


@pytest.mark.parametrize("options", [b"\x01\x01" + bytes(6), b"", NONCE * 2])
def test_a_begun_answer_becomes_the_senders_advertisement(options: bytes) -> None:
    made = packets.advertisement(begun(options=options) + bytes(3))
    assert made is not None
    frame = packet.Packet(made)
    ethernet, header = frame.protocols[0], frame.get_protocol(ipv6.ipv6)
    message = frame.get_protocol(icmpv6.icmpv6)
    assert (ethernet.dst, ethernet.src) == (mac(1), mac(2))
    assert (header.src, header.dst, header.hop_limit) == (str(OWN6), str(HOP6), 255)
    assert (message.type_, message.code) == (icmpv6.ND_NEIGHBOR_ADVERT, 0)
    assert (message.data.dst, message.data.res, message.data.option.hw_src) == (
        *(str(OWN6), 0b011),
        mac(2),
    )
    summed = message.csum
    message.csum = 0
    frame.serialize()
    assert frame.get_protocol(icmpv6.icmpv6).csum == summed, "as another library sums it up"
    assert len(made) == 14 + 40 + 32, "nothing else that the requester sent is in it"


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(begun(hops=254), id="forwarded"),
        pytest.param(begun(code=1), id="unknown code"),
        pytest.param(begun(target=HOP6), id="another target than the switch chose"),
        pytest.param(begun(requester=IPv6Address("::")), id="duplicate address probe"),
        pytest.param(begun(requester=IPv6Address("ff02::1")), id="from a group"),
        pytest.param(begun(options=b"\x01\x02" + bytes(6)), id="option too long"),
        pytest.param(begun(options=b"\x01\x00" + bytes(6)), id="option without length"),
        pytest.param(begun(options=b"\x01"), id="half an option"),
        pytest.param(begun()[:-1], id="cut off"),
        pytest.param(packets.tagged(begun(), 5), id="tagged"),
        pytest.param(frames.advertisement(mac(2), HOP6), id="advertisement"),
        pytest.param(REQUEST, id="ARP"),
        pytest.param(b"", id="empty"),
    ],
)
def test_nothing_else_is_answered(frame: bytes) -> None:
    assert packets.advertisement(frame) is None


@given(st.integers(0, 93), st.binary(min_size=1, max_size=8))
def test_whatever_a_solicitation_says_its_answer_can_be_read(at: int, noise: bytes) -> None:
    frame = begun()[:at] + noise + begun()[at + len(noise) :]
    made = packets.advertisement(frame)
    if made is not None:
        told = packets.Neighbour(address=IPv6Address(frame[22:38]), mac=frame[6:12].hex(":"))
        assert packets.parse_advertisement(made) == told


ROUTER, PRIVATE, OWN = (IPv4Address(one) for one in ("192.0.2.1", "172.19.0.2", "10.1.0.2"))
ROUTER6, PRIVATE6, POD6 = (IPv6Address(f"2001:db8::{one}") for one in ("1", "19:2", "10:2"))


def test_an_error_is_told_of_the_sender_of_what_it_quotes() -> None:
    error = frames.error(ROUTER, PRIVATE)
    assert packets.quoted_sender(error) == PRIVATE
    # as if it had quoted a packet of that address from the beginning, with all its checksums
    assert packets.error_about(error + bytes(6), OWN) == frames.error(ROUTER, OWN)
    six = frames.error6(ROUTER6, PRIVATE6)
    assert packets.quoted_sender(six) == PRIVATE6
    assert packets.error_about(six + bytes(6), POD6) == frames.error6(ROUTER6, POD6)


@pytest.mark.parametrize(
    "frame",
    [
        frames.error(ROUTER, PRIVATE, quotes=OWN),
        frames.error(ROUTER, PRIVATE)[:-1],
        frames.error(ROUTER, PRIVATE)[:50],
        frames.error(ROUTER, PRIVATE)[:-1] + b"x",
        frames.udp(1, 2, 53),
        frames.error(ROUTER, PRIVATE)[:14],
        frames.error(ROUTER, PRIVATE)[:16] + b"\0\x03" + frames.error(ROUTER, PRIVATE)[18:],
        frames.error6(ROUTER6, PRIVATE6, quotes=POD6),
        frames.error6(ROUTER6, PRIVATE6)[:-1],
        frames.error6(ROUTER6, PRIVATE6)[:50],
        frames.error6(ROUTER6, PRIVATE6)[:-1] + b"x",
        frames.error6(ROUTER6, PRIVATE6)[:14],
        frames.error6(ROUTER6, PRIVATE6)[:18] + b"\0\x03" + frames.error6(ROUTER6, PRIVATE6)[20:],
    ],
)
def test_what_is_no_error_about_its_receiver_has_no_sender(frame: bytes) -> None:
    assert packets.quoted_sender(frame) is None


@given(st.integers(0, 61), st.binary(min_size=1, max_size=4))
def test_whatever_an_error_says_it_can_be_read(at: int, noise: bytes) -> None:
    frame = frames.error(ROUTER, PRIVATE)
    frame = frame[:at] + noise + frame[at + len(noise) :]
    if packets.quoted_sender(frame) is not None:
        assert packets.quoted_sender(packets.error_about(frame, OWN)) == OWN


@given(st.integers(0, 101), st.binary(min_size=1, max_size=4))
def test_whatever_an_error_of_ipv6_says_it_can_be_read(at: int, noise: bytes) -> None:
    frame = frames.error6(ROUTER6, PRIVATE6)
    frame = frame[:at] + noise + frame[at + len(noise) :]
    if isinstance(packets.quoted_sender(frame), IPv6Address):
        assert packets.quoted_sender(packets.error_about(frame, POD6)) == POD6
