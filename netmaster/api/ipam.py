"""`/ipam/check` and `/ipam/fix`: what is wrong with the addresses, and mending what is certain.

`netmaster.plan.show.ipam_check` decides; what is mended is logged here and counted. Mended is what
was wrong at two looks: what comes about between them may be half of what somebody is about to
write.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

from core.logs import fields
from netmaster import host_inventory
from netmaster.api.routes import RouteAction, Target
from netmaster.commit import Committer
from netmaster.plan.show import ipam_check
from netmaster.plan.show.ipam_check import IpamFinding, Place
from objdb.api import Backend

log = logging.getLogger(__name__)

GRACE: Final = 1.0
"""Seconds between the two looks."""


class IpamApi:
    """The addresses during one term.

    `mended` counts what this master has mended so far, by kind; `now` is the wall clock, `sleep`
    lets time pass.
    """

    def __init__(
        self,
        backend: Backend,
        committer: Committer,
        mended: Counter[str],
        *,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._backend = backend
        self._committer = committer
        self._mended = mended
        self._now = now
        self._sleep = sleep

    def calls(self) -> Mapping[RouteAction, Callable[[Target], Awaitable[object]]]:
        """Return what answers to which action."""
        return {RouteAction.IPAM_CHECK: self._check, RouteAction.IPAM_FIX: self._fix}

    async def _check(self, _: Target) -> object:
        hosts = await host_inventory.look(self._backend)
        now = self._now()
        found, counts = await self._committer.read(
            lambda view: (
                list(ipam_check.findings(view, now, hosts.known)),
                ipam_check.counts(view),
            )
        )
        return {
            "findings": [finding.shown() for finding in found],
            "counts": counts,
            "mended": dict(self._mended),
        }

    async def _fix(self, target: Target) -> object:
        """Mend all that is certain; answer what was mended and what is left."""
        fixed: list[IpamFinding] = []
        places = await self._seen_twice()
        while part := await self._fix_some(places):
            for finding in part:
                self._mended[finding.kind] += 1
                log.warning("address mended", extra=fields(**finding.logged()))
            fixed += part
        left = await self._check(target)
        return {"fixed": [finding.shown() for finding in fixed], **cast("dict[str, object]", left)}

    async def _seen_twice(self) -> frozenset[Place]:
        first = await self._suspected()
        if not first:
            return first
        await self._sleep(GRACE)
        return first & await self._suspected()

    async def _suspected(self) -> frozenset[Place]:
        return await self._committer.read(lambda view: ipam_check.suspected(view, self._now()))

    async def _fix_some(self, places: frozenset[Place]) -> Sequence[IpamFinding]:
        mended = await self._committer.submit(
            lambda view: ipam_check.fix(view, self._now(), places)
        )
        return cast("Sequence[IpamFinding]", mended)
