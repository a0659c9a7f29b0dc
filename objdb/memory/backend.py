"""One client of a memory store: an `objdb.api.Backend` with injected faults."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from core.errors import FenceLost, StoreFull, StoreRewound, StoreUnavailable
from objdb.api import (
    Change,
    Delta,
    Entry,
    Fence,
    Keep,
    Limits,
    Outcome,
    Parts,
    Snapshot,
    StoreCondition,
    admit,
    keep_all,
    kept,
)
from objdb.memory.faults import Faults, LostAnswer
from objdb.memory.leases import MemoryLease
from objdb.memory.locks import MemoryLock
from objdb.memory.store import MemoryStore, Reader

LIMITS: Final = Limits(budget=127, bytes=1 << 20)


class MemoryBackend:
    """A `Backend`; clients of one store share a `MemoryStore`."""

    limits: Limits = LIMITS
    incremental: bool = True

    def __init__(self, store: MemoryStore | None = None, faults: Faults | None = None) -> None:
        self.store = store or MemoryStore()
        self.faults = faults or Faults()
        self._closed = False
        self.leases: list[MemoryLease] = []
        """All leases that `lease` has granted; a test ends one with `expire`."""
        self._locks: list[MemoryLock] = []
        self._readers: set[Reader] = set()
        self._histories: dict[str | None, int] = {}
        """The history in which each writer committed last, by its number."""

    async def get(self, key: str) -> Entry | None:
        """Return the key as of now; None if absent."""
        await self._check_reachable()
        return self.store.get(key)

    async def snapshot(self, prefix: str, keep: Keep = keep_all) -> Snapshot:
        """Return everything under the prefix that passes `keep`."""
        await self._check_reachable()
        return kept(self.store.snapshot(prefix), keep)

    async def commit(
        self,
        changes: Sequence[Change],
        *,
        fence: Fence | None = None,
        writer: str | None = None,
    ) -> list[Outcome]:
        """Apply changes and return one outcome for each, in order."""
        admit(changes, LIMITS)
        await self._check_reachable()
        if fence is not None and (
            self.faults.refuse_fences or self.store.created(fence.key) != fence.token
        ):
            raise FenceLost(f"lock {fence.key} has another holder")
        history = self._histories.get(writer, self.store.restores)
        self._histories[writer] = self.store.restores
        if fence is not None and writer is not None and history != self.store.restores:
            raise StoreRewound(f"the store went back: {writer} committed in another history")
        # A lost answer has two cases, and a caller that handles only one of them is wrong: the
        # commit was applied and its answer lost, or it never arrived. Tests run both.
        lost = self.faults.lost_answers.popleft() if self.faults.lost_answers else None
        if lost is LostAnswer.NOT_APPLIED:
            raise StoreUnavailable("answer lost", outcome_unknown=True)
        outcomes = self.store.apply(changes, silent_rewrites=self.faults.silent_rewrites)
        if lost is LostAnswer.APPLIED:
            raise StoreUnavailable("answer lost", outcome_unknown=True)
        return outcomes

    async def watch(
        self,
        prefix: str,
        *,
        every_revision: bool = False,  # noqa: ARG002 - there is no history
        parts: Parts | None = None,
    ) -> AsyncIterator[Snapshot | Delta]:
        """Yield a Snapshot, then Deltas, and another Snapshot whenever events were lost."""
        reader = self.store.subscribe(prefix, self.faults, parts)
        self._readers.add(reader)
        try:
            while (item := await reader.next()) is not None:
                handed = [item]
                del item  # a name that still had it would keep it until the next one
                yield handed.pop()
        finally:
            self._readers.discard(reader)
            self.store.unsubscribe(reader)

    async def lease(self, ttl: float) -> MemoryLease:
        """Return a new lease, renewed until revoked or lost."""
        await self._check_reachable()
        lease = MemoryLease(ttl, self.store.drop)
        self.leases.append(lease)
        return lease

    def lock(self, name: str, holder: str, ttl: float) -> MemoryLock:
        """Return the lock whose key is `name`."""
        lock = MemoryLock(self.store, name, holder, ttl)
        self._locks.append(lock)
        return lock

    async def compact_history(
        self,
        older_than: float,  # noqa: ARG002 - there is no history
        now: Callable[[], float],  # noqa: ARG002 - likewise
    ) -> None:
        """Wait until cancelled: there is no history."""
        await asyncio.Event().wait()

    def trouble(self) -> str:
        """Return nothing: it answers at once, or not at all."""
        return ""

    async def check_room(self) -> None:
        """Return if no test says that the store is full. Raises StoreFull."""
        await self._check_reachable()
        if self.faults.full:
            raise StoreFull("the store is full")

    async def condition(self) -> StoreCondition:
        """Return nothing: there is no file."""
        await self._check_reachable()
        return StoreCondition()

    async def close(self) -> None:
        """Stop renewals and watches. Leases then expire."""
        self._closed = True
        self.faults.reachable.set()
        held = [lock.lease for lock in self._locks if lock.lease is not None]
        for lease in (*self.leases, *held):
            lease.stop_renewing()
        for reader in self._readers:
            reader.close()

    async def _check_reachable(self) -> None:
        await asyncio.sleep(self.faults.delay)
        if not self.faults.reachable.is_set() or self._closed:
            raise StoreUnavailable("the store is unavailable")
