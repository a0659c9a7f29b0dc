"""Removes hosts whose agents have been missing for too long (docs/original/netmaster-daemon.md §5).

The service registry says which agents are there. Scans that confirm an absence are stored
(`netmaster.plan.endpoints.dead_hosts`); an absence that has lasted long enough becomes a clean-up
(`netmaster.cleanup`). The original ran a timer on every master, which a restart lost.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from core.errors import ContivError, NotLeader
from core.grace_period import GracePeriod
from core.ids import HostLabel
from core.logs import fields
from netmaster import host_inventory
from netmaster.cleanup import Cleanups
from netmaster.commit import Committer
from netmaster.plan.endpoints import dead_hosts
from netmaster.view import View
from objdb.api import Backend
from objdb.registration import TTL

log = logging.getLogger(__name__)

SCAN_INTERVAL: Final = TTL / 2
CONFIRMATION: Final = TTL + SCAN_INTERVAL
"""Seconds of scans without an agent after which its absence is confirmed."""
RECLAIMED: Final = "endpoints of dead hosts"
"""Counts the removed endpoints among what was repaired."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall clock, for times that are stored, and a monotonic one, for durations."""

    wall: Callable[[], float]
    monotonic: Callable[[], float] = time.monotonic


class DeadHosts:
    """The hosts without agents, as one leader sees them.

    Hosts are removed after `after` seconds, 0 for never; `tally` counts the removed endpoints.
    """

    # Why one observation is not enough: a registration is a lease. After a store outage, or a pause
    # of this process, all leases may have ended although every agent runs and is about to register
    # again. Removing a host deletes the endpoints of running pods. So an absence counts only once
    # every scan, for longer than a registration outlives its agent, has seen the registry without
    # it. A scan that failed or came too late starts that period anew (`GracePeriod`).
    #
    # The registry is read once more right before a host is removed, and its record is deleted at
    # the revision of the scan only: an agent that came back in the meantime wins.

    def __init__(
        self,
        backend: Backend,
        committer: Committer,
        cleanups: Cleanups,
        *,
        after: float,
        tally: Counter[str],
        clocks: Clocks,
    ) -> None:
        self._backend = backend
        self._committer = committer
        self._cleanups = cleanups
        self._after = after
        self._tally = tally
        self._clocks = clocks
        self._suspects: GracePeriod[tuple[HostLabel, int]] = GracePeriod(CONFIRMATION)
        self._last_scan = clocks.monotonic()

    async def run(self) -> None:
        """Scan periodically until this master no longer leads."""
        while True:
            try:
                await self.scan()
            except NotLeader:
                return
            except ContivError as exc:
                self.on_failed_scan(exc)
            await asyncio.sleep(SCAN_INTERVAL)

    def on_failed_scan(self, reason: ContivError) -> None:
        """Start the confirmation of all absences anew: a scan failed."""
        self._suspects.reset()
        log.warning("dead host scan failed, retrying", extra=fields(error=reason))

    async def scan(self) -> None:
        """Scan once: store which agents are missing or back, and remove hosts that are due.

        Raises ContivError when the store cannot be read or written.
        """
        clock = self._clocks.monotonic
        started = clock()
        hosts = await host_inventory.read(self._backend)
        if clock() - self._last_scan > 2 * SCAN_INTERVAL:
            # This process or the store stood still. Leases may have ended in that time only because
            # they could not be renewed.
            self._suspects.reset()
        self._last_scan = clock()
        confirmed = dict(self._suspects.observe(hosts.absent.items(), started))
        await self._store_absences(hosts.absent, confirmed)
        if self._after:
            now = self._clocks.wall()
            found = await self._committer.read(
                lambda view: dead_hosts.due(view, confirmed, now, self._after)
            )
            for absence in found:
                await self._remove(absence.label, absence.rev, now - absence.since)

    async def _store_absences(
        self, absent: Mapping[HostLabel, int], confirmed: Mapping[HostLabel, int]
    ) -> None:
        before = await self._missing()
        decide = partial(
            dead_hosts.update, absent=absent, confirmed=confirmed, now=self._clocks.wall()
        )
        while await self._committer.submit(decide):
            pass
        after = await self._missing()
        for label in after - before:
            log.warning("agent missing", extra=fields(host=label))
        for label in before - after:
            log.info("agent registered again", extra=fields(host=label))

    async def _missing(self) -> set[HostLabel]:
        def labels(view: View) -> set[HostLabel]:
            return set(view.absences)

        return await self._committer.read(labels)

    async def _remove(self, label: HostLabel, rev: int, seconds: float) -> None:
        hosts = await host_inventory.read(self._backend)
        if hosts.absent.get(label) != rev:
            return  # the agent came back while other hosts were removed
        log.warning("removing dead host", extra=fields(host=label, seconds=round(seconds)))
        removed = await self._cleanups.remove_host(label, rev)
        self._tally[RECLAIMED] += removed
        log.warning("endpoints of dead host removed", extra=fields(host=label, count=removed))
