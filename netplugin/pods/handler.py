"""Adds and removes the endpoints of this host: the `PodHandler` behind the CNI server.

An ADD is `netplugin.pods.add`'s to carry out. Asked again it answers the same again; when a step
fails, all of them are undone.

A DEL takes the flows away, waits a moment for netmaster's release and answers; what remains (links,
OVS port, a release netmaster could not take) is `netplugin.pods.teardown`'s, from the journal,
which survives whatever happens to this process or to the master (ADR 17). Calls for one
container are serial, containers go side by side (`netplugin.pods.endpoint_registry`).
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace

from core.errors import Conflict, ContivError, HostError, MasterUnavailable
from core.ids import EndpointKey
from core.logs import fields
from core.tasks import unbroken
from netplugin.cni.request import PodRequest
from netplugin.cni.results import PodResult
from netplugin.pods.add import PodAdd, endpoint_key_of
from netplugin.pods.host import PodHost
from netplugin.pods.journal import EntryState, JournalEntry
from netplugin.pods.pod_ports import RECLAIMED, PodPorts
from netplugin.pods.teardown import Teardown
from state.records import EndpointRecord, NetworkRecord

log = logging.getLogger(__name__)


class Pods:
    """The endpoints of this host. One per agent."""

    def __init__(
        self, host: PodHost, pod_add: PodAdd, pod_ports: PodPorts, teardown: Teardown
    ) -> None:
        self._label = host.label
        self._pod_add = pod_add
        self._master = host.master
        self._journal = host.journal
        self._registry = host.registry
        self._ports = pod_ports
        self._world = host.world
        self._reconciler = host.reconciler
        self._teardown = teardown
        self._timing = host.timing

    def recover(self, entries: list[JournalEntry]) -> None:
        """Take over the journal of the agent before this one, once, before the first call.

        What it finished stays; what it left half done is taken away like a DEL, since no runtime
        was told of it.
        """
        for entry in entries:
            self._ports.reserve(entry.port)
            if entry.state is EntryState.PRESENT:
                self._registry.put(entry)
            else:
                self._teardown.schedule(replace(entry, state=EntryState.REMOVING))

    def keys(self) -> frozenset[EndpointKey]:
        """Return the endpoints this host has."""
        return self._registry.keys()

    async def add(self, request: PodRequest) -> PodResult:
        """Give a pod its interface; asked twice for the same one, answer the same again."""
        key = endpoint_key_of(request)
        async with self._registry.serial(request.container_id):
            known = self._registry.find(request.container_id, request.ifname)
            name = request.pod_name or request.container_id
            if known is not None:
                if _is_what(request, known) and (result := await self._pod_add.again(known, name)):
                    return result
                await unbroken(self._take_away(known))
                await self._teardown.finished(known.key, self._timing.old_gone)
            if (other := self._registry.get(key)) is not None:
                raise Conflict(
                    f"container {request.container_id} is on network {request.network} already, "
                    f"by its interface {other.ifname}"
                )
            await self._teardown.finished(key, self._timing.old_gone)
            return await self._make(self._pod_add.entry(request), name)

    async def delete(self, request: PodRequest) -> None:
        """Take a pod's interface away; nothing there is a success."""
        async with self._registry.serial(request.container_id):
            known = self._registry.find(request.container_id, request.ifname)
            if known is not None:
                await unbroken(self._take_away(known))
            for record in self._forgotten(request):
                await self._master.delete_endpoint(
                    request.tenant, request.network, record.endpoint_id
                )

    async def reclaim(self, key: EndpointKey) -> None:
        """Take an endpoint away by its record's key, as netmaster's clean-up asks."""
        known = self._registry.get(key)
        if known is not None:
            async with self._registry.serial(known.container_id):
                entry = self._registry.get(key)  # another one, maybe, after waiting
                if entry is not None:
                    await unbroken(self._take_away(entry))

    async def release(self, entry: JournalEntry) -> None:
        """Take an endpoint away as a DEL would, unless it is another one by now."""
        async with self._registry.serial(entry.container_id):
            if self._registry.get(entry.key) is entry:
                await unbroken(self._take_away(entry))

    async def forsake(self, record: EndpointRecord, network: NetworkRecord) -> None:
        """Release a record of this host that nothing here stands for, unless something does now."""
        async with self._registry.serial(record.endpoint_id):
            if self.stands_for(record.key):
                return
            await self._master.delete_endpoint(network.tenant, network.name, record.endpoint_id)

    def cut_off(self, key: EndpointKey) -> None:
        """Take the flows of an endpoint away whose address is not its own any more."""
        log.warning("endpoint is not connected", extra=fields(endpoint=key, error=RECLAIMED))
        self._world.endpoints.remove_port(key)

    def stands_for(self, key: EndpointKey) -> bool:
        """Tell whether there is an endpoint of this key here, or one that is being removed."""
        return self._registry.get(key) is not None or self._teardown.has(key)

    # -- ADD -----------------------------------------------------------------------------------

    async def _make(self, entry: JournalEntry, name: str) -> PodResult:
        self._registry.put(entry)
        try:
            result = await self._pod_add.make(entry, name)
        except BaseException as exc:
            log.warning("pod not added", extra=fields(endpoint=entry.key, error=exc))
            await unbroken(self._undo(entry, exc))
            raise
        log.info(
            "pod added",
            extra=fields(endpoint=entry.key, address=result.ipv4, port=result.host_ifname),
        )
        return result

    # -- DEL -----------------------------------------------------------------------------------

    async def _take_away(self, entry: JournalEntry) -> None:
        going = replace(entry, state=EntryState.REMOVING)
        await self._journal.write(going)
        await self._remove(going)

    async def _undo(self, entry: JournalEntry, reason: BaseException) -> None:
        going = replace(entry, state=EntryState.REMOVING)
        try:
            await self._journal.write(going)
        except HostError as exc:  # an ADD the journal does not know, or as begun: nothing is lost
            log.warning("journal not written", extra=fields(endpoint=entry.key, error=exc))
        if self._teardown.ended:
            return  # the next agent finds it in the journal
        await self._take_off(going)
        if isinstance(reason, MasterUnavailable):
            self._teardown.schedule(going)  # nobody can release it now: the runtime need not wait
            return
        await self._teardown.release(going)
        with suppress(ContivError):  # the caller has an error already, and the work goes on
            await self._teardown.finished(entry.key, self._timing.undone)

    async def _remove(self, going: JournalEntry) -> None:
        await self._take_off(going)
        await self._teardown.release(going)

    async def _take_off(self, going: JournalEntry) -> None:
        """Take an endpoint off the switch."""
        self._registry.put(going)
        try:
            async with asyncio.timeout(self._timing.flows_gone):
                await self._reconciler.remove_port(going.key)
        except (ContivError, TimeoutError) as exc:
            log.warning("flows remain", extra=fields(endpoint=going.key, error=exc))
        self._registry.drop(going.key)

    def _forgotten(self, request: PodRequest) -> list[EndpointRecord]:
        """Return this host's records of the container that no journal entry stands for."""
        key = endpoint_key_of(request)
        record = self._world.endpoints.get(key)
        if record is None or record.homing_host != self._label:
            return []
        return [] if self.stands_for(key) else [record]


def _is_what(request: PodRequest, entry: JournalEntry) -> bool:
    """Tell whether an endpoint that is there is what a request asks for."""
    there = entry.key, entry.netns, entry.ifname, entry.group or ""
    return there == (
        endpoint_key_of(request),
        request.netns,
        request.ifname,
        request.group or "",
    )
