"""A lock: a key that exists under a lease of its holder's; what stores do alike.

`acquire` takes a lease and tries again and again, `lost` waits for the lease's end or the key's.
How the key is taken, watched and given back is the backend's business.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from core.errors import StoreUnavailable
from core.logs import fields
from core.tasks import background, backoff
from objdb.api import Fence
from objdb.keepalive import KeptLease

log = logging.getLogger(__name__)

L = TypeVar("L", bound=KeptLease)


class KeyLock(ABC, Generic[L]):
    """A `Lock`; `grant` gives a lease of so many seconds."""

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
        """Monotonic time until which the lock is certainly ours; 0.0 while it is not."""
        return self._lease.valid_until if self._lease is not None and self._fence else 0.0

    async def acquire(self) -> Fence:
        """Wait until the lock is ours and return the fence for commits."""
        await self._give_up_lease()
        self._fence = None
        delays = backoff(0.02, 0.5)
        try:
            while True:
                try:
                    self._fence = await self._attempt()
                except StoreUnavailable as exc:
                    log.warning("lock: store away", extra=fields(key=self._key, error=str(exc)))
                    await asyncio.sleep(next(delays))
                    continue
                if self._fence is not None:
                    return self._fence
        finally:
            if self._fence is None:
                await self._give_up_lease()

    async def lost(self) -> None:
        """Return when the lock is no longer ours (not for `release`)."""
        lease, fence = self._lease, self._fence
        if lease is None or fence is None:
            return
        async with (
            background("lock lease", lease.lost()) as ended,
            background("lock key", self.taken(fence)) as taken,
        ):
            await asyncio.wait((ended, taken), return_when=asyncio.FIRST_COMPLETED)
        if self._fence is fence:
            self._fence = None

    async def release(self) -> None:
        """Give the lock up at once; a waiter gets it without waiting for the lease to end."""
        fence, self._fence = self._fence, None
        if fence is not None:
            await self.give_back(fence)
        await self._give_up_lease()

    @abstractmethod
    async def holder(self) -> str | None:
        """Return the holder's text as the store has it now; None if nobody holds the lock."""

    @abstractmethod
    async def take(self, lease: L) -> Fence | int | str:
        """Take the key under a lease; if it is another's, say where to wait from (for `gone`)."""

    @abstractmethod
    async def gone(self, since: int | str) -> None:
        """Return when the key may be free after the moment that `take` named."""

    @abstractmethod
    async def taken(self, fence: Fence) -> None:
        """Return when the key is certainly not ours any more; outages are waited out."""

    @abstractmethod
    async def give_back(self, fence: Fence) -> None:
        """Free the key if it is still ours; best effort."""

    async def _attempt(self) -> Fence | None:
        """Take the key, or wait until it may be free."""
        if self._lease is None or time.monotonic() >= self._lease.valid_until:
            await self._give_up_lease()
            self._lease = await self._grant(self._ttl)
        lease = self._lease
        found = await self.take(lease)
        if isinstance(found, Fence):
            return found
        async with (
            background("lock lease", lease.lost()) as ended,
            background("lock key", self.gone(found)) as gone,
        ):
            await asyncio.wait((ended, gone), return_when=asyncio.FIRST_COMPLETED)
        return None

    async def _give_up_lease(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.revoke()
