"""Adds and removes the endpoints of this host, for the CNI server (`netplugin.cni.server`).

An ADD is carried out by `netplugin.pods.add`. A repeated ADD returns the same result; a failed one
is undone completely.

A DEL removes the flows, waits shortly for netmaster's release and returns. The rest (links, OVS
port, a release that netmaster could not take) is done by `netplugin.pods.teardown` from the
journal, which survives the end of this process (ADR 17). Calls for one container are serial,
containers are independent (`netplugin.pods.registry.endpoint_registry`). A container may have
several interfaces, each of which is an endpoint with calls of its own.
"""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace

from core.errors import Conflict, ContivError, HostError, MasterUnavailable, NotFound
from core.ids import EndpointKey
from core.logs import fields
from core.tasks import unbroken
from netplugin.cni.interface_spec import FIRST_INTERFACE, container_of
from netplugin.cni.request import PodRequest
from netplugin.cni.results import PodResult
from netplugin.pods.add import PodAdd
from netplugin.pods.claims import Claims
from netplugin.pods.host_port_mappings.port_mappings import PortMappings
from netplugin.pods.pod_ports import RECLAIMED, PodPorts
from netplugin.pods.registry import add_stages
from netplugin.pods.registry.add_stages import AddTimes
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.pods.registry.recent_adds import REPEATED, RecentAdd
from netplugin.pods.teardown import Teardown
from state.records import EndpointRecord, NetworkRecord

log = logging.getLogger(__name__)


class Pods:
    """The endpoints of this host. One per agent.

    `report` is called after ADDs that netmaster does not know of yet.
    """

    def __init__(
        self,
        host: PodHost,
        pod_add: PodAdd,
        pod_ports: PodPorts,
        teardown: Teardown,
        mappings: PortMappings,
        *,
        claims: Claims,
    ) -> None:
        self._claims = claims
        self._label = host.settings.label
        self._place = host.place
        self._pod_add = pod_add
        self._master = host.master
        self._journal = host.journal
        self._registry = host.registry
        self._ports = pod_ports
        self._world = host.world
        self._reconciler = host.reconciler
        self.teardown = teardown
        self._mappings = mappings
        self._timing = host.settings.timing
        self._stages = host.stages
        self._adds = host.adds
        self._leaving = host.leaving

    def recover(self, entries: list[JournalEntry]) -> None:
        """Take over the journal of the previous agent, once, before the first call.

        Complete endpoints stay. Incomplete ones are torn down like after a DEL.
        """
        # The ADD of an entry that is still ADDING was never answered, so no runtime relies on it.
        for entry in entries:
            self._ports.reserve(entry.port)
            if entry.state is EntryState.PRESENT:
                self._registry.put(entry)
            else:
                self.teardown.schedule(replace(entry, state=EntryState.REMOVING))

    async def add(self, request: PodRequest) -> PodResult:
        """Create a pod's interface, or return the result of an identical earlier call."""
        times = self._stages.begin()
        with self._adds.keep(request, times) as kept:
            with self._stages.timed("place"):
                kept.request = await self._place(request)
            return await self._add(kept)

    async def _add(self, kept: RecentAdd) -> PodResult:
        request = kept.request
        key, began = request.spec.key, time.monotonic()
        async with self._registry.lock(request.spec.container_id):
            self._stages.note("lock", time.monotonic() - began)
            known = self._registry.find(request.spec.container_id, request.spec.ifname)
            if known is not None:
                if known.key == key and known.spec == request.spec:
                    result = await self._pod_add.repeat(known, request)
                    if result is not None:
                        self._registry.answered(known.key)
                        kept.outcome = REPEATED
                        return result
                # The runtime asks for something else now: the old endpoint is replaced, and must be
                # gone first, because both have the same interface name in the namespace.
                await unbroken(self._remove(known))
                await self.teardown.wait_finished(known.key, self._timing.old_gone)
            if (other := self._registry.get(key)) is not None:
                raise Conflict(
                    f"container {request.spec.container_id} is on network "
                    f"{request.spec.network} already, by its interface {other.spec.ifname}"
                )
            # netmaster knows one endpoint by this key. A release still under way would delete the
            # new one.
            await self.teardown.wait_finished(key, self._timing.old_gone)
            return await self._make(self._pod_add.new_entry(request), request, kept.times)

    async def delete(self, request: PodRequest) -> None:
        """Remove a pod's interface; one that does not exist is a success."""
        async with self._registry.lock(request.spec.container_id):
            known = self._registry.find(request.spec.container_id, request.spec.ifname)
            if known is not None:
                began = time.monotonic()
                await unbroken(self._remove(known))
                took = round(time.monotonic() - began, 4)
                log.info("pod removed", extra={**_about(known, request), **fields(seconds=took)})
            for record in self._unjournaled_records(request):
                network = self._world.networks.get(record.network)
                if network is not None:  # else garbage collection releases it
                    await self._master.delete_endpoint(
                        network.tenant, network.name, record.endpoint_id
                    )

    async def reclaim(self, key: EndpointKey) -> None:
        """Remove an endpoint by its record's key, for netmaster's clean-up."""
        known = self._registry.get(key)
        if known is not None:
            async with self._registry.lock(known.spec.container_id):
                entry = self._registry.get(key)  # it may have been replaced meanwhile
                if entry is not None:
                    await unbroken(self._remove(entry))

    async def join(self, container_id: str, netns: str) -> JournalEntry:
        """Note the namespace that an engine moves a link to. Raises NotFound, HostError."""
        async with self._registry.lock(container_id):
            entry = self.find(container_id)
            if entry is None or not entry.spec.handed_over:
                raise NotFound(f"endpoint {container_id} is not on this host: create it first")
            if entry.joined != netns:
                entry = replace(entry, joined=netns)
                self._registry.put(entry)
                await self._journal.write(entry)
            return entry

    async def arrive(self, entry: JournalEntry) -> bool:
        """Connect a pod that awaited its machine, unless it has been replaced or removed.

        Return whether it was there. Raises ContivError.
        """
        async with self._registry.lock(entry.spec.container_id):
            there = self._registry.get(entry.key) is entry
            if there:
                await unbroken(self._pod_add.arrive(entry))
            return there

    async def cut_off(self, entry: JournalEntry) -> None:
        """Remove flows and host ports of a pod whose addresses another endpoint has.

        Not if it has been replaced or removed. Raises ContivError.
        """
        async with self._registry.lock(entry.spec.container_id):
            if self._registry.get(entry.key) is entry:
                await unbroken(self._cut_off(replace(entry, cut_off=True)))

    def find(self, container_id: str) -> JournalEntry | None:
        """Return the endpoint of a container's first interface."""
        return self._registry.find(container_id, FIRST_INTERFACE)

    async def release(self, entry: JournalEntry) -> None:
        """Remove an endpoint as a DEL would, unless it has been replaced meanwhile."""
        async with self._registry.lock(entry.spec.container_id):
            if self._registry.get(entry.key) is entry:
                await unbroken(self._remove(entry))

    async def release_record(self, record: EndpointRecord, network: NetworkRecord) -> None:
        """Release a record of this host without endpoint, unless it has one by now."""
        async with self._registry.lock(container_of(record.endpoint_id)):
            if self.has(record.key):
                return
            await self._master.delete_endpoint(network.tenant, network.name, record.endpoint_id)

    def remove_flows(self, key: EndpointKey) -> None:
        """Remove the flows of an endpoint whose record was reclaimed."""
        log.warning("endpoint is not connected", extra=fields(endpoint=key, error=RECLAIMED))
        self._world.remove_port(key)

    def has(self, key: EndpointKey) -> bool:
        """Tell whether an endpoint of this key exists here, or is being removed."""
        return self._registry.get(key) is not None or self.teardown.has(key)

    # -- ADD -----------------------------------------------------------------------------------

    async def _make(self, entry: JournalEntry, request: PodRequest, times: AddTimes) -> PodResult:
        began, about = time.monotonic(), _about(entry, request)
        self._mappings.claim(entry)
        self._registry.put(entry)
        try:
            result = await self._pod_add.make(entry, request)
        except BaseException as exc:
            # Also a cancelled call is undone before it ends. `unbroken` finishes the undo however
            # often the call is cancelled; half an undo would leak an address or a port.
            why = fields(stages=add_stages.shown(times), error=exc)
            log.warning("pod not added", extra={**about, **why})
            await unbroken(self._undo(entry, exc))
            raise
        self._registry.answered(entry.key)
        if entry.block:
            self._claims.report()
        made = fields(
            address=result.ipv4 or result.ipv6,
            port=result.host_ifname,
            awaits=self._awaited(entry.key) or None,
            seconds=round(time.monotonic() - began, 4),
            stages=add_stages.shown(times),
        )
        log.info("pod added", extra={**about, **made})
        return result

    def _awaited(self, key: EndpointKey) -> str:
        """Return the endpoint id of the pod in which an endpoint's machine runs, "" for none."""
        entry = self._registry.get(key)
        return entry.source if entry is not None else ""

    # -- DEL -----------------------------------------------------------------------------------

    # The journal says REMOVING before anything is removed, and the entry is deleted by the teardown
    # when nothing is left. Whenever the agent dies in between, the next one continues.

    async def _remove(self, entry: JournalEntry) -> None:
        removing = replace(entry, state=EntryState.REMOVING)
        await self._journal.write(removing)
        await self._withdraw(removing)
        await self.teardown.release(removing)

    async def _cut_off(self, entry: JournalEntry) -> None:
        await self._journal.write(entry)
        self._registry.put(entry)
        await self._reconciler.remove_port(entry.key)
        await self._mappings.apply(entry)

    async def _undo(self, entry: JournalEntry, reason: BaseException) -> None:
        removing = replace(entry, state=EntryState.REMOVING)
        try:
            await self._journal.write(removing)
        except HostError as exc:
            # The journal has no entry, or one that is ADDING, which `recover` also tears down.
            log.warning("journal not written", extra=fields(endpoint=entry.key, error=exc))
        if self.teardown.ended:
            return  # the next agent finds it in the journal
        await self._withdraw(removing)
        if isinstance(reason, MasterUnavailable):
            # No master can release it now, so the runtime need not wait for that.
            self.teardown.schedule(removing)
            return
        await self.teardown.release(removing)
        with suppress(ContivError):  # the caller gets the ADD's error, and the teardown goes on
            await self.teardown.wait_finished(entry.key, self._timing.undone)

    async def _withdraw(self, entry: JournalEntry) -> None:
        """Remove an endpoint's flows, its host ports and its registry entry."""
        # Flows and host ports go before the release: a released address may be granted to another
        # pod at once, and this pod must then neither receive its packets nor send as it, nor the
        # other pod what was meant for this one's host ports.
        self._registry.put(entry)
        self._leaving()
        try:
            async with asyncio.timeout(self._timing.flows_gone):
                await self._reconciler.remove_port(entry.key)
        except (ContivError, TimeoutError) as exc:
            log.warning("flows not removed yet", extra=fields(endpoint=entry.key, error=exc))
        try:
            await self._mappings.apply(entry)
        except HostError as exc:  # `PortMappings.run` retries
            log.warning("host ports not removed yet", extra=fields(endpoint=entry.key, error=exc))
        self._registry.remove(entry.key)

    def _unjournaled_records(self, request: PodRequest) -> list[EndpointRecord]:
        """Return this host's records of the interface that have no journal entry."""
        # By the endpoint's id alone: labels may have placed the pod on another network than the one
        # that a DEL names, and Kubernetes may have forgotten them.
        return [
            record
            for record in self._world.endpoint_records.of_id(request.spec.endpoint)
            if record.homing_host == self._label and not self.has(record.key)
        ]


def _about(entry: JournalEntry, request: PodRequest) -> dict[str, object]:
    """Return what tells a pod in the log; netmaster's lines have the same `endpoint`."""
    return fields(
        endpoint=entry.key,
        namespace=request.namespace or None,
        pod=request.pod_name or None,
        container=request.spec.container_id,
        tenant=entry.spec.tenant,
        network=entry.spec.network,
    )
