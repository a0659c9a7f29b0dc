"""GC: releases the interfaces that the runtime of this host no longer has.

In comes the runtime's list; what it lacks is removed as by a DEL (`netplugin.pods.handler`). What a
runtime forgets altogether is found by `netplugin.pods.garbage_collection`.
"""

import asyncio
import logging

from core.logs import fields
from netplugin.cni.request import GcRequest
from netplugin.pods.handler import Pods
from netplugin.pods.registry.endpoint_registry import EndpointRegistry
from netplugin.pods.registry.journal_entry import JournalEntry

log = logging.getLogger(__name__)


class PodCollect:
    """Carries out GCs. One per agent."""

    def __init__(self, registry: EndpointRegistry, pods: Pods, grace: float) -> None:
        self._registry = registry
        self._pods = pods
        self._grace = grace

    async def collect(self, request: GcRequest) -> None:
        """Remove the interfaces that configurations of a name added and a GC does not list.

        Those that an ADD or DEL is working on stay, and those whose ADD was answered just now.
        Raises the first of several failures, after all interfaces have been tried.
        """
        due = self._due(request)
        for entry in due:
            log.warning(
                "interface not listed by CNI GC, removing it", extra=fields(endpoint=entry.key)
            )
        ended = await asyncio.gather(*map(self._pods.release, due), return_exceptions=True)
        for outcome in ended:
            if outcome is not None:
                raise outcome

    def _due(self, request: GcRequest) -> list[JournalEntry]:
        # `settled` leaves out what a call holds at this moment, and `release` what was replaced
        # meanwhile. The runtime made its list before it started the plugin: it lacks an interface
        # whose ADD ended in between, which the next GC will judge. An entry without an attachment
        # is that of an older agent: it may be another network's.
        return [
            entry
            for entry in self._registry.settled()
            if entry.spec.attachment_id
            and entry.spec.network_name == request.network_name
            and (entry.spec.attachment_id, entry.spec.ifname) not in request.keep
            and not self._registry.answered_within(entry.key, self._grace)
        ]
