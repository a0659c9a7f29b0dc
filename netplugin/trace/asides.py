"""What is worth knowing beside a packet's way: what this host saw of its sender and its receiver.

In come the question of a trace, what the source guard drops, and connection tracking; out come
notes in words. None says that this packet is stopped.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from core.errors import HostError
from core.logs import fields
from netplugin.bridges.guards.guard_drops import GuardDrops
from netplugin.kernel.conntrack import Datagrams
from netplugin.trace.request import TraceRequest
from ofnet.openflow import oxm
from ofnet.pipelines.packet_path.stages import DNS_PORT
from ofnet.trace.packets import Address

log = logging.getLogger(__name__)

FEW: Final = 2
"""Questions without an answer that are no sign yet: one may be on its way."""


class Asides:
    """Finds notes. `datagrams` returns those that a host forwards."""

    def __init__(self, guard: GuardDrops, datagrams: Callable[[int], Iterable[Datagrams]]) -> None:
        self._guard = guard
        self._datagrams = datagrams

    async def of(self, asked: TraceRequest) -> list[str]:
        """Return the notes for a question; none where they cannot be read."""
        found = [self._guard.note(asked.name)] if asked.kind == "endpoint" else []
        talk = asked.talk
        if talk is not None and (talk.protocol, talk.port) == (oxm.PROTO_UDP, DNS_PORT):
            try:
                known = await asyncio.to_thread(self._datagrams, talk.to.version)
                found.append(unanswered(talk.to, known))
            except HostError as exc:
                log.debug("connection tracking not read", extra=fields(error=exc))
        return [one for one in found if one]


def unanswered(server: Address, known: Iterable[Datagrams]) -> str:
    """Return the words for a name server that answers none of the questions sent to it."""
    sent = [one for one in known if one.sent_to == (server.packed, DNS_PORT)]
    if len(sent) < FEW or any(one.answered for one in sent):
        return ""
    return (
        f"name server {server} does not answer: this host sent on questions from {len(sent)} ports "
        f"lately, and no answer came"
    )
