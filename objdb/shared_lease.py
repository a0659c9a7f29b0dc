"""A lease under which several keys are kept; granted anew once it has ended.

A host has several registrations that live and end together: one lease, and one renewal for it,
is enough for all of them.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from objdb.api import Backend, Lease


class SharedLease:
    """A lease of `ttl` seconds for those who use it; revoked when the last of them ends."""

    def __init__(self, backend: Backend, ttl: float) -> None:
        self._backend = backend
        self._ttl = ttl
        self._lease: Lease | None = None
        self._users = 0
        self._granting = asyncio.Lock()
        self.losses = 0
        """How often a lease was lost."""

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        """Use the lease during the body; the end of the last use revokes it."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users and self._lease is not None:
                lease, self._lease = self._lease, None
                await lease.revoke()

    async def held(self) -> Lease:
        """Return the lease, a new one if there is none. Raises StoreUnavailable."""
        async with self._granting:
            if self._lease is None:
                self._lease = await self._backend.lease(self._ttl)
            return self._lease

    async def lost(self, lease: Lease) -> None:
        """Give up a lease that has ended, so that the next `held` returns another one."""
        if lease is self._lease:
            self._lease = None
            self.losses += 1
            await lease.revoke()


def holds(lease: Lease) -> bool:
    """Return whether a lease is certainly valid."""
    return time.monotonic() < lease.valid_until
