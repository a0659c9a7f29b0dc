"""Answers DNS requests of pods in the name of the server they were sent to. Pure.

In come frames (from `ofnet.packets.packetin`) and a `Resolver` for the DNS messages in them; out
goes the answer's frame, or none when the request is to reach its server. DNS messages and names are
not interpreted here. Counters are the original's (`ofnetDns.go`), and `dnsPktLimited` for what a
pod asks beyond its limit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from core.ids import EndpointKey, NetworkId
from ofnet.openflow import packets
from ofnet.packets.directory import PortAttachment

_MULTICAST: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A DNS message of a pod, and the server it is for; `tcp` says how it came.

    `judged`: it has passed all rules and policies on its way to that server, which is the agent.
    """

    pod: EndpointKey
    network: NetworkId
    server: IPv4Address | IPv6Address
    message: bytes
    tcp: bool = False
    judged: bool = False


class NameVerdict(Enum):
    """What becomes of a question that is not answered here."""

    FORWARD = auto()
    """The server it is for is to answer."""

    DROP = auto()
    """The pod asks more than it may."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """An answer that takes time: call `ask` once, with what is to be done with the answer."""

    ask: Callable[[Callable[[bytes], None]], None]


Outcome = bytes | Deferred | NameVerdict
"""The answer to a question, or what else becomes of it."""

Resolver = Callable[[Question], Outcome]


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """The counters a request increments, and what becomes of it: `outcome` is the answer's frame.

    The answer of a deferred outcome is a frame, too.
    """

    counters: tuple[str, ...]
    outcome: Outcome = NameVerdict.FORWARD


def no_resolver(_question: Question) -> Outcome:
    """Answer nothing: the resolver of a host without a name server."""
    return NameVerdict.FORWARD


def answer(
    frame: bytes, attachment: PortAttachment | None, resolve: Resolver, *, judged: bool = False
) -> DnsAnswer:
    """Return what becomes of a request that came in from an attachment."""
    if attachment is None or attachment.network is None or attachment.endpoint is None:
        return DnsAnswer(("dnsPktInvalidVlan-ERROR",))
    message = packets.udp_payload(frame)
    # the answer would be sent from the request's destination MAC, which must not be a group address
    if message is None or frame[0] & _MULTICAST:
        return DnsAnswer(("dnsPktRcvd",))
    question = Question(
        pod=attachment.endpoint.key,
        network=attachment.network.id,
        server=packets.destination(frame),
        message=message,
        judged=judged,
    )
    outcome = resolve(question)
    if isinstance(outcome, bytes):
        return DnsAnswer(("dnsPktRcvd", "dnsPktReply"), packets.udp_reply(frame, outcome))
    if isinstance(outcome, Deferred):
        return DnsAnswer(("dnsPktRcvd", "dnsPktReply"), Deferred(partial(_later, frame, outcome)))
    limited = ("dnsPktLimited",) if outcome is NameVerdict.DROP else ()
    return DnsAnswer(("dnsPktRcvd", *limited), outcome)


def _later(frame: bytes, deferred: Deferred, send: Callable[[bytes], None]) -> None:
    deferred.ask(lambda reply: send(packets.udp_reply(frame, reply)))
