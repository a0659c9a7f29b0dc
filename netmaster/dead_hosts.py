"""Gives hosts up whose agents have been away for too long (docs/original/netmaster-daemon.md §5).

The service registry says whose agents are there. That an agent is missing is believed only after
this leader has seen the registry without it at every look for longer than a registration outlives
its agent: a store that could not be read, or has just come back, proves nothing. What is believed
is noted in the store (`netmaster.plan.endpoints.dead_hosts`), and what has lasted long enough
becomes a clean-up (`netmaster.cleanup`). The original ran a timer on every master, which a restart
lost.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
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

LOOK_EVERY: Final = TTL / 2
BELIEF: Final = TTL + LOOK_EVERY
"""Seconds of looks after which a missing agent is believed to be missing."""
RECLAIMED: Final = "endpoints of dead hosts"
"""How the tally names the endpoints that went."""


class DeadHosts:
    """The hosts without agents, as one leader sees them.

    `now` is the wall clock, `clock` a monotonic one; hosts go `after` seconds, 0 for never.
    """

    def __init__(
        self,
        backend: Backend,
        committer: Committer,
        cleanups: Cleanups,
        *,
        after: float,
        tally: Counter[str],
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._committer = committer
        self._cleanups = cleanups
        self._after = after
        self._tally = tally
        self._now = now
        self._clock = clock
        self._suspects: GracePeriod[tuple[HostLabel, int]] = GracePeriod(BELIEF)
        self._looked_at = clock()

    async def run(self) -> None:
        """Look again and again, until we lead no more."""
        while True:
            try:
                await self.look()
            except NotLeader:
                return
            except ContivError as exc:
                self.missed(exc)
            await asyncio.sleep(LOOK_EVERY)

    def missed(self, reason: ContivError) -> None:
        """Begin anew: a look failed."""
        self._suspects.reset()
        log.warning("hosts not looked at", extra=fields(error=reason))

    async def look(self) -> None:
        """Look once: note who is missing and who is back, and give up who has been away too long.

        Raises ContivError when something cannot be read or written; then nothing is believed.
        """
        at = self._clock()
        hosts = await host_inventory.look(self._backend)
        if self._clock() - self._looked_at > 2 * LOOK_EVERY:
            self._suspects.reset()  # we or the store stood still: nobody looked meanwhile
        self._looked_at = self._clock()
        believed = dict(self._suspects.observe(hosts.absent.items(), at))
        await self._note(hosts.absent, believed)
        if self._after:
            now = self._now()
            found = await self._committer.read(
                lambda view: dead_hosts.due(view, believed, now, self._after)
            )
            for missing in found:
                await self._give_up(missing.label, missing.rev, now - missing.since)

    async def _note(
        self, absent: Mapping[HostLabel, int], believed: Mapping[HostLabel, int]
    ) -> None:
        before = await self._missing()
        decide = partial(dead_hosts.note, absent=absent, believed=believed, now=self._now())
        while await self._committer.submit(decide):
            pass
        after = await self._missing()
        for label in after - before:
            log.warning("agent is missing", extra=fields(host=label))
        for label in before - after:
            log.info("agent is back", extra=fields(host=label))

    async def _missing(self) -> set[HostLabel]:
        def labels(view: View) -> set[HostLabel]:
            return set(view.absences)

        return await self._committer.read(labels)

    async def _give_up(self, label: HostLabel, rev: int, seconds: float) -> None:
        hosts = await host_inventory.look(self._backend)
        if hosts.absent.get(label) != rev:
            return  # it came back while others were given up
        log.warning("host given up", extra=fields(host=label, seconds=round(seconds)))
        removed = await self._cleanups.give_up(label, rev)
        self._tally[RECLAIMED] += removed
        log.warning("endpoints of a dead host reclaimed", extra=fields(host=label, count=removed))
