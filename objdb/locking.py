"""A lock: a key that exists under a lease of its holder; the part that etcd and consul share.

`acquire` takes a lease and tries until it holds the key; `lost` waits for the end of the lease or
of the key. The backend takes, watches and releases the key.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from core.errors import StoreUnavailable
from core.retry import REMOTE, Loop, Pace, retry
from core.tasks import background
from objdb.api import Fence
from objdb.keepalive import RenewedLease

log = logging.getLogger(__name__)

# A lock does not prove that its holder is alone. A process may be stopped right after it checked
# `valid_until`, wake up when another holds the lock, and send a commit. Two things make that safe:
#
# * The holder stops by itself when the validity of its lease ends, which is before the store drops
#   the lease (objdb.keepalive). So two holders normally do not overlap.
# * Every commit that relies on the lock carries its `Fence`, which the store compares with the key
#   in the same transaction. This is what guarantees safety; the lease only bounds the waiting.

L = TypeVar("L", bound=RenewedLease)


class KeyLock(ABC, Generic[L]):
    """A `Lock`; `grant` returns a new lease of so many seconds."""

    def __init__(
        self, grant: Callable[[float], Awaitable[L]], *, key: str, holder: str, ttl: float
    ) -> None:
        self._grant = grant
        self._key = key
        self._holder = holder
        self._ttl = ttl
        self._lease: L | None = None
        self._fence: Fence | None = None

    @property
    def valid_until(self) -> float:
        """Monotonic time until which this client certainly holds the lock; 0.0 if it does not."""
        return self._lease.valid_until if self._lease is not None and self._fence else 0.0

    async def acquire(self) -> Fence:
        """Wait until this client holds the lock; return the fence for commits."""
        # Each term has a lease of its own. The key of an earlier term, if it still exists, ends
        # with the earlier lease and cannot be taken for the new one.
        await self._drop_lease()
        self._fence = None
        loop = Loop(
            log,
            "lock not taken, store unavailable",
            about=self._key,
            pace=Pace(0.02, 0.5),
            errors=StoreUnavailable,
            patience=REMOTE,
        )
        try:
            while self._fence is None:
                self._fence = await retry(loop, partial(self._attempt, loop))
            return self._fence
        finally:
            if self._fence is None:
                await self._drop_lease()

    async def lost(self) -> None:
        """Return when this client has lost the lock (not for `release`)."""
        lease, fence = self._lease, self._fence
        if lease is None or fence is None:
            return
        async with (
            background("lock lease", lease.lost()) as ended,
            background("lock key", self.wait_until_lost(fence)) as taken,
        ):
            await asyncio.wait((ended, taken), return_when=asyncio.FIRST_COMPLETED)
        if self._fence is fence:
            self._fence = None

    async def release(self) -> None:
        """Release the lock; a waiting client gets it without waiting for the lease to expire."""
        fence, self._fence = self._fence, None
        if fence is not None:
            await self.unlock(fence)
        await self._drop_lease()

    @abstractmethod
    async def holder(self) -> str | None:
        """Return the current holder's text from the store; None if the lock is free."""

    @abstractmethod
    async def try_lock(self, lease: L) -> Fence | int | str:
        """Take the key under a lease; if it is held, return a position for `wait_until_free`."""

    @abstractmethod
    async def wait_until_free(self, since: int | str) -> None:
        """Return when the key may be free, after the position that `try_lock` returned."""

    @abstractmethod
    async def wait_until_lost(self, fence: Fence) -> None:
        """Return when this client certainly does not hold the key; continues after outages."""

    @abstractmethod
    async def unlock(self, fence: Fence) -> None:
        """Free the key if this client still holds it; best effort."""

    async def _attempt(self, loop: Loop) -> Fence | None:
        """Take the key, or wait until it may be free."""
        if self._lease is None or time.monotonic() >= self._lease.valid_until:
            await self._drop_lease()
            self._lease = await self._grant(self._ttl)
        lease = self._lease
        found = await self.try_lock(lease)
        loop.works()
        if isinstance(found, Fence):
            return found
        # The wait starts at the position that `try_lock` returned, so a release between that
        # answer and the start of the watch is not missed.
        async with (
            background("lock lease", lease.lost()) as ended,
            background("lock key", self.wait_until_free(found)) as free,
        ):
            await asyncio.wait((ended, free), return_when=asyncio.FIRST_COMPLETED)
        return None

    async def _drop_lease(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.revoke()
