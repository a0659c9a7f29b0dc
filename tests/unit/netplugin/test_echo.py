"""Echo requests on loopback, and what tells an answer from other packets."""

from ipaddress import IPv4Address

import pytest

from netplugin import echo

LOCAL = IPv4Address("127.0.0.1")
HEAD = bytes((0x45, *bytes(19)))


def test_the_checksum_is_that_of_the_rfc() -> None:
    assert echo.checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D
    assert echo.checksum(b"\x01") == 0xFEFF


@pytest.mark.parametrize("size", [echo.SHORTEST, 577, 1500])
def test_a_request_makes_a_packet_of_its_size(size: int) -> None:
    sent = echo.request(size)
    assert len(sent) + 20 == size
    assert sent[0] == 8
    assert echo.checksum(sent) == 0


def test_only_the_answer_to_a_request_is_one() -> None:
    sent = echo.request(100)
    answer = bytes(2) + sent[2:]
    assert echo.is_reply(HEAD + answer, sent)
    options = bytes((0x46, *bytes(23)))
    assert echo.is_reply(options + answer, sent)
    assert not echo.is_reply(HEAD + sent, sent)
    assert not echo.is_reply(HEAD + bytes(2) + echo.request(100)[2:], sent)
    assert not echo.is_reply(b"", sent)


async def test_this_host_answers_what_its_link_carries() -> None:
    assert LOCAL.is_loopback
    assert await echo.passes(LOCAL, 1500, source=LOCAL)
    assert await echo.passes(LOCAL, 60_000)
