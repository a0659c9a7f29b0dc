"""Claims the endpoints of running pods that the store does not know.

It went back, or this host gave them addresses that it held ahead (ADR 29).

In come the endpoints of this host (`netplugin.pods.registry.endpoint_registry`), the store's events
and its lineage (`netplugin.bridges.record_events`); out go requests to netmaster for the endpoints
that are missing, with the addresses that their pods have, and faults for
`netplugin.masters.progress`.

A claim is over when the store has the endpoint with the pod's addresses. What is refused, because
another endpoint holds the address or the network is gone, is reported and tried again. The pod
keeps its flows meanwhile: no address is taken from it, nor from the other.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from core.errors import Conflict, ContivError, HostError, MasterUnavailable
from core.ids import EndpointKey, HostLabel
from core.logs import fields
from core.retry import REMOTE, Loop, Pace, retry
from core.tasks import background, unbroken
from netplugin.masters.master_api import Addresses, WantedEndpoint
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from state.lineage import Position
from state.records import EndpointRecord

log = logging.getLogger(__name__)

# A claim begins in two ways: an ADD from an address block notes it in the entry that it writes
# first, or the store went back. A record that the leader deletes in the history that
# this agent follows was released or reclaimed, and garbage collection cuts its pod off.
#
# Two things show which it is. While the agent runs, a watch of the store may notice by itself that
# the store went back: then all that is missing is claimed. And each entry of the journal has the
# position in the store's lineage (`state.lineage`) at which the store knew the endpoint. A position
# that is not in the lineage of now is of a history that the store has lost, whoever noticed, and
# also if this agent was not running then. Once the store knows the endpoint, in whatever history,
# the entry gets a position in that one. Claims are marked in the journal, and a later agent goes on
# with them.


CLAIMS: Final = Pace(0.2, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTiming:
    """`pace` is that of attempts; `at_once` claims run."""

    pace: Pace = CLAIMS
    at_once: int = 16


class Claims:
    """The claims of this host. One per agent."""

    def __init__(
        self,
        host: PodHost,
        pod_ports: PodPorts,
        timing: ClaimTiming | None = None,
    ) -> None:
        self._host = host
        self._registry = host.registry
        self._endpoints = host.world.endpoint_records
        self._records = host.reconciler.records
        self._ports = pod_ports
        self._progress = host.progress
        self._timing = timing or ClaimTiming()
        self._refused: dict[EndpointKey, str] = {}
        self._unanswered = ""
        self._rewinds = self._records.rewinds
        self._reported = asyncio.Event()
        self._changed = self._records.records_changed()
        self._loop = Loop(
            log,
            "claims not answered",
            pace=self._timing.pace,
            errors=MasterUnavailable,
            patience=REMOTE,
        )

    def report(self) -> None:
        """Have endpoints created soon that this host gave addresses to."""
        self._reported.set()

    async def run(self) -> None:
        """Claim, for ever, what is missing in the store."""
        while True:
            history_changed = self._records.history_changed()
            await self.mark()
            await self._until_none(history_changed)
            await _first_of(history_changed, self._reported)

    async def mark(self) -> None:
        """Mark what the store has lost, in the journal; give the others positions of now."""
        now = self._records.endpoints_position
        if now is None:
            return  # what was read may be of the past; the next event comes when it is not
        all_missing = self._records.rewinds != self._rewinds
        self._rewinds = self._records.rewinds
        for entry in self._registry.entries():
            if entry.state is not EntryState.PRESENT or entry.claiming:
                continue
            if entry.source or entry.cut_off:
                continue
            if self._is_known(entry.key):
                if now.term and not self._records.lineage.has(entry.position):
                    await self._change(entry, at_position(entry, now), known=True)
                continue
            port = self._host.world.endpoints.port(entry.key)
            if all_missing and port is not None:
                await self._claim(with_addresses(entry, port.record), entry)
            elif entry.term and now.term and not self._records.lineage.has(entry.position):
                await self._claim(entry, entry)

    async def _claim(self, claimed: JournalEntry, entry: JournalEntry) -> None:
        if await self._change(entry, replace(claimed, claiming=True), known=False):
            log.warning(
                "endpoint missing in the store that went back, claiming it again",
                extra=fields(endpoint=entry.key, address=claimed.ip_address),
            )

    async def _change(self, before: JournalEntry, after: JournalEntry, *, known: bool) -> bool:
        """Replace an entry, unless a DEL, or an ADD that asks netmaster by itself, was there."""
        async with self._registry.lock(before.spec.container_id):
            if self._registry.get(before.key) is not before or known != self._is_known(before.key):
                return False
            await self._save(after)
            return True

    async def _until_none(self, history_changed: asyncio.Event) -> None:
        """Try all claims until none is left, or the store has another history once more."""
        pauses = self._timing.pace.pauses()  # of what is refused, which faults of its own tell
        while True:
            await retry(self._loop, partial(self._attempt, history_changed), self._pause)
            if not self._registry.claiming() or history_changed.is_set():
                return
            await self._pause(next(pauses))

    async def _attempt(self, history_changed: asyncio.Event) -> None:
        """Try all claims once. Raises MasterUnavailable if some were not answered."""
        self._reported.clear()
        self._changed, history = self._records.records_changed(), self._records.lineage.current
        in_doubt = self._records.endpoints_position is None
        self._unanswered = ""
        await self._try_all()
        if not in_doubt and not self._unanswered and not history_changed.is_set():
            self._progress.claimed(history)
        self._ports.publish()  # the port of a pod that this agent found without a record
        self._refused = {key: why for key, why in self._refused.items() if self._is_open(key)}
        self._progress.set_faults("claims", self._faults())
        if self._unanswered and not history_changed.is_set():
            raise MasterUnavailable(self._unanswered)

    async def _pause(self, seconds: float) -> None:
        """Wait, until records change or a claim is reported at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _first_of(self._changed, self._reported)

    async def _try_all(self) -> None:
        slots = asyncio.Semaphore(self._timing.at_once)

        async def attempt(key: EndpointKey) -> None:
            async with slots:
                await self._try(key)

        async with asyncio.TaskGroup() as attempts:
            for key in self._registry.claiming():
                attempts.create_task(attempt(key))

    async def _try(self, key: EndpointKey) -> None:
        entry = self._registry.get(key)
        if entry is None:
            return
        # The container's lock: a DEL that comes now waits, and then releases what was claimed.
        async with self._registry.lock(entry.spec.container_id):
            if self._registry.get(key) is not entry or not self._is_open(key):
                return
            try:
                record = self._endpoints.get(key)
                if record is None:
                    wanted = claim_of(entry, self._host.settings.label)
                    await unbroken(self._host.master.create_endpoint(wanted))
                    self._refused.pop(key, None)  # the store's event ends the claim
                else:
                    await self._compare(entry, record)
            except MasterUnavailable as exc:
                self._unanswered = str(exc)
            except Conflict as exc:
                self._refuse(key, str(exc))
                if entry.block:
                    # This host was declared dead before it could report the pod, and the address
                    # is another's by now. As with pods that it had reported, this one is cut off.
                    self._host.world.remove_port(key)
            except ContivError as exc:
                self._refuse(key, str(exc))

    async def _compare(self, entry: JournalEntry, record: EndpointRecord) -> None:
        """End a claim, if the store's record is what the pod has."""
        if (record.ip_address, record.ipv6_address) != (entry.ip_address, entry.ipv6_address):
            self._refuse(entry.key, f"the store has {record.ip_address} for it")
            return
        self._refused.pop(entry.key, None)
        now = self._records.endpoints_position or Position()
        await self._save(at_position(replace(entry, claiming=False), now))
        log.info("endpoint claimed", extra=fields(endpoint=entry.key, address=record.ip_address))

    def _refuse(self, key: EndpointKey, reason: str) -> None:
        if self._refused.get(key) != reason:
            log.warning("claim refused", extra=fields(endpoint=key, error=reason))
        self._refused[key] = reason

    def _faults(self) -> Iterator[str]:
        for key, reason in self._refused.items():
            entry = self._registry.get(key)
            address = entry.ip_address if entry is not None else ""
            yield (
                f"pod {key} runs with {address}, which the store does not grant it: "
                f"{reason}; delete this pod or the other holder"
            )

    def _is_known(self, key: EndpointKey) -> bool:
        return self._endpoints.get(key) is not None

    def _is_open(self, key: EndpointKey) -> bool:
        return key in self._registry.claiming()

    async def _save(self, entry: JournalEntry) -> None:
        self._registry.put(entry)
        try:
            await self._host.journal.write(entry)
        except HostError as exc:  # the claim goes on; only a next agent would not know of it
            log.warning("journal not written", extra=fields(endpoint=entry.key, error=exc))


async def _first_of(*events: asyncio.Event) -> None:
    """Return when one of the events is set."""
    async with AsyncExitStack() as stack:
        waits = [
            await stack.enter_async_context(background("event", event.wait())) for event in events
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)


def claim_of(entry: JournalEntry, host: HostLabel) -> WantedEndpoint:
    """Return the request for the endpoint of a pod that runs."""
    return WantedEndpoint(
        host=host,
        tenant=entry.spec.tenant,
        network=entry.spec.network,
        group=entry.spec.group or None,
        endpoint_id=entry.spec.endpoint,
        common_name=entry.name,
        addresses=Addresses(entry.ip_address, entry.ipv6_address, entry.spec.mac),
        claim=True,
        labels=entry.spec.labels,
        block=entry.block,
        keep=entry.spec.keep,
        replaces=entry.source,
    )


def at_position(entry: JournalEntry, position: Position) -> JournalEntry:
    """Return an entry with the position at which the store knew the endpoint."""
    return replace(entry, term=position.term, rev=position.rev)


def with_addresses(entry: JournalEntry, record: EndpointRecord) -> JournalEntry:
    """Return an entry with what a claim needs of the endpoint's record."""
    return replace(
        entry,
        ip_address=record.ip_address,
        ipv6_address=record.ipv6_address,
        name=record.common_name,
    )
