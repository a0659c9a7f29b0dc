"""One client of a memory store: `objdb.api.Backend` with its faults."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from core.errors import FenceLost, StoreUnavailable
from objdb.api import (
    Change,
    Delta,
    Entry,
    Fence,
    Limits,
    Outcome,
    Snapshot,
    admit,
)
from objdb.memory.faults import Faults, LostAnswer
from objdb.memory.leases import MemoryLease
from objdb.memory.locks import MemoryLock
from objdb.memory.store import MemoryStore, Reader

LIMITS: Final = Limits(budget=127, bytes=1 << 20)


class MemoryBackend:
    """A `Backend`; clients that are to see each other share a store."""

    limits: Limits = LIMITS

    def __init__(self, store: MemoryStore | None = None, faults: Faults | None = None) -> None:
        self.store = store or MemoryStore()
        self.faults = faults or Faults()
        self._closed = False
        self.leases: list[MemoryLease] = []
        """What `lease` has granted; a test ends one by `expire`."""
        self._locks: list[MemoryLock] = []
        self._readers: set[Reader] = set()

    async def get(self, key: str) -> Entry | None:
        """Return the key as of now; None if absent."""
        await self._serve()
        return self.store.get(key)

    async def snapshot(self, prefix: str) -> Snapshot:
        """Return everything under the prefix."""
        await self._serve()
        return self.store.snapshot(prefix)

    async def commit(
        self,
        changes: Sequence[Change],
        *,
        fence: Fence | None = None,
        writer: str | None = None,  # noqa: ARG002 - an outcome is unknown only where Faults say so
    ) -> list[Outcome]:
        """Apply changes and return one outcome for each, in order."""
        admit(changes, LIMITS)
        await self._serve()
        if fence is not None and (
            self.faults.refuse_fences or self.store.created(fence.key) != fence.token
        ):
            raise FenceLost(f"lock {fence.key} has another holder")
        lost = self.faults.lost_answers.popleft() if self.faults.lost_answers else None
        if lost is LostAnswer.NOT_APPLIED:
            raise StoreUnavailable("answer lost", outcome_unknown=True)
        outcomes = self.store.apply(changes, silent_rewrites=self.faults.silent_rewrites)
        if lost is LostAnswer.APPLIED:
            raise StoreUnavailable("answer lost", outcome_unknown=True)
        return outcomes

    async def watch(self, prefix: str) -> AsyncIterator[Snapshot | Delta]:
        """Yield a Snapshot, then Deltas, and another Snapshot whenever continuity was lost."""
        reader = self.store.follow(prefix, self.faults)
        self._readers.add(reader)
        try:
            while (item := await reader.next()) is not None:
                yield item
        finally:
            self._readers.discard(reader)
            self.store.leave(reader)

    async def lease(self, ttl: float) -> MemoryLease:
        """Return a new lease that keeps itself alive until revoked or lost."""
        await self._serve()
        lease = MemoryLease(ttl, self.store.drop)
        self.leases.append(lease)
        return lease

    def lock(self, name: str, holder: str, ttl: float) -> MemoryLock:
        """Return the lock whose key is `name`."""
        lock = MemoryLock(self.store, name, holder, ttl)
        self._locks.append(lock)
        return lock

    async def forget(self, older_than: float) -> None:  # noqa: ARG002 - there is no history
        """Wait; nothing is kept of the past."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Stop renewals and watches. Leases end by themselves."""
        self._closed = True
        self.faults.reachable.set()
        held = [lock.lease for lock in self._locks if lock.lease is not None]
        for lease in (*self.leases, *held):
            lease.stop_renewing()
        for reader in self._readers:
            reader.close()

    async def _serve(self) -> None:
        await asyncio.sleep(self.faults.delay)
        if not self.faults.reachable.is_set() or self._closed:
            raise StoreUnavailable("the store is away")
