"""DNS requests: which are answered, which go on, and how they are counted."""

import pytest

from core.ids import NetworkId
from ofnet import names
from ofnet.changes import ObjectKind
from ofnet.directory import Attachment
from ofnet.openflow import packets
from tests.unit.ofnet import frames
from tests.unit.ofnet.worlds import NET, local, network

POD = Attachment(ObjectKind.LOCAL, local(1), network())
QUERY = frames.udp(1, 2, 53, b"who?")


def answering(size: int) -> names.Resolver:
    """Return what answers the question of a pod of the network with so many bytes."""
    said = {(NET, b"who?"): bytes(size)}
    return lambda network, message: said.get((network, message))


@pytest.mark.parametrize("size", [0, names.LARGEST])
def test_an_answer(size: int) -> None:
    answer = names.answer(QUERY, POD, answering(size))
    assert answer.counters == ("dnsPktRcvd", "dnsPktReply")
    assert answer.frame == packets.udp_reply(QUERY, bytes(size))


def test_an_answer_too_large_is_not_given() -> None:
    counters = ("dnsPktRcvd", "dnsPktLargeDrop-ERROR")
    assert names.answer(QUERY, POD, answering(1025)) == names.DnsAnswer(counters)


def test_without_an_answer_the_request_is_forwarded() -> None:
    unasked = frames.udp(1, 2, 53, b"what?")
    assert names.answer(unasked, POD, answering(9)) == names.DnsAnswer(("dnsPktRcvd",))
    assert names.answer(QUERY, POD, names.no_resolver) == names.DnsAnswer(("dnsPktRcvd",))


def test_what_is_behind_the_port_has_no_network() -> None:
    for behind in (None, Attachment(ObjectKind.HOST_PORT)):
        answer = names.answer(QUERY, behind, answering(9))
        assert answer == names.DnsAnswer(("dnsPktInvalidVlan-ERROR",))


def test_what_cannot_be_asked_is_not() -> None:
    to_all = b"\xff" * 6 + QUERY[6:]

    def refuse(_network: NetworkId, _message: bytes) -> bytes:
        raise AssertionError("asked")

    for frame in (to_all, QUERY[:-1], packets.tagged(QUERY, 7)):
        assert names.answer(frame, POD, refuse) == names.DnsAnswer(("dnsPktRcvd",))
