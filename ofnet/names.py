"""Answers DNS requests of pods in the name of the server they were sent to. Pure.

In come frames (from `ofnet.packetin`) and a `Resolver` for the DNS messages in them; out goes the
answer's frame, or none when the request is to reach its server. DNS messages and names are not
interpreted here. Counters are the original's (`ofnetDns.go`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.ids import NetworkId
from ofnet.directory import Attachment
from ofnet.openflow import packets

Resolver = Callable[[NetworkId, bytes], bytes | None]
"""Answers a DNS message from a pod of a network; None if the real server is to answer."""

LARGEST: Final = 1024
"""Bytes of the largest answer that is sent."""

_MULTICAST: Final = 1


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """The counters a request increments, and the answer's frame if there is one."""

    counters: tuple[str, ...]
    frame: bytes | None = None


def no_resolver(_network: NetworkId, _message: bytes) -> None:
    """Answer nothing: the resolver of a host without a name server."""


def answer(frame: bytes, attachment: Attachment | None, resolve: Resolver) -> DnsAnswer:
    """Return the answer to a request that came in from an attachment."""
    if attachment is None or attachment.network is None:
        return DnsAnswer(("dnsPktInvalidVlan-ERROR",))
    message = packets.udp_payload(frame)
    # the answer would be sent from the request's destination MAC, which must not be a group address
    if message is None or frame[0] & _MULTICAST:
        return DnsAnswer(("dnsPktRcvd",))
    reply = resolve(attachment.network.id, message)
    if reply is None:
        return DnsAnswer(("dnsPktRcvd",))
    if len(reply) > LARGEST:
        return DnsAnswer(("dnsPktRcvd", "dnsPktLargeDrop-ERROR"))
    return DnsAnswer(("dnsPktRcvd", "dnsPktReply"), packets.udp_reply(frame, reply))
