"""Carries clean-ups out: the agents take their endpoints away, then the records go, part by part.

`plan.endpoints.cleanup` decides what is next; each part is a commit, and an unfinished clean-up
is found in the store and gone on with, by this leader or the next. An agent is told before the
records go, so that none is forgotten when we die in between; one that cannot be told keeps nothing
back, since clean-ups are for hosts that are lost. Whoever asked is told which could not.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

from core.errors import AgentUnavailable, ContivError, NotLeader
from core.ids import HostLabel
from core.logs import fields
from netmaster.commit import Committer
from netmaster.plan.endpoints import cleanup as plan
from netmaster.plan.model import EndpointCleanup
from state.records import EndpointRecord

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 60.0
"""Seconds between looks for clean-ups that were left unfinished."""

Reclaim = Callable[[EndpointRecord], Awaitable[None]]
"""Has the endpoint's host take it away; raises AgentUnavailable."""


class Cleanups:
    """The clean-ups of one term."""

    def __init__(self, committer: Committer, reclaim: Reclaim) -> None:
        self._committer = committer
        self._reclaim = reclaim
        self._under_way: set[EndpointCleanup] = set()

    async def perform(self, tenant: str, category: str, name: str) -> str:
        """Remove all that is named; return what to answer.

        Raises AgentUnavailable if all is removed, but some agent could not be told.
        """
        begun = await self._committer.submit(lambda view: plan.begin(view, tenant, category, name))
        cleanup = cast("EndpointCleanup", begun)
        removed, untold = await self._carry_out(cleanup)
        if untold:
            reasons = "; ".join(untold[host] for host in sorted(untold))
            raise AgentUnavailable(
                f"{removed} endpoints removed, but not from every host: {reasons}"
            )
        return plan.announcement(category, name)

    async def give_up(
        self,
        label: HostLabel,
        host_rev: int | None,
        *,
        forget: bool = False,
        unused: bool = False,
    ) -> int:
        """Remove a host's record and endpoints, and its drain if that is to be forgotten.

        Return how many endpoints went; an agent that is still there is told of them. Raises
        Conflict for a host with endpoints that is to be `unused`.
        """
        begun = await self._committer.submit(
            lambda view: plan.begin_host(view, label, host_rev, forget=forget, unused=unused)
        )
        removed, _ = await self._carry_out(cast("EndpointCleanup", begun))
        return removed

    async def resume(self) -> None:
        """Finish, for ever, what was left unfinished."""
        while True:
            try:
                for cleanup in await self._committer.read(lambda view: [*view.cleanups.values()]):
                    if cleanup not in self._under_way:
                        removed, _ = await self._carry_out(cleanup)
                        log.info("clean-up finished", extra=fields(count=removed))
            except NotLeader:
                return
            except ContivError as exc:
                log.warning("clean-up not finished", extra=fields(error=exc))
            await asyncio.sleep(LOOK_EVERY)

    async def _carry_out(self, cleanup: EndpointCleanup) -> tuple[int, dict[HostLabel, str]]:
        """Return how many endpoints went, and which hosts could not be told, and why."""
        self._under_way.add(cleanup)
        removed = 0
        untold: dict[HostLabel, str] = {}
        try:
            while part := await self._next_part(cleanup):
                await self._tell(part, untold)
                await self._remove(part)
                removed += len(part)
            await self._committer.submit(lambda view: plan.finish(view, cleanup))
        finally:
            self._under_way.discard(cleanup)
        return removed, untold

    async def _next_part(self, cleanup: EndpointCleanup) -> list[EndpointRecord]:
        return await self._committer.read(lambda view: plan.next_part(view, cleanup))

    async def _remove(self, part: Sequence[EndpointRecord]) -> None:
        await self._committer.submit(lambda view: plan.remove(view, part))

    async def _tell(self, part: Sequence[EndpointRecord], untold: dict[HostLabel, str]) -> None:
        """Have the hosts take their endpoints away; a host that failed once is not asked again."""
        by_host: dict[HostLabel, list[EndpointRecord]] = {}
        for record in part:
            if record.homing_host not in untold:
                by_host.setdefault(record.homing_host, []).append(record)
        await asyncio.gather(
            *(self._tell_host(host, records, untold) for host, records in by_host.items())
        )

    async def _tell_host(
        self, host: HostLabel, records: Sequence[EndpointRecord], untold: dict[HostLabel, str]
    ) -> None:
        for record in records:
            try:
                await self._reclaim(record)
            except AgentUnavailable as exc:
                log.warning("endpoint not taken away", extra=fields(host=host, error=exc))
                untold[host] = str(exc)
                return
