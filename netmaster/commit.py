"""The only writer of the leader's part of the store: decisions go in, fenced transactions come out.

`submit` has a change decided against the view, applies its writes to the view at once and queues
them; `run` commits what is queued in groups, one group in flight, each fenced by the leader lock
(ADR 9). The view therefore holds what is committed and what is on its way, and nobody is told
of a change, or of a refusal that rests on one, before it is committed.

Endpoints and addresses share groups, and so do rules, new networks, and new groups, each with their
like; any other change goes alone, because what follows was decided upon it and must not be written
if it fails. Whatever puts view and store at
odds (a refused change, an outcome nobody knows, a write that is not ours) fails all pending changes
and has the view read again from the store before anything new is decided.

What is decided is `netmaster.plan`'s business; who leads is `netmaster.election`'s.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, TypeVar, cast

from contivmodel.objects import EndpointGroup, Network
from core import keys
from core.errors import (
    ContivError,
    FenceLost,
    NotLeader,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)
from core.logs import fields
from core.tasks import background, backoff
from netmaster import codec
from netmaster.plan.model import Plan
from netmaster.progress import Marks
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
_SHARING: Final = ((keys.ENDPOINTS, keys.GRANTS), (keys.RULES,))
"""Changes within one of these prefix sets may share a group; of two sets they may not."""
_CREATIONS: Final = (
    (keys.obj(Network.kind, ""), keys.NETWORKS, keys.GRANTS),
    (keys.obj(EndpointGroup.kind, ""), keys.GROUPS),
)
"""The same for changes that only add: what comes with others of its kind is in nobody's way."""
_PATIENCE: Final = 5.0
_COMPANY: Final = 0.004
"""Seconds, about what a commit takes, that the next one waits for as many changes as the last."""
_FULL_FOR: Final = 5.0
"""Seconds until a store that was full is tried again; meanwhile no view is spoilt by trying."""


@dataclass(slots=True)
class _Pending:
    """A change on its way: what it writes, whom it may share a group with, who waits for it."""

    writes: tuple[Write, ...]
    ops: tuple[Put | Delete, ...]
    sharing: tuple[str, ...] | None
    done: asyncio.Future[None]


class Committer:
    """Decides and commits changes for one term of leadership; `begin` makes one.

    `found` is what the store held when the term began and `news` what has changed since.
    `valid_until` is the monotonic time up to which we certainly lead.
    """

    def __init__(
        self,
        backend: Backend,
        fence: Fence,
        writer: str,
        found: Snapshot,
        news: AsyncIterator[Snapshot | Delta],
        *,
        valid_until: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._fence = fence
        self._writer = writer
        self._news = news
        self._watched = _Watched()
        self._view = self._read(found)
        self._valid_until = valid_until
        self._clock = clock
        self._queue: deque[_Pending] = deque()
        self._flying: list[_Pending] = []
        self._queued = self._finished = 0
        self._barriers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._rebuilds = 0
        self._expected = 0
        self._full: StoreFull | None = None
        self._full_until = 0.0
        self._usable = asyncio.Event()
        self._usable.set()
        self._wake = asyncio.Event()
        self._end: ContivError | None = None
        self._unjudged: list[Snapshot | Delta] = []

    @classmethod
    async def begin(
        cls, backend: Backend, fence: Fence, writer: str, *, valid_until: Callable[[], float]
    ) -> "Committer":
        """Read all that is stored, however long the store takes, and return who goes on from it.

        Raises Invalid, SchemaMismatch and StoreDenied for a store that cannot be read, NotLeader
        if the backend is closed.
        """
        news = backend.watch(keys.ROOT)
        async for found in news:
            if isinstance(found, Snapshot):
                committer = cls(backend, fence, writer, found, news, valid_until=valid_until)
                log.info("view loaded", extra=fields(revision=found.rev, count=len(found.entries)))
                return committer
        raise NotLeader(NO_LEADER)

    @property
    def view(self) -> View:
        """Return the view, with what is pending; a rebuild replaces it, so do not keep it."""
        return self._view

    @property
    def marks(self) -> Mapping[str, int]:
        """Return the last revision of a change under each prefix that agents follow."""
        return self._watched.marks.revisions

    async def submit(self, decide: Callable[[View], Plan]) -> object:
        """Have a change decided and committed, with what follows from it; return the plan's reply.

        Raises what `decide` raises; StoreUnavailable if the change may not have been made;
        NotLeader if it was not made, or nothing can be said, because we lead no more.
        """
        plan = await self._carried_out(decide)
        following = plan.then
        while following is not None:
            following = (await self._carried_out(following)).then
        return plan.reply

    async def read(self, look: Callable[[View], T]) -> T:
        """Return what `look` finds in the view, once all of what it saw is committed."""
        return cast("T", await self.submit(lambda view: Plan((), reply=look(view))))

    async def settled(self) -> None:
        """Wait until every change pending now is committed, or has failed and is out of view."""
        await self._seen_is_committed()
        await self._until_usable()

    async def run(self) -> None:
        """Commit until the term ends; raises the reason (NotLeader when the lock was lost)."""
        try:
            async with background("foreign writes", self._follow()) as watching:
                watching.add_done_callback(lambda _: self._wake.set())
                while self._end is None and not watching.done():
                    await self._work()
                    await self._wake.wait()
                    self._wake.clear()
            raise self._end or NotLeader(NO_LEADER)
        finally:
            self._finish(NotLeader(NO_LEADER))

    async def _carried_out(self, decide: Callable[[View], Plan]) -> Plan:
        """Return the plan for one transaction, once it is committed."""
        while True:
            await self._until_usable()
            try:
                plan = decide(self._view)
            except ContivError:
                if await self._seen_is_committed():
                    raise
                continue
            if plan.writes:
                self._refuse_if_full(plan.writes)
                await self._enqueue(plan.writes)
                return plan
            if await self._seen_is_committed():
                return plan

    def _refuse_if_full(self, writes: Sequence[Write]) -> None:
        """Refuse at once what a full store would not take; deletes go on, and make room."""
        puts = any(write.record is not None for write in writes)
        if puts and self._full is not None and self._clock() < self._full_until:
            raise self._full

    async def _work(self) -> None:
        while self._end is None:
            if not self._usable.is_set():
                await self._rebuild()
            elif not self._queue:
                return
            elif len(self._queue) < self._expected:
                await self._company()
            else:
                await self._commit(*self._next_group())

    async def _company(self) -> None:
        """Give those who were answered together the time to come back and be committed together.

        Else the first of them goes alone, and the others wait for two commits.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_COMPANY):
                while self._queue and len(self._queue) < self._expected:
                    self._wake.clear()
                    await self._wake.wait()
        self._expected = 0
        self._wake.set()  # whatever else it was set for has not been looked at

    def _enqueue(self, writes: tuple[Write, ...]) -> asyncio.Future[None]:
        ops = tuple(
            Delete(write.key)
            if write.record is None
            else Put(write.key, codec.encode(write.record))
            for write in writes
        )
        sharing = _sharing(writes)
        done = asyncio.get_running_loop().create_future()
        applied = False
        try:
            self._view.apply(writes)
            applied = True
        finally:
            # a plan that does not fit its view is a bug, and has changed half of the view
            if not applied:
                self._distrust("a plan did not fit the view")
        self._queue.append(_Pending(writes, ops, sharing, done))
        self._queued += 1
        self._wake.set()
        return done

    def _next_group(self) -> tuple[list[_Pending], list[Change]]:
        """Take the changes of the next commit off the queue."""
        waiting: list[_Pending] = []
        sharing = self._queue[0].sharing
        for pending in islice(self._queue, self._backend.limits.budget):
            # beside a write that a full store may refuse, a delete would be refused with it
            alone = sharing is None or self._full is not None
            if waiting and (alone or pending.sharing is not sharing):
                break
            waiting.append(pending)
        # only the first commit is made now: what comes later may check revisions it makes
        changes = split(map(self._change, waiting), self._backend.limits)[0]
        return [self._queue.popleft() for _ in changes], changes

    def _change(self, pending: _Pending) -> Change:
        revs = self._watched.revs
        checks = tuple(
            Absent(write.key)
            if write.new
            else Unchanged(write.key, revs.get(write.key, 0) if write.rev is None else write.rev)
            for write in pending.writes
        )
        return Change(checks, pending.ops)

    async def _commit(self, group: list[_Pending], changes: list[Change]) -> None:
        self._flying, self._expected = group, len(group)
        try:
            outcomes = await self._backend.commit(changes, fence=self._fence, writer=self._writer)
        except FenceLost as exc:
            self._lose(exc)
            return
        except ContivError as exc:
            if isinstance(exc, StoreFull):
                self._full, self._full_until = exc, self._clock() + _FULL_FOR
            self._fail(group, exc)
            self._distrust(f"a commit failed: {exc}")
        else:
            if any(isinstance(op, Put) for change in changes for op in change.ops):
                self._full = None
            self._note(group, outcomes)
        self._flying = []
        self._judge_news()

    def _note(self, group: Sequence[_Pending], outcomes: Sequence[Outcome]) -> None:
        """Tell each change of a commit its outcome."""
        for pending, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, Committed):
                self._watched.committed(pending.ops, outcome.rev)
                if not pending.done.done():
                    pending.done.set_result(None)
        refused = [
            (pending, outcome.culprit.key)
            for pending, outcome in zip(group, outcomes, strict=True)
            if not isinstance(outcome, Committed)
        ]
        for pending, key in refused:
            self._fail(
                [pending], StoreUnavailable(f"{key} was changed by somebody else, try again")
            )
        self._finished += len(group) - len(refused)
        self._open_barriers()
        if refused:
            self._distrust(f"{refused[0][1]} was changed by somebody else")

    async def _rebuild(self) -> None:
        """Read the view from the store again, however long the store takes."""
        try:
            snapshot = await self._snapshot()
        except FenceLost as exc:
            self._lose(exc)
            return
        self._view = self._read(snapshot)
        self._usable.set()
        log.info("view read again", extra=fields(revision=snapshot.rev))
        self._judge_news()

    def _read(self, found: Snapshot) -> View:
        """Return the view of what was found, which is ours to change from here on."""
        view = View.load({key: entry.value for key, entry in found.entries.items()})
        self._watched.start(found)
        return view

    async def _snapshot(self) -> Snapshot:
        delays = backoff()
        while True:
            try:
                # once this has gone through, no copy of a commit we gave up can be applied any more
                await self._backend.commit([], fence=self._fence, writer=self._writer)
                return await self._backend.snapshot(keys.ROOT)
            except StoreUnavailable as exc:
                log.warning("cannot read the view again yet", extra=fields(error=exc))
            await asyncio.sleep(next(delays))

    async def _follow(self) -> None:
        try:
            async for item in self._news:
                self._unjudged.append(item)
                self._judge_news()
        except StoreDenied as exc:
            self._finish(exc)
        else:
            self._finish(NotLeader(NO_LEADER))

    def _judge_news(self) -> None:
        """Look for writes that are not ours, unless we cannot know yet which ones are."""
        if self._flying or not self._usable.is_set():
            return
        news, self._unjudged = self._unjudged, []
        for item in news:
            key = self._watched.foreign(item)
            if key is not None:
                self._distrust(f"{key} was changed by somebody else")
                return

    def _distrust(self, reason: str) -> None:
        """Fail all that waits, and have the view read again before anything new is decided."""
        log.warning("view and store are at odds", extra=fields(error=reason))
        self._rebuilds += 1
        self._usable.clear()
        self._wake.set()
        waiting = list(self._queue)
        self._queue.clear()
        self._fail(waiting, StoreUnavailable(f"not done, since {reason}; try again"))

    def _fail(self, failed: Iterable[_Pending], reason: ContivError) -> None:
        for pending in failed:
            self._finished += 1
            if not pending.done.done():
                pending.done.set_exception(reason)
        self._open_barriers()

    def _lose(self, reason: FenceLost) -> None:
        self._finish(NotLeader(NO_LEADER))
        log.warning("lost the leader lock", extra=fields(error=reason))

    def _finish(self, reason: ContivError) -> None:
        """End the term: nothing more is decided, and all who wait are told."""
        if self._end is not None:
            return
        self._end = reason
        waiting = [*self._flying, *self._queue]
        self._queue.clear()
        self._flying = []
        self._fail(waiting, NotLeader(NO_LEADER))
        self._usable.set()
        self._wake.set()

    async def _until_usable(self) -> None:
        if not self._usable.is_set():
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._usable.wait()
            except TimeoutError as exc:
                raise StoreUnavailable("the store is being read again, try again") from exc
        if self._end is not None:
            raise NotLeader(NO_LEADER)

    async def _seen_is_committed(self) -> bool:
        """Wait for all that is pending now; False if the view was dropped meanwhile."""
        rebuilds = self._rebuilds
        if self._finished < self._queued:
            barrier = asyncio.get_running_loop().create_future()
            self._barriers.append((self._queued, barrier))
            await barrier
        if self._end is not None or self._clock() >= self._valid_until():
            raise NotLeader(NO_LEADER)
        return rebuilds == self._rebuilds

    def _open_barriers(self) -> None:
        while self._barriers and self._barriers[0][0] <= self._finished:
            _, barrier = self._barriers.popleft()
            if not barrier.done():
                barrier.set_result(None)


def _sharing(writes: Sequence[Write]) -> tuple[str, ...] | None:
    """Return the prefixes of what a change may share a group with; None if it goes alone."""
    only_adds = all(write.new for write in writes)
    sets = (*_SHARING, *_CREATIONS) if only_adds else _SHARING
    return next(filter(partial(_is_within, writes), sets), None)


def _is_within(writes: Sequence[Write], prefixes: tuple[str, ...]) -> bool:
    return all(write.key.startswith(prefixes) for write in writes)


class _Watched:
    """The revisions of the leader's keys, and which changes seen by a watch are not ours.

    Our own commits are known by their revision, and kept until news have come past them. All must
    be known when news are judged, so that is done while none is in flight.
    """

    def __init__(self) -> None:
        self.marks = Marks()
        self.revs: dict[str, int] = {}
        self._since = 0
        self._ours: set[int] = set()
        self._ours_in_order: deque[int] = deque()

    def start(self, snapshot: Snapshot) -> None:
        """Begin anew with what the store holds."""
        self.revs = {
            key: entry.rev for key, entry in snapshot.entries.items() if codec.is_leaders(key)
        }
        for key, rev in self.revs.items():
            self.marks.note(key, rev)
        self._since = snapshot.rev

    def committed(self, ops: Iterable[Put | Delete], rev: int) -> None:
        """Note a change of ours."""
        if rev not in self._ours:
            self._ours.add(rev)
            self._ours_in_order.append(rev)
        for op in ops:
            self.marks.note(op.key, rev)
            if isinstance(op, Put):
                self.revs[op.key] = rev
            else:
                self.revs.pop(op.key, None)

    def foreign(self, news: Snapshot | Delta) -> str | None:
        """Return a key that somebody else changed; None if all of it is ours or known."""
        if isinstance(news, Snapshot):
            puts: Iterable[Entry] = news.entries.values()
            gone: Iterable[str] = [key for key in self.revs if key not in news.entries]
        else:
            puts, gone = news.puts, news.deletes
        culprit = next((entry.key for entry in puts if self._is_foreign(entry)), None)
        if culprit is None:
            # what was put again later than these news reach is not gone
            culprit = next((key for key in gone if 0 < self.revs.get(key, 0) <= news.rev), None)
        self._since = max(self._since, news.rev)
        while self._ours_in_order and self._ours_in_order[0] <= self._since:
            self._ours.discard(self._ours_in_order.popleft())
        return culprit

    def _is_foreign(self, entry: Entry) -> bool:
        return (
            entry.rev not in self._ours
            and entry.rev > self._since
            and self.revs.get(entry.key, 0) < entry.rev
            and codec.is_leaders(entry.key)
        )
