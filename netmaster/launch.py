"""Changes that the ACI gateway must hear of: do, commit, and put right what did not work (D2).

A change whose plan says nothing to the gateway is committed as any other. Else the store is told
first which profiles are in doubt, then the gateway is told, then the change is committed with the
end of the doubt. Whatever goes wrong in between, a crash included, leaves a doubt, and `settle` has
the gateway hold what the store says; the next leader does so too.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from core.errors import ContivError, StoreUnavailable
from core.logs import fields
from core.tasks import unbroken
from netmaster.commit import Committer
from netmaster.plan import aci
from netmaster.plan.aci import Launch
from netmaster.plan.model import Plan
from netmaster.view import View

log = logging.getLogger(__name__)

Decide = Callable[[View], Plan]
ATTEMPTS: Final = 5


class Gateway(Protocol):
    """What is asked of the gateway; `netmaster.aci` is one."""

    async def create(self, body: str) -> None:
        """Have the fabric hold an application profile."""

    async def delete(self, body: str) -> None:
        """Have the fabric forget an application profile."""


class Launcher:
    """Makes changes in store and fabric for one term of leadership, one at a time in the fabric."""

    def __init__(self, committer: Committer, gateway: Gateway) -> None:
        self._committer = committer
        self._gateway = gateway
        self._fabric = asyncio.Lock()

    async def change(self, decide: Decide) -> object:
        """Have a change decided and made; return the plan's reply.

        Raises what `decide` and the gateway raise; then nothing has changed.
        """
        reply = await self._committer.submit(lambda view: _if_silent(view, decide))
        if not isinstance(reply, _Needed):
            return reply
        return await unbroken(self._with_gateway(decide))

    async def settle(self) -> None:
        """Have the gateway hold what the store says of every profile in doubt, if it can be."""
        async with self._fabric:
            await self._try_to_settle()

    async def _with_gateway(self, decide: Decide) -> object:
        async with self._fabric:
            for _ in range(ATTEMPTS):
                found = await self._committer.submit(lambda view: _announced(view, decide))
                if not isinstance(found, _Needed):
                    return found
                try:
                    for launch in found.launches:
                        await self._perform(launch)
                    finished = partial(_finished, decide=decide, told=found)
                    reply = await self._committer.submit(finished)
                except ContivError:
                    await self._try_to_settle()
                    raise
                if not isinstance(reply, _Needed):
                    return reply
                await self._try_to_settle()
        raise StoreUnavailable("what the ACI gateway must be told changes too fast, try again")

    async def _perform(self, launch: Launch) -> None:
        if launch.known:
            await self._gateway.delete(aci.deletion(launch.profile))
        if launch.wanted is not None:
            await self._gateway.create(launch.wanted)

    async def _try_to_settle(self) -> None:
        try:
            await self._settle()
        except ContivError as exc:
            log.warning("ACI gateway and store are at odds", extra=fields(error=exc))

    async def _settle(self) -> None:
        doubts = await self._committer.read(_doubts)
        for launch in doubts:
            await self._perform(launch)
        profiles = [launch.profile for launch in doubts]
        await self._committer.submit(lambda view: Plan(aci.settled(view, profiles), reply=None))


class _Needed:
    """The reply of a plan that waits for the gateway."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = launches


def _if_silent(view: View, decide: Decide) -> Plan:
    """Return the plan itself if the gateway need not hear of it, else one without writes."""
    plan = decide(view)
    found = aci.launches(view, plan.writes)
    return Plan((), reply=_Needed(found)) if found else plan


def _announced(view: View, decide: Decide) -> Plan:
    plan = decide(view)
    found = aci.launches(view, plan.writes)
    return Plan(aci.announced(view, found).writes, reply=_Needed(found)) if found else plan


def _finished(view: View, decide: Decide, told: _Needed) -> Plan:
    """Return the plan with the end of the doubt; one without writes if it has changed meanwhile."""
    plan = decide(view)
    found = aci.launches(view, plan.writes)
    if found != told.launches:
        return Plan((), reply=_Needed(found))
    profiles = [launch.profile for launch in found]
    return Plan((*plan.writes, *aci.settled(view, profiles)), plan.reply, plan.then)


def _doubts(view: View) -> list[Launch]:
    return [aci.launched(view, pending.profile) for pending in view.launches.values()]
