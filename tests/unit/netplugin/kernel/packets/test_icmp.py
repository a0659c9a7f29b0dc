"""Echo requests on loopback, and what tells an answer from other packets."""

from ipaddress import IPv4Address, IPv6Address

import pytest

from netplugin.kernel.packets import icmp

LOCAL = IPv4Address("127.0.0.1")
LOCAL6 = IPv6Address("::1")
HEAD = bytes((0x45, *bytes(19)))


def test_the_checksum_is_that_of_the_rfc() -> None:
    assert icmp.checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D
    assert icmp.checksum(b"\x01") == 0xFEFF


@pytest.mark.parametrize("size", [icmp.SHORTEST[4], 577, 1500])
def test_a_request_makes_a_packet_of_its_size(size: int) -> None:
    sent = icmp.request(size)
    assert len(sent) + 20 == size
    assert sent[0] == 8
    assert icmp.checksum(sent) == 0


def test_only_the_answer_to_a_request_is_one() -> None:
    sent = icmp.request(100)
    answer = bytes(2) + sent[2:]
    assert icmp.is_reply(HEAD + answer, sent)
    options = bytes((0x46, *bytes(23)))
    assert icmp.is_reply(options + answer, sent)
    assert not icmp.is_reply(HEAD + sent, sent)
    assert not icmp.is_reply(HEAD + bytes(2) + icmp.request(100)[2:], sent)
    assert not icmp.is_reply(b"", sent)


@pytest.mark.parametrize("size", [icmp.SHORTEST[6], 577, 1500])
def test_a_request_of_ipv6_has_its_size_and_its_answer(size: int) -> None:
    sent = icmp.request(size, 6)
    assert (len(sent) + 40, sent[0]) == (size, 128)
    answer = bytes((129, 0)) + sent[2:]
    assert icmp.is_reply(answer, sent, 6)
    assert not icmp.is_reply(sent, sent, 6)
    assert not icmp.is_reply(bytes((129, 0)) + icmp.request(size, 6)[2:], sent, 6)


@pytest.mark.parametrize("local", [LOCAL, LOCAL6], ids=str)
async def test_this_host_answers_what_its_link_carries(local: IPv4Address | IPv6Address) -> None:
    assert local.is_loopback
    assert await icmp.passes(local, 1500, sources=(LOCAL6, LOCAL))
    assert await icmp.passes(local, 60_000)
    assert not await icmp.passes(local, 65_570)  # more than the link carries
