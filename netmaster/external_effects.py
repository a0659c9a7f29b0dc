"""Changes that somebody outside must hear of: do, commit, and put right what did not work (D2).

Outside are the ACI gateway and, in mode docker, docker. A change whose plan says nothing to them is
committed as any other. Else the store is told first what is in doubt, then they are told, then the
change is committed with the end of the doubt and with what they answered. Whatever goes wrong in
between, a crash included, leaves a doubt, and `settle` has them hold what the store says; the next
leader does so too.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from core.errors import ContivError, StoreUnavailable
from core.logs import fields
from core.tasks import unbroken
from netmaster.commit import Committer
from netmaster.plan import docker_network
from netmaster.plan.docker_network import Docknet
from netmaster.plan.external import aci, pending_effects
from netmaster.plan.external.aci import GatewayLaunch
from netmaster.plan.model import Plan
from netmaster.stored import PendingDockerNetwork, PendingEffect, PendingProfile, Write
from netmaster.view import View

log = logging.getLogger(__name__)

Decide = Callable[[View], Plan]
Errand = GatewayLaunch | Docknet
"""What one of those outside must do about one thing."""
DOCKER: Final = "docker"
"""The mode of the cluster in which docker is told of networks."""
ATTEMPTS: Final = 5


class GatewayApi(Protocol):
    """What is asked of the gateway; `netmaster.aci` is one."""

    async def create(self, body: str) -> None:
        """Have the fabric hold an application profile."""

    async def delete(self, body: str) -> None:
        """Have the fabric forget an application profile."""


class DockerApi(Protocol):
    """What is asked of docker; `netmaster.docker` is one."""

    async def create(self, name: str, wanted: Mapping[str, Any]) -> str:
        """Have docker hold a network; return its id."""

    async def delete(self, name: str) -> None:
        """Have docker hold no network of a name."""


class ExternalEffects:
    """Makes changes in store and outside for one term of leadership, one at a time outside."""

    def __init__(
        self, committer: Committer, gateway: GatewayApi, docker: DockerApi, *, mode: str
    ) -> None:
        self._committer = committer
        self._gateway = gateway
        self._docker = docker
        self._mode = mode
        self._outside = asyncio.Lock()

    async def change(self, decide: Decide) -> object:
        """Have a change decided and made; return the plan's reply.

        Raises what `decide` and those outside raise; then nothing has changed.
        """
        reply = await self._committer.submit(lambda view: self._if_silent(view, decide))
        if not isinstance(reply, _Needed):
            return reply
        return await unbroken(self._with_errands(decide))

    async def settle(self) -> None:
        """Have those outside hold what the store says of all that is in doubt, where they can."""
        async with self._outside:
            await self._settle()

    async def _with_errands(self, decide: Decide) -> object:
        async with self._outside:
            for _ in range(ATTEMPTS):
                needed = await self._committer.submit(lambda view: self._announced(view, decide))
                if not isinstance(needed, _Needed):
                    return needed
                reply = await self._told(decide, needed)
                if not isinstance(reply, _Needed):
                    return reply
                await self._settle()
        raise StoreUnavailable("what must be told outside changes too fast, try again")

    async def _told(self, decide: Decide, needed: "_Needed") -> object:
        """Run errands, then commit; return the reply, or what would have been needed instead."""
        try:
            for errand in needed.first:
                await self._run(errand)
            answers = [await self._run(errand) for errand in needed.errands]
            return await self._committer.submit(
                lambda view: self._finished(view, decide, needed, answers)
            )
        except ContivError:
            await self._settle()
            raise

    async def _run(self, errand: Errand) -> str:
        """Have an errand done; return what is to be noted of it."""
        match errand:
            case GatewayLaunch():
                if errand.known:
                    await self._gateway.delete(aci.deletion(errand.profile))
                if errand.wanted is not None:
                    await self._gateway.create(errand.wanted)
            case Docknet():
                if errand.wanted is not None:
                    return await self._docker.create(errand.name, errand.wanted)
                await self._docker.delete(errand.name)
        return ""

    async def _settle(self) -> None:
        with _logged():
            for doubt in await self._committer.read(self._doubts):
                with _logged():
                    await self._settle_one(doubt)

    async def _settle_one(self, doubt: PendingEffect) -> None:
        errand = await self._committer.read(lambda view: _wish(view, doubt))
        answer = await self._run(errand)
        await self._committer.submit(
            lambda view: Plan(_noted(view, [errand], [answer]), reply=None)
        )

    def _errands(self, view: View, writes: Sequence[Write]) -> tuple[Errand, ...]:
        launches = aci.launches(view, writes)
        return (
            (*launches, *docker_network.errands(view, writes)) if self._mode == DOCKER else launches
        )

    def _doubts(self, view: View) -> list[PendingEffect]:
        launches = [doubt for doubt in view.doubts.values() if isinstance(doubt, PendingProfile)]
        return [*launches, *docker_network.doubtful(view)] if self._mode == DOCKER else [*launches]

    def _if_silent(self, view: View, decide: Decide) -> Plan:
        """Return the plan itself if nobody need hear of it, else one without writes."""
        plan = decide(view)
        found = self._errands(view, plan.writes)
        return Plan((), reply=_Needed(found)) if found else plan

    def _announced(self, view: View, decide: Decide) -> Plan:
        """Return the plan that has all be in doubt that the errands are about, if there are any.

        Of what is in doubt already, those outside must first hold what the store says.
        """
        plan = decide(view)
        found = self._errands(view, plan.writes)
        if not found:
            return plan
        first = [_wish(view, errand.doubt) for errand in found if errand.doubt.key in view.doubts]
        return Plan(pending_effects.raised(view, found), reply=_Needed(found, first))

    def _finished(
        self, view: View, decide: Decide, told: "_Needed", answers: Sequence[str]
    ) -> Plan:
        """Return the plan with the end of the doubt; one without writes if it has changed."""
        plan = decide(view)
        found = self._errands(view, plan.writes)
        if found != told.errands:
            return Plan((), reply=_Needed(found))
        return Plan((*plan.writes, *_noted(view, found, answers)), plan.reply, plan.then)


@dataclass(frozen=True, slots=True)
class _Needed:
    """The reply of a plan that waits for errands; some others may have to be run `first`."""

    errands: tuple[Errand, ...]
    first: Sequence[Errand] = ()


def _wish(view: View, doubt: PendingEffect) -> Errand:
    """Return what has those outside hold what the store says."""
    match doubt:
        case PendingProfile():
            return aci.launched(view, doubt.profile)
        case PendingDockerNetwork():
            return docker_network.wish(view, doubt)


def _noted(view: View, errands: Sequence[Errand], answers: Iterable[str]) -> tuple[Write, ...]:
    """Return the writes that say that errands are done, and what they were answered."""
    records = (
        write
        for errand, answer in zip(errands, answers, strict=True)
        if isinstance(errand, Docknet)
        for write in docker_network.recorded(view, errand, answer)
    )
    return (*pending_effects.ended(view, errands), *records)


@contextmanager
def _logged() -> Iterator[None]:
    """Leave for later what fails."""
    try:
        yield
    except ContivError as exc:
        log.warning("those outside and the store are at odds", extra=fields(error=exc))
