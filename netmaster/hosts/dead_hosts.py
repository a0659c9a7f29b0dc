"""Removes hosts whose agents have been missing for too long (docs/original/netmaster-daemon.md §5).

The service registry says which agents are there. Scans that confirm an absence are stored
(`netmaster.plan.endpoints.dead_hosts`); an absence that has lasted long enough becomes a clean-up
(`netmaster.hosts.cleanups`). The original ran a timer on every master, which a restart lost.

How long a host has been absent is the sum of the time between scans of each leader, by that
leader's monotonic clock. The wall clocks of two masters are never compared: one that is a day ahead
would remove hosts as soon as it leads.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from core.collections.grace_period import GracePeriod
from core.errors import ContivError, NotLeader
from core.ids import HostLabel
from core.logs import fields
from core.retry import REMOTE, Loop, retry
from netmaster.commits.commit import Committer
from netmaster.hosts import host_inventory
from netmaster.hosts.cleanups import Cleanups
from netmaster.hosts.host_inventory import HostInventory
from netmaster.plan.change_log import LEADER, recorded
from netmaster.plan.endpoints import address_blocks, dead_hosts
from netmaster.stored import BlockLease, HostAbsence
from netmaster.view import View
from objdb.api import Backend
from objdb.registration import TTL

log = logging.getLogger(__name__)

SCAN_INTERVAL: Final = TTL / 2
CONFIRMATION: Final = TTL + SCAN_INTERVAL
"""Seconds of scans without an agent after which its absence is confirmed."""
STORED_PARTS: Final = 20
"""The absence of a host is stored in so many parts; a change of leader loses one at most."""
NO_RECORD: Final = 0
"""Stands for the revision of a host's record that is not there."""
RECLAIMED: Final = "endpoints of dead hosts"
"""Counts the removed endpoints among what was repaired."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall clock, for times that are shown, and a monotonic one, for durations."""

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
    # Time counts from one scan that confirms an absence to the next. What passed while no leader
    # scanned is unknown, and does not count.
    #
    # A host that holds addresses ahead of its pods may use them until the lease is over that its
    # last renewal began (ADR 29). So an absence is tied to that renewal like to the record's
    # revision: in what is stored, in what is counted here, and in the transaction that ends it.
    #
    # A host that was given another name is not dead: its agent runs on with the pods that began
    # under the first name, which has their records. They are kept until the last pod has gone.
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
        self._unstored: dict[tuple[HostLabel, int], float] = {}
        self._renewals: dict[HostLabel, str] = {}
        self._faults: set[tuple[str, str]] = set()
        self._last_scan = clocks.monotonic()

    async def run(self) -> None:
        """Scan periodically until this master no longer leads."""
        loop = Loop(log, "dead host scan failed", ends=NotLeader, patience=REMOTE)
        with suppress(NotLeader):
            while True:
                await retry(loop, self._attempt)
                await asyncio.sleep(SCAN_INTERVAL)

    async def _attempt(self) -> None:
        try:
            await self.scan()
        except ContivError:
            self.forget_absences()
            raise

    def forget_absences(self) -> None:
        """Start the confirmation of all absences anew: a scan failed."""
        self._suspects.reset()

    async def scan(self) -> None:
        """Scan once: store which agents are missing or back, and remove hosts that are due.

        Raises ContivError when the store cannot be read or written.
        """
        clock = self._clocks.monotonic
        started = clock()
        hosts = await host_inventory.read(self._backend)
        self._log_faults(hosts)
        leases = await self._committer.read(dead_hosts.holders)
        absent = {**hosts.absent, **{one: NO_RECORD for one in leases if one not in hosts.known}}
        passed, self._last_scan = clock() - self._last_scan, clock()
        if passed > 2 * SCAN_INTERVAL:
            # This process or the store stood still. Leases may have ended in that time only because
            # they could not be renewed.
            self._suspects.reset()
        confirmed = dict(self._suspects.observe(absent.items(), started))
        self._forget_renewed(leases)
        self._count(confirmed, passed)
        await self._store_absences(absent, confirmed)
        for absence in await self._absences(confirmed):
            seconds = absence.seconds + self._unstored[absence.label, absence.rev]
            enough = self._enough(absence, leases.get(absence.label))
            # A host that renewed its address blocks since they were read is counted anew.
            if enough and seconds >= enough and absence.renewal == self._renewal(absence.label):
                await self._remove(absence, seconds)

    def _log_faults(self, hosts: HostInventory) -> None:
        """Log what agents have registered wrongly, once each."""
        found = {("", one) for one in hosts.stray}
        found |= {(str(label), one) for label, each in hosts.faults.items() for one in each}
        for label, fault in sorted(found - self._faults):
            log.warning("registration refused", extra=fields(host=label, error=fault))
        self._faults = found

    def _enough(self, absence: HostAbsence, lease: BlockLease | None) -> float:
        """Return after how many seconds a host is removed, 0 for never.

        Never before the lease of its address blocks is over: until then it may use them. One that
        was removed otherwise, and keeps nothing but its lease, goes after that.
        """
        if lease is None:
            return self._after
        if self._after or absence.rev == NO_RECORD:
            return max(self._after, lease.seconds)
        return 0.0

    def _renewal(self, label: HostLabel) -> str:
        return self._renewals.get(label, "")

    def _forget_renewed(self, leases: Mapping[HostLabel, BlockLease]) -> None:
        """Begin the count of hosts anew that renewed their address blocks."""
        renewals = {label: lease.renewal for label, lease in leases.items()}
        for label, rev in list(self._unstored):
            if renewals.get(label) != self._renewals.get(label):
                del self._unstored[label, rev]
        self._renewals = renewals

    def _count(self, confirmed: Mapping[HostLabel, int], passed: float) -> None:
        """Count the time since the last scan for the hosts that it confirmed as well."""
        before = self._unstored
        self._unstored = {
            key: before[key] + passed if key in before else 0.0 for key in confirmed.items()
        }

    async def _absences(self, confirmed: Mapping[HostLabel, int]) -> list[HostAbsence]:
        return await self._committer.read(lambda view: dead_hosts.absences(view, confirmed))

    async def _store_absences(
        self, absent: Mapping[HostLabel, int], confirmed: Mapping[HostLabel, int]
    ) -> None:
        before = await self._missing()
        seconds = await self._seconds_to_store(confirmed)
        observed = dead_hosts.Observed(
            absent=absent, confirmed=confirmed, seconds=seconds, now=self._clocks.wall()
        )
        update = partial(dead_hosts.update, observed=observed)
        while await self._committer.submit(recorded(update, LEADER, observed.now)):
            pass
        for label in seconds:
            self._unstored[label, confirmed[label]] = 0.0
        after = await self._missing()
        for label in after - before:
            log.warning("agent missing", extra=fields(host=label))
        for label in before - after:
            log.info("agent registered again", extra=fields(host=label))

    async def _seconds_to_store(
        self, confirmed: Mapping[HostLabel, int]
    ) -> Mapping[HostLabel, float]:
        """Return how long hosts have been absent in all, for those with a part to be stored."""
        return {
            absence.label: absence.seconds + unstored
            for absence in await self._absences(confirmed)
            if (unstored := self._unstored[absence.label, absence.rev])
            >= (self._after or address_blocks.LONGEST_WITHOUT_REMOVAL) / STORED_PARTS
        }

    async def _missing(self) -> set[HostLabel]:
        def labels(view: View) -> set[HostLabel]:
            return set(view.absences)

        return await self._committer.read(labels)

    async def _has_endpoints(self, label: HostLabel) -> bool:
        return await self._committer.read(lambda view: bool(view.host_endpoints.get(label)))

    async def _remove(self, absence: HostAbsence, seconds: float) -> None:
        label, rev = absence.label, absence.rev
        hosts = await host_inventory.read(self._backend)
        if hosts.has_registered(label) or hosts.revision(label) != (rev or None):
            return  # the agent came back while other hosts were removed
        if hosts.new_name(label) is not None and await self._has_endpoints(label):
            return
        log.warning("removing dead host", extra=fields(host=label, seconds=round(seconds)))
        removed = await self._cleanups.remove_host(
            label, rev or None, renewal=absence.renewal, now=self._clocks.wall()
        )
        self._tally[RECLAIMED] += removed
        log.warning("endpoints of dead host removed", extra=fields(host=label, count=removed))
