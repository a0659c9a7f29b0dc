"""DNS requests: which are answered, which go on, and how they are counted."""

from collections.abc import Callable

import pytest

from ofnet.changes import ObjectKind
from ofnet.openflow import packets
from ofnet.packets import dns_answers
from ofnet.packets.directory import PortAttachment
from ofnet.packets.dns_answers import Deferred, NameVerdict, Outcome, Question
from tests.unit.ofnet import frames
from tests.unit.ofnet.worlds import NET, address, local, network

POD = PortAttachment(ObjectKind.LOCAL, local(1), network())
QUERY = frames.udp(1, 2, 53, b"who?")


def answering(size: int) -> dns_answers.Resolver:
    """Return what answers the question of a pod with so many bytes."""
    asked = Question(pod=local(1).key, network=NET, server=address(2), message=b"who?")
    said: dict[Question, Outcome] = {asked: bytes(size)}
    return lambda question: said.get(question, NameVerdict.FORWARD)


@pytest.mark.parametrize("size", [0, 1232])
def test_an_answer(size: int) -> None:
    answer = dns_answers.answer(QUERY, POD, answering(size))
    assert answer.counters == ("dnsPktRcvd", "dnsPktReply")
    assert answer.outcome == packets.udp_reply(QUERY, bytes(size))


def test_an_answer_that_takes_time() -> None:
    waiting: list[Callable[[bytes], None]] = []
    answer = dns_answers.answer(QUERY, POD, lambda _: Deferred(waiting.append))
    assert answer.counters == ("dnsPktRcvd", "dnsPktReply")
    assert isinstance(answer.outcome, Deferred)
    sent: list[bytes] = []
    answer.outcome.ask(sent.append)
    (done,) = waiting
    done(b"late")
    assert sent == [packets.udp_reply(QUERY, b"late")]


def test_what_is_beyond_the_limit_goes_nowhere() -> None:
    answer = dns_answers.answer(QUERY, POD, lambda _: NameVerdict.DROP)
    assert answer == dns_answers.DnsAnswer(("dnsPktRcvd", "dnsPktLimited"), NameVerdict.DROP)


def test_without_an_answer_the_request_is_forwarded() -> None:
    unasked = frames.udp(1, 2, 53, b"what?")
    assert dns_answers.answer(unasked, POD, answering(9)) == dns_answers.DnsAnswer(("dnsPktRcvd",))
    assert dns_answers.answer(QUERY, POD, dns_answers.no_resolver) == dns_answers.DnsAnswer(
        ("dnsPktRcvd",)
    )


def test_what_is_behind_the_port_has_no_network() -> None:
    for behind in (None, PortAttachment(ObjectKind.HOST_PORT)):
        answer = dns_answers.answer(QUERY, behind, answering(9))
        assert answer == dns_answers.DnsAnswer(("dnsPktInvalidVlan-ERROR",))


def test_what_cannot_be_asked_is_not() -> None:
    to_all = b"\xff" * 6 + QUERY[6:]

    def refuse(_question: Question) -> Outcome:
        raise AssertionError("asked")

    for frame in (to_all, QUERY[:-1], packets.tagged(QUERY, 7)):
        assert dns_answers.answer(frame, POD, refuse) == dns_answers.DnsAnswer(("dnsPktRcvd",))
