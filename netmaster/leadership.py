"""A master's terms as leader: waits for the lock, loads the view, leads until the lock is lost.

`netmaster.election` says what may happen and what follows; this performs it. One `Committer` lives
for one term. What requests get is the `RestServer`'s current role, which changes here alone.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

from core.errors import (
    ContivError,
    NotLeader,
    SchemaMismatch,
    StoreDenied,
    StoreUnavailable,
)
from core.logs import fields
from core.tasks import background, backoff
from netmaster.api.agents import RegisteredAgents
from netmaster.api.hosts import HostsApi
from netmaster.api.ipam import IpamApi
from netmaster.api.leader import Leader
from netmaster.api.routes import RouteAction
from netmaster.api.server import RestServer, Role, leaderless
from netmaster.cleanup import Cleanups
from netmaster.commit import Committer
from netmaster.dead_hosts import DeadHosts
from netmaster.election import Effect, ElectionState, Input, step
from netmaster.external_effects import DockerApi, ExternalEffects, GatewayApi
from netmaster.plan import schema as schema_stamp
from netmaster.plan.endpoints import address
from netmaster.plan.model import Plan
from netmaster.plan.objects import globals as global_settings
from netmaster.plan.objects import netprofile, policy, tenant
from netmaster.plan.objects.globals import StartupFlags
from netmaster.view import View
from objdb.api import Backend, Fence, Lock
from ofnet.rpc.control import Node, Report

log = logging.getLogger(__name__)

HOUSEKEEPING_EVERY: Final = 60.0
"""Seconds between looks for what is overdue or was left undone."""

PARTING: Final = 0.3
"""Seconds that changes under way may take when the daemon ends, before the lock is given up."""

FOLLOWER: Final = "follower"
LEADER: Final = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderTasks:
    """What a leader needs to know beside the store.

    `mode` is the cluster's; `flags` are what the command line says of the global object; `writer`
    names this process to the store; `now` is the wall clock; `agents` asks hosts, `reports` has
    what they say of themselves; `pages` are the other things to see; `announce` tells the service
    registry our role; `gateway` is the ACI one, `docker` the engine of this host;
    `dead_host_after` is how many seconds a host keeps its endpoints without an agent, 0 for ever;
    `history` is how many seconds of its past the store keeps, 0 for all.
    """

    mode: str
    flags: StartupFlags
    writer: str
    now: Callable[[], float]
    agents: RegisteredAgents
    reports: Mapping[Node, Report]
    pages: Mapping[RouteAction, Callable[[], Awaitable[Mapping[str, object]]]]
    announce: Callable[[str], None]
    gateway: GatewayApi
    docker: DockerApi
    dead_host_after: float
    history: float = 0


class Leadership:
    """One master's candidacy; `run` it for as long as the daemon lives.

    `forward` is the server's role while we do not lead.
    """

    def __init__(
        self, backend: Backend, lock: Lock, server: RestServer, forward: Role, duties: LeaderTasks
    ) -> None:
        self._backend = backend
        self._lock = lock
        self._server = server
        self._forward = forward
        self._duties = duties
        self._state = ElectionState.FOLLOWER
        self._committer: Committer | None = None
        self._launcher: ExternalEffects | None = None
        self._cleanups: Cleanups | None = None
        self._mended: Counter[str] = Counter()
        server.role = forward

    async def run(self) -> None:
        """Stand for leader again and again; cancelled, give up the lock.

        Raises StoreDenied, and SchemaMismatch for a store of another release, once we come to lead.
        """
        pauses = backoff(0.5, 10.0)
        try:
            while True:
                fence = await self._lock.acquire()
                await self._on(Input.ACQUIRED)
                ended = await self._term(fence)
                await self._on(ended)
                if ended is Input.FAILED:
                    await asyncio.sleep(next(pauses))
                else:
                    pauses = backoff(0.5, 10.0)
        finally:
            await self._on(Input.STOP)

    async def _term(self, fence: Fence) -> Input:
        """Lead until the lock is lost, or until leading fails."""
        try:
            async with AsyncExitStack() as term:
                lost = await term.enter_async_context(background("lock", self._lock.lost()))
                committer = self._committer = await self._begin(fence, lost)
                cleanups = self._cleanups = Cleanups(committer, self._duties.agents.reclaim)
                running = await term.enter_async_context(background("commits", committer.run()))
                launcher = self._launcher = self._new_launcher(committer)
                await self._prepare(committer)
                await self._on(Input.LOADED)
                chores = self._keep_house(committer, launcher)
                await term.enter_async_context(background("chores", chores))
                await term.enter_async_context(background("clean-ups", cleanups.resume()))
                absences = self._absences(committer, cleanups)
                await term.enter_async_context(background("hosts", absences.run()))
                if self._duties.history:
                    forgetting = self._backend.compact_history(self._duties.history)
                    await term.enter_async_context(background("history", forgetting))
                try:
                    await asyncio.wait((running, lost), return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    await self._on(Input.RETIRE)
                    raise
        except NotLeader:
            return Input.LOST
        except (StoreDenied, SchemaMismatch):
            raise
        except ContivError as exc:
            log.exception("cannot lead", extra=fields(error=exc))
            return Input.FAILED
        finally:
            self._committer = self._cleanups = self._launcher = None
        return Input.LOST

    def _new_launcher(self, committer: Committer) -> ExternalEffects:
        duties = self._duties
        return ExternalEffects(committer, duties.gateway, duties.docker, mode=duties.mode)

    def _absences(self, committer: Committer, cleanups: Cleanups) -> DeadHosts:
        return DeadHosts(
            self._backend,
            committer,
            cleanups,
            after=self._duties.dead_host_after,
            tally=self._mended,
            now=self._duties.now,
        )

    async def _begin(self, fence: Fence, lost: asyncio.Task[None]) -> Committer:
        """Return what commits this term's changes; NotLeader if the lock is lost before."""
        begin = Committer.begin(
            self._backend,
            fence,
            self._duties.writer,
            valid_until=lambda: self._lock.valid_until,
        )
        async with background("reading", begin) as reading:
            await asyncio.wait((reading, lost), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                raise NotLeader("the lock was lost while the store was read")
            return reading.result()

    async def _prepare(self, committer: Committer) -> None:
        """Have what must be there, the global object say, exist before anybody asks."""
        flags = self._duties.flags
        await committer.submit(schema_stamp.startup)
        await committer.submit(lambda view: global_settings.startup(view, flags))
        await committer.submit(tenant.startup)

    async def _keep_house(self, committer: Committer, launcher: ExternalEffects) -> None:
        """Do, for ever, what falls due with time and what an earlier change left undone."""
        while True:
            for chore, decide in self._chores().items():
                try:
                    while count := await committer.submit(decide):
                        log.info(chore, extra=fields(count=count))
                except NotLeader:
                    return
                except ContivError as exc:
                    log.warning("chore failed", extra=fields(task=chore, error=exc))
            await launcher.settle()
            await asyncio.sleep(HOUSEKEEPING_EVERY)

    def _chores(self) -> Mapping[str, Callable[[View], Plan]]:
        """Return what is to be done again and again; a reply of 0 says that all is done."""
        return {
            "reservations reclaimed": lambda view: address.reclaim(view, self._duties.now()),
            "groups brought in line with their profiles": netprofile.catch_up,
            "rules of deleted policies removed": policy.sweep,
        }

    async def _on(self, happened: Input) -> None:
        before, (self._state, effects) = self._state, step(self._state, happened)
        log.info(
            "leadership",
            extra=fields(input=happened.name, before=before.name, state=self._state.name),
        )
        for effect in effects:
            await self._perform(effect)

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case Effect.REFUSE:
                self._server.role = leaderless
            case Effect.ANSWER:
                self._server.role = self._leader().answer
            case Effect.FORWARD:
                self._server.role = self._forward
            case Effect.ANNOUNCE_LEADER:
                self._duties.announce(LEADER)
            case Effect.ANNOUNCE_FOLLOWER:
                self._duties.announce(FOLLOWER)
            case Effect.SETTLE:
                await self._settle()
            case Effect.RELEASE:
                await self._lock.release()

    async def _settle(self) -> None:
        if self._committer is not None:
            with suppress(TimeoutError, NotLeader, StoreUnavailable):
                async with asyncio.timeout(PARTING):
                    await self._committer.settled()

    def _leader(self) -> Leader:
        if self._committer is None or self._cleanups is None or self._launcher is None:
            raise NotLeader("no term is under way")
        duties = self._duties
        hosts = HostsApi(
            self._backend, self._committer, self._cleanups, duties.reports, now=duties.now
        )
        ipam = IpamApi(self._backend, self._committer, self._mended, now=duties.now)
        return Leader(
            self._committer,
            self._launcher.change,
            mode=duties.mode,
            now=duties.now,
            agents=duties.agents,
            cleanups=self._cleanups,
            pages=duties.pages,
            upkeep={**hosts.calls(), **ipam.calls()},
        )
