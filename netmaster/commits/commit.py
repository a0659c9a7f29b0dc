"""The only writer of the leader's part of the store: decisions go in, fenced transactions come out.

`submit` decides a change against the view, applies its writes to the view at once and queues them.
`run` commits what is queued in groups, one group in flight, each fenced by the leader lock (ADR 9).
The view therefore holds what is committed and what is pending. No caller is told of a change, or of
a refusal that is based on one, before that change is committed.

`netmaster.commits.commit_groups` says which changes may share a group. Any difference between view
and store fails all pending changes, and the view is read again from the store before anything new
is decided. Such differences are a refused change, a commit without an answer, and a write by
another process (`netmaster.commits.foreign_writes`).

`netmaster.plan` decides, `netmaster.election` says who leads.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar, cast

from core import keys
from core.errors import (
    ContivError,
    FenceLost,
    NotLeader,
    StoreDenied,
    StoreFull,
    StoreRewound,
    StoreUnavailable,
)
from core.logs import fields
from core.patience import patient
from core.retry import REMOTE, Loop, retry
from core.tasks import background
from core.tracing import spans
from netmaster import codec
from netmaster.commits.commit_groups import PrefixSet, shared_prefixes
from netmaster.commits.commit_stats import CommitStats
from netmaster.commits.foreign_writes import RevisionTracker
from netmaster.commits.mirror import Mirror, follow
from netmaster.commits.standby import Standby
from netmaster.ipam.resting import AddressRest
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View
from objdb.api import (
    Absent,
    Backend,
    Change,
    Committed,
    Delete,
    Delta,
    Entry,
    Fence,
    Outcome,
    Put,
    Snapshot,
    Unchanged,
    split,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_LEADER: Final = "Leader not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTiming:
    """Seconds that a committer waits.

    `gather`, about what a commit takes, for as many changes as the last group had; `rebuild` until
    a caller is refused while the view is read again; `full` until a full store is tried again.
    `address_cooldown` is how long a released address rests before it is granted again, 0 for not.
    """

    gather: float = 0.004
    rebuild: float = patient(5.0)
    full: float = 5.0
    address_cooldown: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAuthority:
    """The right of one leader to write: the lock's fence, and the writer's name to the store.

    `valid_until` returns the monotonic time up to which the lock is certainly held.
    """

    fence: Fence
    writer: str
    valid_until: Callable[[], float]


@dataclass(slots=True)
class _PendingChange:
    """A change on its way: its writes, the group it may join, and the caller's future."""

    writes: tuple[Write, ...]
    ops: tuple[Put | Delete, ...]
    shared: PrefixSet | None
    done: asyncio.Future[None]


@contextlib.contextmanager
def partly_done(what: str) -> Iterator[None]:
    """Raise refusals by the store, and by this master, as those of a change that is partly made."""
    try:
        yield
    except (NotLeader, StoreUnavailable) as exc:
        raise StoreUnavailable(f"{what}: {exc}", outcome_unknown=True) from exc


class Committer:
    """Decides and commits changes for one term of leadership; `begin` makes one.

    `found` is what the store held when the term began, `reports` what a watch reports since.
    """

    # Invariants:
    #
    # * The view is the store as of the last commit plus the writes of `_in_flight` and `_queue`, in
    #   that order. Only `apply` in `_enqueue` and a rebuild change it. There is no undo: a change
    #   that fails takes the whole view with it (`_discard_view`), since later decisions saw it.
    # * One group is in flight at a time. A group behind it may rest on it, and the writer's marker
    #   that makes a commit apply at most once allows no second one (ADR 1).
    # * Every commit carries the fence. A leader that lost its lock without noticing, frozen for a
    #   minute, say, is refused by the store itself, not by its own clock.
    # * Replies wait for everything that is pending at the time (`_all_seen_committed`), reads and
    #   refusals included: they too may be based on a change that is not committed yet.

    def __init__(
        self,
        backend: Backend,
        authority: WriteAuthority,
        found: Mirror,
        reports: AsyncIterator[Snapshot | Delta],
        *,
        timing: CommitTiming,
        stats: CommitStats | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._stats = stats or CommitStats()
        self._authority = authority
        self._reports = reports
        self._timing = timing
        self._clock = clock
        self._tracker = RevisionTracker()
        self._revision = 0
        # Of the term, not of the view: a rebuild of the view ends no rest.
        self._resting = AddressRest(timing.address_cooldown, clock)
        self._underlay = found.underlay
        self._view = self._read(found)
        self._queue: deque[_PendingChange] = deque()
        self._in_flight: list[_PendingChange] = []
        self._queued = self._finished = 0
        self._barriers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._rebuilds = 0
        self._expected = 0
        self._full: StoreFull | None = None
        self._full_until = 0.0
        self._view_valid = asyncio.Event()
        self._view_valid.set()
        self._wake = asyncio.Event()
        self._end: ContivError | None = None
        self._unchecked: list[Snapshot | Delta] = []
        self.last_commit = found.last_commit
        """The revision of the last commit of a leader before this term, 0 for none."""
        self.rewound = False
        """Whether the term ended because the store went back."""
        self.underlay_changed = asyncio.Event()
        """Set when addresses of hosts, masters or the store change, which others write."""

    @classmethod
    async def begin(
        cls,
        backend: Backend,
        authority: WriteAuthority,
        standby: Standby,
        timing: CommitTiming | None = None,
        stats: CommitStats | None = None,
    ) -> "Committer":
        """Wait until a standby has all that is stored; return a committer for it.

        Raises Invalid, SchemaMismatch and StoreDenied for a store that cannot be read, NotLeader
        if the backend is closed.
        """
        # Nothing is written between what was found and what is reported: both are of one watch. All
        # that former terms wrote is found, since the lock's key was written after the last commit
        # of another master, and the writer's marker by the last one of this master.
        marks = await _entries(backend, authority.fence.key, keys.commit(authority.writer))
        found, reports = await standby.hand_over(marks)
        committer = cls(
            backend, authority, found, reports, timing=timing or CommitTiming(), stats=stats
        )
        log.info("view loaded", extra=fields(revision=found.rev, count=len(found.revs)))
        return committer

    @property
    def view(self) -> View:
        """Return the view, pending changes included; a rebuild replaces it, so do not keep it."""
        return self._view

    @property
    def revision(self) -> int:
        """Return the revision of the last commit of this term, or of the store when it was read."""
        return self._revision

    @property
    def revisions(self) -> Mapping[str, int]:
        """Return the revision of the last change under each prefix that agents watch."""
        return self._tracker.prefixes.revisions

    def revisions_of(self, records: Iterable[str], policy: str = "") -> Mapping[str, int]:
        """Return the last revision of some keys under each prefix that agents watch.

        Rules that this term removed from a policy, if one is named, count too.
        """
        return self._tracker.revisions_of(records, policy)

    @property
    def pending(self) -> int:
        """Return how many changes are decided and neither committed nor refused yet."""
        return self._queued - self._finished

    async def submit(self, decide: Callable[[View], Plan]) -> object:
        """Decide and commit a change, with all parts of its plan; return the plan's reply.

        Raises what `decide` raises, NotLeader and StoreUnavailable, and then nothing was changed;
        StoreUnavailable with `outcome_unknown` if the change, or a part of it, may have been made.
        """
        with spans.part("commit"):
            plan = await self._commit_plan(decide)
            if plan.then is not None:
                await self._commit_rest(plan.then)
            return plan.reply

    async def read(self, query: Callable[[View], T]) -> T:
        """Return what `query` computes from the view, once all that it saw is committed."""
        return cast("T", await self.submit(lambda view: Plan((), reply=query(view))))

    async def flush(self) -> None:
        """Wait until every change pending now is committed, or has failed and left the view."""
        await self._all_seen_committed()
        await self._until_view_valid()

    async def run(self) -> None:
        """Commit until the term ends; raises the reason, NotLeader when the lock was lost."""
        try:
            async with background("foreign writes", self._watch_store()) as watching:
                watching.add_done_callback(lambda _: self._wake.set())
                while self._end is None and not watching.done():
                    await self._work()
                    await self._wake.wait()
                    self._wake.clear()
            raise self._end or NotLeader(NO_LEADER)
        finally:
            self._finish(NotLeader(NO_LEADER))

    async def _commit_rest(self, decide: Callable[[View], Plan]) -> None:
        """Decide and commit the parts of a plan behind its first one."""
        following: Callable[[View], Plan] | None = decide
        with partly_done("the rest of the change is made later"):
            while following is not None:
                following = (await self._commit_plan(following)).then

    async def _commit_plan(self, decide: Callable[[View], Plan]) -> Plan:
        """Return the plan for one transaction, once it is committed.

        A reply or refusal that was decided on a view that was discarded since is decided again.
        """
        while True:
            await self._until_view_valid()
            try:
                plan = decide(self._view)
            except ContivError:
                if await self._all_seen_committed():
                    raise
                continue
            if plan.writes:
                # `decide`, the update of the view and the place in the queue make one step without
                # an await in between. So the queue's order is the order of the decisions.
                self._refuse_if_full(plan.writes)
                await self._enqueue(plan.writes)
                return plan
            if await self._all_seen_committed():
                return plan

    def _refuse_if_full(self, writes: Sequence[Write]) -> None:
        """Raise StoreFull at once for puts while the store is full; deletes go on, and make room.

        Trying would cost every other pending change: a refused commit discards the view.
        """
        puts = any(write.record is not None for write in writes)
        if puts and self._full is not None and self._clock() < self._full_until:
            raise self._full

    async def _work(self) -> None:
        while self._end is None:
            if not self._view_valid.is_set():
                await self._rebuild()
            elif not self._queue:
                return
            elif len(self._queue) < self._expected:
                await self._gather_group()
            else:
                await self._commit(*self._next_group())

    async def _gather_group(self) -> None:
        """Wait a moment for as many changes as the last group had.

        The callers of one group are answered together and often submit their next changes
        together. Without this wait the first would be committed alone, and all others would wait
        for two commits.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timing.gather):
                while self._queue and len(self._queue) < self._expected:
                    self._wake.clear()
                    await self._wake.wait()
        self._expected = 0
        self._wake.set()  # it may have been set for another reason than the queue

    def _enqueue(self, writes: tuple[Write, ...]) -> asyncio.Future[None]:
        ops = tuple(
            Delete(write.key)
            if write.record is None
            else Put(write.key, codec.encode(write.record))
            for write in writes
        )
        done = asyncio.get_running_loop().create_future()
        applied = False
        try:
            self._view.apply(writes)
            applied = True
        finally:
            # A plan that does not fit its view is a bug, and has changed half of the view.
            if not applied:
                self._discard_view("a plan did not fit the view")
        self._queue.append(_PendingChange(writes, ops, shared_prefixes(writes), done))
        self._queued += 1
        self._wake.set()
        return done

    def _next_group(self) -> tuple[list[_PendingChange], list[Change]]:
        """Take the changes of the next commit off the queue."""
        waiting: list[_PendingChange] = []
        shared = self._queue[0].shared
        for pending in islice(self._queue, self._backend.limits.budget):
            # In one transaction with a put, a full store would refuse a delete as well.
            alone = shared is None or self._full is not None
            if waiting and (alone or pending.shared is not shared):
                break
            waiting.append(pending)
        # Only the first transaction is sent now: the checks of later ones may name revisions that
        # it will make.
        changes = split(map(self._change, waiting), self._backend.limits)[0]
        return [self._queue.popleft() for _ in changes], changes

    def _change(self, pending: _PendingChange) -> Change:
        revs = self._tracker.revs
        checks = tuple(
            Absent(write.key)
            if write.new
            else Unchanged(write.key, revs.get(write.key, 0) if write.rev is None else write.rev)
            for write in pending.writes
        )
        return Change(checks, pending.ops)

    async def _commit(self, group: list[_PendingChange], changes: list[Change]) -> None:
        self._in_flight, self._expected = group, len(group)
        began, outcome = self._clock(), "failed"
        try:
            outcomes = await self._backend.commit(
                changes, fence=self._authority.fence, writer=self._authority.writer
            )
            outcome = "committed" if all(map(_is_made, outcomes)) else "refused"
        except FenceLost as exc:
            outcome = "fenced"
            # The store itself refused the commit, so nothing of it was done.
            self._in_flight = []
            self._fail(group, NotLeader(NO_LEADER))
            self._on_fence_lost(exc)
            return
        except ContivError as exc:
            if isinstance(exc, StoreFull):
                self._full, self._full_until = exc, self._clock() + self._timing.full
            self._fail(group, exc)
            self._discard_view(f"a commit failed: {exc}")
        else:
            if any(isinstance(op, Put) for change in changes for op in change.ops):
                self._full = None
            self._finish_group(group, outcomes)
        finally:
            self._stats.attempted(outcome, len(group), self._clock() - began)
        self._in_flight = []
        self._check_reports()

    def _finish_group(self, group: Sequence[_PendingChange], outcomes: Sequence[Outcome]) -> None:
        """Resolve each change of a group by its outcome."""
        for pending, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, Committed):
                self._tracker.committed(pending.ops, outcome.rev)
                self._revision = max(self._revision, outcome.rev)
                self._stats.committed(outcome.rev, self._clock())
                if not pending.done.done():
                    pending.done.set_result(None)
        refused = [
            (pending, outcome.culprit.key)
            for pending, outcome in zip(group, outcomes, strict=True)
            if not isinstance(outcome, Committed)
        ]
        for pending, key in refused:
            self._fail(
                [pending], StoreUnavailable(f"{key} was changed by another writer, try again")
            )
        self._finished += len(group) - len(refused)
        self._open_barriers()
        if refused:
            self._discard_view(f"{refused[0][1]} was changed by another writer")

    async def _rebuild(self) -> None:
        """Read the view from the store again, retrying for as long as that takes."""
        try:
            snapshot = await self._snapshot()
        except FenceLost as exc:
            self._on_fence_lost(exc)
            return
        self._view = self._read(Mirror.of(snapshot))
        self._view_valid.set()
        log.info("view rebuilt", extra=fields(revision=snapshot.rev))
        self._check_reports()

    def _read(self, found: Mirror) -> View:
        """Return the view of what the store holds, and restart the tracking of revisions there."""
        view = found.view(self._resting, self._underlay)
        self._tracker.restart(found.revs, found.rev)
        self._revision = found.rev
        return view

    async def _snapshot(self) -> Snapshot:
        async def attempt() -> Snapshot:
            # An empty commit first. It moves the writer's marker, so a copy of an earlier commit
            # whose answer was lost cannot be applied behind the snapshot (ADR 1).
            await self._backend.commit(
                [], fence=self._authority.fence, writer=self._authority.writer
            )
            return await self._backend.snapshot(keys.ROOT)

        loop = Loop(
            log, "view rebuild failed", errors=StoreUnavailable, patience=REMOTE, vital=True
        )
        return await retry(loop, attempt)

    async def _watch_store(self) -> None:
        try:
            async for item in self._reports:
                if isinstance(item, Snapshot) and item.rewound:
                    # All that this term knows, its revisions and its lock among it, is of another
                    # history. The next term reads everything anew.
                    log.warning("store went back, term ends", extra=fields(revision=item.rev))
                    self.rewound = True
                    break
                self._stats.reported(item.rev, self._clock())
                if follow(self._underlay, item):
                    self.underlay_changed.set()
                self._unchecked.append(item)
                del item
                self._check_reports()
        except StoreDenied as exc:
            self._finish(exc)
        else:
            self._finish(NotLeader(NO_LEADER))

    def _check_reports(self) -> None:
        """Check the watch's reports for foreign writes, unless own ones are not all known yet."""
        if self._in_flight or not self._view_valid.is_set():
            return
        reports, self._unchecked = self._unchecked, []
        for item in reports:
            key = self._tracker.foreign_key(item)
            if key is not None:
                self._discard_view(f"{key} was changed by another writer")
                return

    def _discard_view(self, reason: str) -> None:
        """Fail all queued changes, and rebuild the view before anything new is decided."""
        log.warning("view out of sync with store, rebuilding it", extra=fields(error=reason))
        self._rebuilds += 1
        self._stats.rebuilds += 1
        self._view_valid.clear()
        self._wake.set()
        waiting = list(self._queue)
        self._queue.clear()
        self._fail(waiting, StoreUnavailable(f"not done, since {reason}; try again"))

    def _fail(self, failed: Iterable[_PendingChange], reason: ContivError) -> None:
        for pending in failed:
            self._finished += 1
            if not pending.done.done():
                pending.done.set_exception(reason)
        self._open_barriers()

    def _on_fence_lost(self, reason: FenceLost) -> None:
        self.rewound |= isinstance(reason, StoreRewound)
        self._finish(NotLeader(NO_LEADER))
        log.warning("leader lock lost", extra=fields(error=reason))

    def _finish(self, reason: ContivError) -> None:
        """End the term: nothing more is decided, and all pending changes fail.

        What waits in the queue was surely not done. A commit in flight may be made, or was made.
        """
        if self._end is not None:
            return
        self._end = reason
        in_flight, self._in_flight = self._in_flight, []
        waiting = list(self._queue)
        self._queue.clear()
        self._fail(
            in_flight,
            StoreUnavailable("this master lost the lock during the commit", outcome_unknown=True),
        )
        self._fail(waiting, NotLeader(NO_LEADER))
        self._view_valid.set()
        self._wake.set()

    async def _until_view_valid(self) -> None:
        if not self._view_valid.is_set():
            try:
                async with asyncio.timeout(self._timing.rebuild):
                    await self._view_valid.wait()
            except TimeoutError as exc:
                raise StoreUnavailable("the store is being read again, try again") from exc
        if self._end is not None:
            raise NotLeader(NO_LEADER)

    async def _all_seen_committed(self) -> bool:
        """Wait for all that is pending now; return False if the view was discarded meanwhile.

        Raises NotLeader unless the lock is certainly still held. Without that check a deposed
        leader would answer reads, which need no commit, from an outdated view.
        """
        rebuilds = self._rebuilds
        if self._finished < self._queued:
            barrier = asyncio.get_running_loop().create_future()
            self._barriers.append((self._queued, barrier))
            await barrier
        if self._end is not None or self._clock() >= self._authority.valid_until():
            raise NotLeader(NO_LEADER)
        return rebuilds == self._rebuilds

    def _open_barriers(self) -> None:
        while self._barriers and self._barriers[0][0] <= self._finished:
            _, barrier = self._barriers.popleft()
            if not barrier.done():
                barrier.set_result(None)


async def _entries(backend: Backend, *wanted: str) -> list[Entry]:
    """Return the entries of keys that exist, however long the store takes to answer."""

    async def attempt() -> list[Entry]:
        found = [await backend.get(key) for key in wanted]
        return [entry for entry in found if entry is not None]

    loop = Loop(log, "store not readable", errors=StoreUnavailable, patience=REMOTE, vital=True)
    return await retry(loop, attempt)


def _is_made(outcome: Outcome) -> bool:
    return isinstance(outcome, Committed)
