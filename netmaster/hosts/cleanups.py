"""Carries clean-ups out: agents tear endpoints down, then the records are deleted, part by part.

`netmaster.plan.endpoints.cleanup` decides which endpoints are next. Each part is a commit of its
own; an unfinished clean-up is stored, and this leader or the next continues it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, cast

from core.errors import AgentUnavailable, NotLeader
from core.ids import HostLabel
from core.logs import fields
from core.retry import Loop, Pace, retry
from netmaster.commits.commit import Committer, partly_done
from netmaster.plan.change_log import LEADER, ChangeOrigin, recorded
from netmaster.plan.endpoints import address_blocks
from netmaster.plan.endpoints import cleanup as plan
from netmaster.stored import EndpointCleanup
from state.records import EndpointRecord

log = logging.getLogger(__name__)

RESUME_INTERVAL: Final = 60.0
PACE_OF_AGENTS: Final = Pace(1.0, 60.0)
"""Of attempts at a clean-up: agents and docker are asked each time."""
"""Seconds between scans for clean-ups that were left unfinished."""

Reclaim = Callable[[EndpointRecord], Awaitable[None]]
"""Has the endpoint's host tear it down; raises AgentUnavailable."""


class Cleanups:
    """The clean-ups of one term."""

    # Order within a part: agents first, records second. A master that dies in between finds the
    # records again and repeats the part, which does no harm. In the other order an endpoint
    # without a record would stay on its host, and its address would be granted again.
    #
    # An agent that does not answer does not stop the clean-up. Clean-ups are for hosts that are
    # lost, so waiting for their agents would keep the addresses for ever.

    def __init__(self, committer: Committer, reclaim: Reclaim) -> None:
        self._committer = committer
        self._reclaim = reclaim
        self._in_progress: set[EndpointCleanup] = set()

    async def perform(self, tenant: str, category: str, name: str) -> str:
        """Remove the endpoints of a network, group or container; return the answer's text.

        Raises AgentUnavailable if all records are removed, but an agent could not be reached.
        """
        begun = await self._committer.submit(lambda view: plan.begin(view, tenant, category, name))
        cleanup = cast("EndpointCleanup", begun)
        with partly_done("the clean-up is stored, and is continued later"):
            removed, failed = await self._carry_out(cleanup)
        if failed:
            reasons = "; ".join(failed[host] for host in sorted(failed))
            raise AgentUnavailable(
                f"{removed} endpoints removed, but not from every host: {reasons}"
            )
        return plan.announcement(category, name)

    async def remove_host(
        self,
        label: HostLabel,
        host_rev: int | None,
        *,
        undrain: bool = False,
        unused: bool = False,
        renewal: str = "",
        origin: ChangeOrigin = LEADER,
        now: float,
    ) -> int:
        """Remove a host's record and endpoints, and its drain with `undrain`.

        Return how many endpoints were removed; an agent that still runs tears them down. Raises
        Conflict for a host with endpoints if it must be `unused`. With the last `renewal` of its
        address blocks these are released, too; Conflict if it was not the last. `origin` is whose
        request it is, `now` wall-clock time.
        """
        begin = partial(
            plan.begin_host,
            label=label,
            host_rev=host_rev,
            undrain=undrain,
            unused=unused,
            renewal=renewal,
        )
        begun = await self._committer.submit(recorded(begin, origin, now))
        with partly_done("the clean-up is stored, and is continued later"):
            removed, _ = await self._carry_out(cast("EndpointCleanup", begun))
            while renewal and await self._committer.submit(address_blocks.reclaim):
                pass
        return removed

    async def resume(self) -> None:
        """Finish clean-ups that were left unfinished; runs until the term ends."""
        loop = Loop(log, "clean-up failed", pace=PACE_OF_AGENTS, ends=NotLeader)
        with suppress(NotLeader):
            while True:
                await retry(loop, self._resume)
                await asyncio.sleep(RESUME_INTERVAL)

    async def _resume(self) -> None:
        for cleanup in await self._committer.read(lambda view: [*view.cleanups.values()]):
            if cleanup not in self._in_progress:
                removed, _ = await self._carry_out(cleanup)
                log.info("clean-up finished", extra=fields(count=removed))

    async def _carry_out(self, cleanup: EndpointCleanup) -> tuple[int, dict[HostLabel, str]]:
        """Return how many endpoints were removed, and why which hosts could not be reached."""
        self._in_progress.add(cleanup)
        removed = 0
        failed: dict[HostLabel, str] = {}
        try:
            while part := await self._next_part(cleanup):
                await self._reclaim_part(part, failed)
                await self._remove(part)
                removed += len(part)
            await self._committer.submit(lambda view: plan.finish(view, cleanup))
        finally:
            self._in_progress.discard(cleanup)
        return removed, failed

    async def _next_part(self, cleanup: EndpointCleanup) -> list[EndpointRecord]:
        return await self._committer.read(lambda view: plan.next_part(view, cleanup))

    async def _remove(self, part: Sequence[EndpointRecord]) -> None:
        await self._committer.submit(lambda view: plan.remove(view, part))

    async def _reclaim_part(
        self, part: Sequence[EndpointRecord], failed: dict[HostLabel, str]
    ) -> None:
        """Have the hosts tear their endpoints down; a host that failed once is not asked again."""
        by_host: dict[HostLabel, list[EndpointRecord]] = {}
        for record in part:
            if record.homing_host not in failed:
                by_host.setdefault(record.homing_host, []).append(record)
        await asyncio.gather(
            *(self._reclaim_host(host, records, failed) for host, records in by_host.items())
        )

    async def _reclaim_host(
        self, host: HostLabel, records: Sequence[EndpointRecord], failed: dict[HostLabel, str]
    ) -> None:
        for record in records:
            try:
                await self._reclaim(record)
            except AgentUnavailable as exc:
                log.warning("agent has not removed an endpoint", extra=fields(host=host, error=exc))
                failed[host] = str(exc)
                return
