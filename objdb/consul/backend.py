"""The consul backend: implements `objdb.api.Backend` with the other modules of this package.

Create it inside a running event loop (aiohttp's sessions belong to it). It sends nothing before the
first call.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from core import keys
from objdb.access import StoreAccess
from objdb.api import (
    Change,
    Delta,
    Entry,
    Fence,
    Keep,
    Lease,
    Limits,
    Lock,
    Outcome,
    Parts,
    Snapshot,
    StoreCondition,
    keep_all,
    kept,
)
from objdb.consul.agents import ConsulAgents
from objdb.consul.commit import ConsulCommitter
from objdb.consul.leases import ConsulLeases
from objdb.consul.locks import ConsulLock
from objdb.consul.operations import LIMITS
from objdb.consul.reading import ConsulReader
from objdb.failover import BUDGET


class ConsulBackend:
    """One consul cluster; a `Backend`."""

    limits: Limits = LIMITS
    incremental: bool = False

    def __init__(self, access: StoreAccess, *, budget: float = BUDGET) -> None:
        self._agents = ConsulAgents(access, budget=budget)
        self._reader = ConsulReader(self._agents)
        self._committer = ConsulCommitter(self._agents, self._reader)
        self._leases = ConsulLeases(self._agents)

    async def get(self, key: str) -> Entry | None:
        """Return the key as of now (linearizable); None if absent."""
        return await self._reader.get(key)

    async def snapshot(self, prefix: str, keep: Keep = keep_all) -> Snapshot:
        """Return everything under the prefix that passes `keep`, at one revision."""
        return kept(await self._reader.snapshot(prefix), keep)

    async def commit(
        self, changes: Sequence[Change], *, fence: Fence | None = None, writer: str | None = None
    ) -> list[Outcome]:
        """Apply changes and return one outcome for each, in order."""
        marker = None if writer is None else keys.commit(writer)
        return await self._committer.commit(changes, fence, marker)

    def watch(
        self,
        prefix: str,
        *,
        every_revision: bool = False,  # noqa: ARG002 - there is no history
        parts: Parts | None = None,
    ) -> AsyncIterator[Snapshot | Delta]:
        """Yield a Snapshot, then Deltas, and another Snapshot whenever events were lost."""
        return self._reader.stream(prefix, parts)

    async def lease(self, ttl: float) -> Lease:
        """Return a new lease, renewed until revoked or lost."""
        return await self._leases.grant(ttl)

    def lock(self, name: str, holder: str, ttl: float) -> Lock:
        """Return the lock whose key is `name`."""
        return ConsulLock(
            self._agents, self._leases, self._reader, key=name, holder=holder, ttl=ttl
        )

    async def compact_history(
        self,
        older_than: float,  # noqa: ARG002 - there is no history
        now: Callable[[], float],  # noqa: ARG002 - likewise
    ) -> None:
        """Wait until cancelled: consul keeps no history."""
        await asyncio.Event().wait()

    def trouble(self) -> str:
        """Return why the last call has no answer yet; "" if it has one."""
        return self._agents.trouble

    async def check_room(self) -> None:
        """Return at once: consul has no limit of its own."""

    async def condition(self) -> StoreCondition:
        """Return nothing: consul says none of it."""
        return StoreCondition()

    async def close(self) -> None:
        """Stop renewals and watches and close connections."""
        await self._leases.stop()
        await self._agents.close()
