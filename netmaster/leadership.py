"""A master's terms as leader: wait for the lock, load the view, lead until the lock is lost.

`netmaster.election` is the table of what follows from what; this module performs it. All objects of
a term are created in `_term` and dropped with it. What answers requests is the `RestServer`'s
current role: the follower's, which the daemon sets before, and from then on what this module sets.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from core import keys
from core.errors import (
    ContivError,
    Invalid,
    NotLeader,
    SchemaMismatch,
    StoreDenied,
    StoreUnavailable,
)
from core.logs import fields
from core.patience import patient
from core.retry import Loop, Pace
from core.tasks import background
from netmaster import address_faults
from netmaster.api.dispatch import Leader
from netmaster.api.http.access import AccessControl
from netmaster.api.http.server import RestServer, Role, leaderless
from netmaster.api.leader.agents import RegisteredAgents
from netmaster.api.leader.conditions_api import ConditionsApi
from netmaster.api.leader.hosts import HostsApi
from netmaster.api.leader.ipam import IpamApi
from netmaster.api.leader.leader_context import LeaderContext
from netmaster.api.leader.status import StatusApi
from netmaster.api.v1.objects import SWARM
from netmaster.commits.commit import Committer, CommitTiming, WriteAuthority
from netmaster.commits.commit_stats import CommitStats
from netmaster.commits.standby import Standby, following
from netmaster.election import Effect, ElectionState, Input, step
from netmaster.external.external_effects import DockerApi, ExternalEffects, GatewayApi
from netmaster.hosts import host_inventory
from netmaster.hosts.claim_window import ClaimWindow
from netmaster.hosts.cleanups import Cleanups
from netmaster.hosts.dead_hosts import Clocks, DeadHosts
from netmaster.migration import migrate, until_all_read_newest
from netmaster.plan import lineage
from netmaster.plan.endpoints import address, address_blocks, kept
from netmaster.plan.model import Plan
from netmaster.plan.objects import globals as global_settings
from netmaster.plan.objects import netprofile, policy, tenant
from netmaster.plan.objects.globals import StartupFlags
from netmaster.reservations import STICKY_FOR, Reservations
from netmaster.view import View
from objdb.api import Backend, Entry, Fence, Lock, Snapshot
from ofnet.rpc.control import AgentReport, Node
from state import schema
from state.lineage import Term

log = logging.getLogger(__name__)

FOLLOWER: Final = "follower"
LEADER: Final = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipTiming:
    """Seconds: between two runs of the periodic tasks, and for pending changes at shutdown.

    `schema` is between two looks at who reads the newest schema version.
    """

    periodic: float = 60.0
    flush: float = patient(0.3)
    schema: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSettings:
    """What the command line says about leading, and how long a leader waits.

    `mode` is the cluster's; `flags` concern the global object; `dead_host_after` is how many
    seconds a host keeps its endpoints without an agent, 0 for ever; `history` is how many seconds
    of its past the store keeps, 0 for all; `address_cooldown` is how many seconds a
    released address rests before it is granted again, 0 for not; `sticky_for` is how many seconds
    an address is kept for a pod or machine that is away.
    """

    mode: str
    flags: StartupFlags
    dead_host_after: float
    history: float = 0
    address_cooldown: float = 0
    sticky_for: float = STICKY_FOR
    timing: LeadershipTiming = field(default_factory=LeadershipTiming)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalParties:
    """The systems that a leader calls or gets reports from.

    `agents` calls the agents of hosts, `reports` is what they report over the control channel;
    `gateway` is the ACI one, `docker` the engine of this host; `announce` writes this master's role
    to the service registry; `access` decides about clients, None without TLS.
    """

    agents: RegisteredAgents
    reports: Mapping[Node, AgentReport]
    gateway: GatewayApi
    docker: DockerApi
    announce: Callable[[str], None]
    access: AccessControl | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterContext:
    """A master as a candidate: the store, its lock, its name as a writer, and the wall clock.

    `new_id` returns an id that no term had before. `commits` counts commits, term after term.
    """

    backend: Backend
    lock: Lock
    writer: str
    now: Callable[[], float]
    new_id: Callable[[], str] = lambda: secrets.token_hex(8)
    commits: CommitStats = field(default_factory=CommitStats)


@dataclass(frozen=True, slots=True)
class _Term:
    """What exists only while this master leads."""

    committer: Committer
    cleanups: Cleanups
    effects: ExternalEffects
    reservations: Reservations


class Leadership:
    """One master's candidacy; `run` it for as long as the daemon lives.

    `forward` is the server's role while this master does not lead.
    """

    def __init__(
        self,
        master: MasterContext,
        server: RestServer,
        forward: Role,
        *,
        parties: ExternalParties,
        status: StatusApi,
        settings: LeaderSettings,
    ) -> None:
        self._backend = master.backend
        self._lock = master.lock
        self._master = master
        self._server = server
        self._forward = forward
        self._parties = parties
        self._status = status
        self._settings = settings
        self._state = ElectionState.FOLLOWER
        self._current: _Term | None = None
        self._standby: Standby | None = None
        self._repaired: Counter[str] = Counter()
        self.inputs = Counter({one.name.lower(): 0 for one in Input})
        """How often each input of `netmaster.election` happened."""
        self._claims = ClaimWindow(parties.reports)
        self._loop = Loop(log, "leading failed", pace=Pace(0.5, 10.0))
        self._pause = 0.0
        server.role = forward

    @property
    def committer(self) -> Committer | None:
        """The committer of the present term, from its loading on; None without one."""
        return self._current.committer if self._current is not None else None

    @property
    def state(self) -> ElectionState:
        """The state of the election."""
        return self._state

    @property
    def is_ready_to_lead(self) -> bool:
        """Return whether this master follows and has read the store."""
        return self._standby is not None and self._standby.is_ready

    @property
    def repaired(self) -> Mapping[str, int]:
        """How many objects without an owner were released, by cause."""
        return self._repaired

    @property
    def lock_valid_until(self) -> float:
        """The monotonic time until which the leader lock is certainly held; 0 without it."""
        return self._lock.valid_until

    async def run(self) -> None:
        """Be a candidate until cancelled, which releases the lock.

        Raises StoreDenied, and SchemaMismatch for a store of another release, when elected.
        """
        async with background("history", self._watch_history()):
            await self._stand()

    async def _stand(self) -> None:
        fence: Fence | None = None
        try:
            while True:
                async with following(self._backend) as standby:
                    fence = fence or await self._elected(standby)
                    ended = await self._lead(fence, standby)
                if ended is Input.OUTDATED:
                    continue  # the next term begins under the same lock
                fence = None
                await self._on(ended)
                if ended is Input.FAILED:
                    # Without a pause this master would win the lock it has just released again and
                    # again, although another one may be able to lead.
                    await asyncio.sleep(self._pause)
                else:
                    self._loop.succeeded()
        finally:
            await self._on(Input.STOP)

    async def _elected(self, standby: Standby) -> Fence:
        """Follow the leader until this master has the lock."""
        self._standby = standby
        try:
            async with background("standby", standby.follow()):
                fence = await self._lock.acquire()
        finally:
            self._standby = None
        await self._on(Input.ACQUIRED)
        return fence

    async def _watch_history(self) -> None:
        """Notice that the store went back, and who leads."""
        with suppress(StoreDenied):  # the lock's own use reports it
            async for item in self._backend.watch(keys.LOCKS):
                if isinstance(item, Snapshot):
                    if item.rewound:
                        self._claims.store_went_back()
                    held: Iterable[Entry] = item.entries.values()
                else:
                    held = item.puts
                    if keys.LEADER_LOCK in item.deletes:
                        self._claims.lock_held(None)
                for entry in held:
                    if entry.key == keys.LEADER_LOCK:
                        self._claims.lock_held(entry.rev)

    async def _lead(self, fence: Fence, standby: Standby) -> Input:
        """Lead until the lock is lost, leading fails, or the store's schema may be raised."""
        try:
            async with AsyncExitStack() as stack:
                return await self._term(fence, standby, stack)
        except NotLeader:
            return Input.LOST
        except (StoreDenied, SchemaMismatch):
            # The next attempt would fail in the same way, so the daemon ends with the error instead
            # of taking the lock from masters that can use the store.
            raise
        except ContivError as exc:
            self._pause = self._loop.failed(exc)
            return Input.FAILED
        finally:
            if self._current is not None and self._current.committer.rewound:
                self._claims.store_went_back()
            self._current = None

    async def _term(self, fence: Fence, standby: Standby, stack: AsyncExitStack) -> Input:
        # The order matters. The loss of the lock is watched before the view is read, since reading
        # may take longer than the lease. Requests are answered (LOADED) only after the start-up
        # changes are committed. The stack ends what was started last first, so no task outlives
        # the committer it uses.
        lost = await stack.enter_async_context(background("lock", self._lock.lost()))
        committer = await self._begin(fence, standby, lost)
        term = self._current = self._new_term(committer)
        running = await stack.enter_async_context(background("commits", committer.run()))
        restored = _was_restored(committer.view)
        await self._create_required_objects(committer)
        try:
            agents = await self._agents()
        except Invalid as exc:
            log.warning("registrations not readable", extra=fields(error=exc))
            agents, restored = [], True  # all the time, since nobody can be waited for
        self._claims.term_begins(committer.view.lineage.current, restored=restored, agents=agents)
        await self._on(Input.LOADED)
        self._loop.works()
        for name, start in self._term_tasks(term).items():
            await stack.enter_async_context(background(name, start()))
        ends = [running, lost]
        if _is_outdated(committer.view):
            waiting = background(
                "schema", until_all_read_newest(self._backend, self._settings.timing.schema)
            )
            ends.append(await stack.enter_async_context(waiting))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._on(Input.RETIRE)
            raise
        if running.done() or lost.done():
            return Input.LOST
        await self._on(Input.OUTDATED)
        return Input.OUTDATED

    def _new_term(self, committer: Committer) -> _Term:
        parties = self._parties
        return _Term(
            committer,
            Cleanups(committer, parties.agents.reclaim),
            ExternalEffects(committer, parties.gateway, parties.docker, mode=self._settings.mode),
            Reservations(
                endless=self._settings.mode == SWARM, sticky_for=self._settings.sticky_for
            ),
        )

    def _term_tasks(self, term: _Term) -> Mapping[str, Callable[[], Coroutine[None, None, None]]]:
        """Return the functions that run beside requests during a term."""
        dead_hosts = DeadHosts(
            self._backend,
            term.committer,
            term.cleanups,
            after=self._settings.dead_host_after,
            tally=self._repaired,
            clocks=Clocks(self._master.now),
        )
        tasks: dict[str, Callable[[], Coroutine[None, None, None]]] = {
            "periodic tasks": partial(self._run_periodic_tasks, term),
            "clean-ups": term.cleanups.resume,
            "hosts": dead_hosts.run,
            "underlay": partial(address_faults.tell, term.committer),
        }
        if self._settings.history:
            tasks["history"] = partial(
                self._backend.compact_history, self._settings.history, self._master.now
            )
        return tasks

    async def _begin(self, fence: Fence, standby: Standby, lost: asyncio.Task[None]) -> Committer:
        """Return the term's committer; NotLeader if the lock is lost while the store is read."""
        authority = WriteAuthority(
            fence=fence,
            writer=self._master.writer,
            valid_until=lambda: self._lock.valid_until,
        )
        timing = CommitTiming(address_cooldown=self._settings.address_cooldown)

        async def begin() -> Committer:
            await migrate(self._backend, fence, self._master.writer)
            return await Committer.begin(
                self._backend, authority, standby, timing, self._master.commits
            )

        async with background("reading", begin()) as reading:
            await asyncio.wait((reading, lost), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                raise NotLeader("the lock was lost while the store was read")
            return reading.result()

    async def _agents(self) -> list[Node]:
        """Return the agents that are registered, at which hosts may have endpoints to claim."""
        hosts = await host_inventory.read(self._backend)
        return [node for label in hosts.services for node in hosts.agent_nodes(label)]

    async def _create_required_objects(self, committer: Committer) -> None:
        """Create what a term needs (lineage, global, default tenant) first."""
        flags = self._settings.flags
        term = Term(self._master.new_id(), committer.last_commit)
        await committer.submit(lambda view: lineage.begin(view, term))
        await committer.submit(lambda view: global_settings.startup(view, flags))
        await committer.submit(tenant.startup)

    async def _run_periodic_tasks(self, term: _Term) -> None:
        """Do periodically what is due by time, and finish what earlier changes left undone."""
        tasks = self._periodic_tasks(term.reservations)
        failing = Loop(log, "periodic task failed", ends=NotLeader)
        loops = {name: failing.of(name) for name in tasks}
        try:
            while True:
                for name, decide in tasks.items():
                    # one that fails stops no other, and has its next turn with all
                    try:
                        while count := await term.committer.submit(decide):
                            log.info(name, extra=fields(count=count))
                    except NotLeader:
                        return
                    except ContivError as exc:
                        loops[name].failed(exc)
                    else:
                        loops[name].succeeded()
                await term.effects.repair()
                await asyncio.sleep(self._settings.timing.periodic)
        finally:
            for loop in (*loops.values(), term.effects.loop):
                loop.withdraw()

    def _periodic_tasks(self, reservations: Reservations) -> Mapping[str, Callable[[View], Plan]]:
        """Return tasks and their decisions; each is repeated until its reply is 0."""
        return {
            "reservations reclaimed": lambda view: address.reclaim(
                view, reservations.overdue(view)
            ),
            "absences of kept addresses stored": lambda view: kept.store_absences(
                view, reservations.absences(view)
            ),
            "address blocks reclaimed": address_blocks.reclaim,
            "groups synced with their profiles": netprofile.sync_groups,
            "rules of deleted policies removed": policy.sweep,
            "rules of policies under audit set": policy.set_audited,
        }

    async def _on(self, happened: Input) -> None:
        self.inputs[happened.name.lower()] += 1
        before, (self._state, effects) = self._state, step(self._state, happened)
        log.info(
            "leadership changed",
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
                self._parties.announce(LEADER)
            case Effect.ANNOUNCE_FOLLOWER:
                self._parties.announce(FOLLOWER)
            case Effect.FLUSH:
                await self._flush()
            case Effect.RELEASE:
                await self._lock.release()

    async def _flush(self) -> None:
        if self._current is not None:
            with suppress(TimeoutError, NotLeader, StoreUnavailable):
                async with asyncio.timeout(self._settings.timing.flush):
                    await self._current.committer.flush()

    def _leader(self) -> Leader:
        if self._current is None:
            raise NotLeader("this master leads no term")
        committer, cleanups = self._current.committer, self._current.cleanups
        parties, now = self._parties, self._master.now
        return Leader(
            LeaderContext(
                committer=committer,
                effects=self._current.effects,
                mode=self._settings.mode,
                now=now,
                agents=parties.agents,
                cleanups=cleanups,
                hosts=HostsApi(self._backend, committer, cleanups, parties.reports, now=now),
                conditions=ConditionsApi(self._backend, committer, parties.reports, now=now),
                ipam=IpamApi(
                    self._backend,
                    committer,
                    self._repaired,
                    reservations=self._current.reservations,
                    now=now,
                ),
                status=self._status,
                access=parties.access,
                claims=self._claims,
                new_id=self._master.new_id,
                block_seconds=address_blocks.lease_seconds(self._settings.dead_host_after),
            )
        )


def _is_outdated(view: View) -> bool:
    """Return whether the store's schema was left as an older release needs it."""
    return view.schema is not None and view.schema.version < schema.VERSION


def _was_restored(view: View) -> bool:
    """Return whether no leader has had a term since this store got its content."""
    # Without a lineage it is from an older release, or was filled by other means than `load`. While
    # the schema has no lineage, hosts cannot tell what to claim, and nobody waits for them.
    if view.schema is not None and view.schema.version < schema.LINEAGE_SINCE:
        return False
    return view.lineage.was_loaded or (not view.lineage.terms and bool(view.networks))
