"""`/ipam/check` and `/ipam/fix`: find what is wrong with the addresses, repair what is certain.

`netmaster.plan.show.ipam_check` decides; what was repaired is logged here and counted.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

from core.logs import fields
from netmaster.commits.commit import Committer, partly_done
from netmaster.hosts import host_inventory
from netmaster.plan.show import ipam_check
from netmaster.plan.show.ipam_check import IpamFinding, Place
from netmaster.reservations import Reservations
from objdb.api import Backend

log = logging.getLogger(__name__)

GRACE: Final = 1.0
"""Seconds between the two scans of a repair."""


class IpamApi:
    """The addresses during one term.

    `repaired` counts what this master has repaired so far, by kind; `reservations` says which of
    them are overdue; `now` is the wall clock, `sleep` lets time pass.
    """

    def __init__(
        self,
        backend: Backend,
        committer: Committer,
        repaired: Counter[str],
        *,
        reservations: Reservations,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._backend = backend
        self._committer = committer
        self._repaired = repaired
        self._reservations = reservations
        self._now = now
        self._sleep = sleep

    async def check(self) -> dict[str, Any]:
        """Return all findings, the numbers of addresses by owner, and what was repaired so far."""
        hosts = await host_inventory.read(self._backend)
        now = self._now()
        found, counts = await self._committer.read(
            lambda view: (
                list(
                    ipam_check.findings(
                        view, now, hosts.known, overdue=self._reservations.overdue(view)
                    )
                ),
                ipam_check.counts(view),
            )
        )
        return {
            "findings": [finding.shown() for finding in found],
            "counts": counts,
            "mended": dict(self._repaired),
        }

    async def fix(self) -> dict[str, Any]:
        """Repair all that is certain; return what was repaired, and what `check` finds then."""
        fixed: list[IpamFinding] = []
        places = await self._confirmed()
        with partly_done("addresses may be repaired"):
            while part := await self._fix_some(places):
                for finding in part:
                    self._repaired[finding.kind] += 1
                    log.warning("address repaired", extra=fields(**finding.logged()))
                fixed += part
            return {"fixed": [finding.shown() for finding in fixed], **await self.check()}

    async def _confirmed(self) -> frozenset[Place]:
        """Return where two scans in a row found something to repair.

        A finding of one scan alone may be half of a change by another writer: a foreign tool that
        puts a grant first and its endpoint right after it must not lose the grant.
        """
        first = await self._suspected()
        if not first:
            return first
        await self._sleep(GRACE)
        return first & await self._suspected()

    async def _suspected(self) -> frozenset[Place]:
        return await self._committer.read(
            lambda view: ipam_check.suspected(view, self._now(), self._reservations.overdue(view))
        )

    async def _fix_some(self, places: frozenset[Place]) -> Sequence[IpamFinding]:
        repaired = await self._committer.submit(
            lambda view: ipam_check.fix(view, self._now(), places, self._reservations.overdue(view))
        )
        return cast("Sequence[IpamFinding]", repaired)
