"""The lock of the memory store: like etcd's, a key created only if absent, under a lease."""

import asyncio

from core.tasks import background
from objdb.api import Change, Fence, Put
from objdb.memory.faults import Faults
from objdb.memory.leases import MemoryLease
from objdb.memory.store import MemoryStore


class MemoryLock:
    """A `Lock`."""

    def __init__(self, store: MemoryStore, key: str, holder: str, ttl: float) -> None:
        self._store = store
        self._key = key
        self._holder = holder
        self._ttl = ttl
        self.lease: MemoryLease | None = None
        self._fence: Fence | None = None

    @property
    def valid_until(self) -> float:
        """Monotonic time until which this client certainly holds the lock; 0.0 if it does not."""
        return self.lease.valid_until if self.lease is not None and self._fence else 0.0

    async def acquire(self) -> Fence:
        """Wait until this client holds the lock; return the fence for commits."""
        await self.release()
        while self._store.created(self._key):
            await self._changed(self._store.created(self._key))
        self.lease = MemoryLease(self._ttl, self._store.drop)
        put = Put(self._key, self._holder.encode(), self.lease)
        self._store.apply([Change((), (put,))])
        self._fence = Fence(self._key, self._store.created(self._key))
        return self._fence

    async def lost(self) -> None:
        """Return when this client has lost the lock (not for `release`)."""
        lease, fence = self.lease, self._fence
        if lease is None or fence is None:
            return
        async with (
            background("lock lease", lease.lost()) as ended,
            background("lock key", self._changed(int(fence.token))) as taken,
        ):
            await asyncio.wait((ended, taken), return_when=asyncio.FIRST_COMPLETED)
        if self._fence is fence:
            self._fence = None

    async def release(self) -> None:
        """Release the lock."""
        self._fence = None
        if self.lease is not None:
            await self.lease.revoke()

    async def holder(self) -> str | None:
        """Return the current holder's text; None if the lock is free."""
        entry = self._store.get(self._key)
        return None if entry is None else entry.value.decode()

    async def _changed(self, created: int) -> None:
        """Return when the key is not the one created at a revision."""
        reader = self._store.subscribe(self._key, Faults())
        try:
            while self._store.created(self._key) == created:
                await reader.next()
        finally:
            self._store.unsubscribe(reader)
