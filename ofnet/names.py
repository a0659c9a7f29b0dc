"""DNS requests of pods, answered in the name of the server they are for. Pure.

In come frames (`ofnet.packetin`), and whoever can answer a DNS message (`Resolver`); out goes the
answer's frame, or none, and then the request goes its way. What a message says and what has which
name is not known here. Counters are the original's (`ofnetDns.go`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.ids import NetworkId
from ofnet.directory import Behind
from ofnet.openflow import packets

Resolver = Callable[[NetworkId, bytes], bytes | None]
"""Answers a message asked by a pod of a network; None if somebody else is to be asked."""

LARGEST: Final = 1024
"""Bytes of the largest answer that is given."""

_MULTICAST: Final = 1


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """The counters a request bumps, and the answer's frame if there is one."""

    counters: tuple[str, ...]
    frame: bytes | None = None


def nobody(_network: NetworkId, _message: bytes) -> None:
    """Answer nothing: the resolver where there is no name server."""


def answer(frame: bytes, behind: Behind | None, resolve: Resolver) -> DnsAnswer:
    """Return the answer to a request that came in from what is behind a port."""
    if behind is None or behind.network is None:
        return DnsAnswer(("dnsPktInvalidVlan-ERROR",))
    message = packets.udp_payload(frame)
    if message is None or frame[0] & _MULTICAST:  # no frame may come from all
        return DnsAnswer(("dnsPktRcvd",))
    reply = resolve(behind.network.id, message)
    if reply is None:
        return DnsAnswer(("dnsPktRcvd",))
    if len(reply) > LARGEST:
        return DnsAnswer(("dnsPktRcvd", "dnsPktLargeDrop-ERROR"))
    return DnsAnswer(("dnsPktRcvd", "dnsPktReply"), packets.udp_reply(frame, reply))
