"""Leases of the memory store: valid until revoked, expired by a test, or no longer renewed."""

import asyncio
import time
from collections.abc import Callable


class MemoryLease:
    """A `Lease`; `on_end` deletes its keys."""

    def __init__(self, ttl: float, on_end: Callable[["MemoryLease"], None]) -> None:
        self._ttl = ttl
        self._on_end = on_end
        self._ended = asyncio.Event()
        self._until: float | None = None

    @property
    def ttl(self) -> float:
        """Seconds the store waits for a renewal before it drops the lease."""
        return self._ttl

    @property
    def ended(self) -> bool:
        """Whether the lease has ended."""
        return self._ended.is_set()

    @property
    def valid_until(self) -> float:
        """Monotonic time until which the lease certainly holds; 0.0 once it has ended."""
        if self.ended:
            return 0.0
        return time.monotonic() + self._ttl if self._until is None else self._until

    async def lost(self) -> None:
        """Return when the lease has ended."""
        await self._ended.wait()

    async def revoke(self) -> None:
        """End the lease now, which deletes its keys."""
        self.expire()

    def expire(self) -> None:
        """End the lease as the store would."""
        if not self.ended:
            self._ended.set()
            self._on_end(self)

    def stop_renewing(self) -> None:
        """Stop the renewals: the lease ends after its time to live."""
        if self._until is None and not self.ended:
            self._until = time.monotonic() + self._ttl
            asyncio.get_running_loop().call_later(self._ttl, self.expire)
