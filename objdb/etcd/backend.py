"""The etcd backend: implements `objdb.api.Backend` with the other modules of this package.

Create it inside a running event loop (gRPC's channels belong to it). It sends nothing before the
first call.
"""

from collections.abc import AsyncIterator, Callable, Sequence

from aetcd import rpc

from core import keys
from core.errors import StoreFull
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
)
from objdb.etcd.channel import Channels
from objdb.etcd.commit import LIMITS, EtcdCommitter, entry
from objdb.etcd.compaction import compact_history
from objdb.etcd.grpc_errors import ALARM, CORRUPT, FULL, NOSPACE
from objdb.etcd.leases import EtcdLeases
from objdb.etcd.locks import EtcdLock
from objdb.etcd.watching import PAGE, EtcdWatcher
from objdb.failover import BUDGET


class EtcdBackend:
    """One etcd cluster; a `Backend`."""

    limits: Limits = LIMITS
    incremental: bool = True

    def __init__(self, access: StoreAccess, *, budget: float = BUDGET, page: int = PAGE) -> None:
        self._channels = Channels(access, budget=budget)
        self._committer = EtcdCommitter(self._channels)
        self._watcher = EtcdWatcher(self._channels, page=page)
        self._leases = EtcdLeases(self._channels)

    async def get(self, key: str) -> Entry | None:
        """Return the key as of now (linearizable); None if absent."""
        answer = await self._channels.call(
            lambda member: member.kv.Range, rpc.RangeRequest(key=key.encode())
        )
        return entry(answer.kvs[0] if answer.kvs else None)

    async def snapshot(self, prefix: str, keep: Keep = keep_all) -> Snapshot:
        """Return everything under the prefix that passes `keep`, at one revision."""
        return await self._watcher.snapshot(prefix, keep)

    async def commit(
        self, changes: Sequence[Change], *, fence: Fence | None = None, writer: str | None = None
    ) -> list[Outcome]:
        """Apply changes and return one outcome for each, in order."""
        marker = None if writer is None else keys.commit(writer)
        return await self._committer.commit(changes, fence, marker)

    def watch(
        self, prefix: str, *, every_revision: bool = False, parts: Parts | None = None
    ) -> AsyncIterator[Snapshot | Delta]:
        """Yield a Snapshot, then Deltas, and another Snapshot whenever events were lost."""
        return self._watcher.stream(prefix, every_revision=every_revision, parts=parts)

    async def lease(self, ttl: float) -> Lease:
        """Return a new lease, renewed until revoked or lost."""
        return await self._leases.grant(ttl)

    def lock(self, name: str, holder: str, ttl: float) -> Lock:
        """Return the lock whose key is `name`."""
        return EtcdLock(
            self._channels, self._leases, self._watcher, key=name, holder=holder, ttl=ttl
        )

    async def compact_history(self, older_than: float, now: Callable[[], float]) -> None:
        """Delete revisions older than so many seconds, repeatedly, until cancelled."""
        await compact_history(self._channels, self._committer, older_than, now)

    def trouble(self) -> str:
        """Return why the last call has no answer yet; "" if it has one."""
        return self._channels.trouble

    async def check_room(self) -> None:
        """Return if no member has raised the alarm NOSPACE. Raises StoreFull."""
        if (await self.condition()).alarms[NOSPACE]:
            raise StoreFull(FULL)

    async def condition(self) -> StoreCondition:
        """Return the size of the member that answers, and the alarms of all."""
        status = await self._channels.call(
            lambda member: member.maintenance.Status, rpc.StatusRequest()
        )
        raised = " ".join(status.errors)
        return StoreCondition(
            size=status.dbSize,
            used=status.dbSizeInUse,
            alarms={name: f"{ALARM}{name.upper()}" in raised for name in (NOSPACE, CORRUPT)},
        )

    async def close(self) -> None:
        """Stop renewals and watches and close connections."""
        await self._leases.stop()
        await self._channels.close()
