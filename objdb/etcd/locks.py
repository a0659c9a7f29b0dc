"""The lock of etcd: a key that is created only if absent; its create revision is the fence."""

# Why the create revision: each holder creates the key anew, at a higher revision than any before.
# A commit that compares it is refused once the key was deleted or created again, so a process that
# was stopped past its lease cannot write after it wakes up. The key's value, the holder's address,
# would not do: the same process may hold the lock in two terms.
#
# Why the lease resolves a lost answer: no other client has our lease id. A key that is attached to
# our lease was created by our request, even if its answer never came.

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final

from aetcd import rpc

from core.errors import StoreUnavailable
from core.retry import REMOTE, STORE, Loop, retry
from objdb.api import Fence
from objdb.etcd.channel import Channels
from objdb.etcd.history import HistoryLost, WatchPosition
from objdb.etcd.leases import EtcdLease, EtcdLeases
from objdb.etcd.watching import EtcdWatcher, KeyRange
from objdb.failover import Retry
from objdb.keepalive import REVOKE_BUDGET
from objdb.locking import KeyLock

log = logging.getLogger(__name__)

_DELETE: Final = rpc.Event.DELETE
_Compare = rpc.Compare


class EtcdLock(KeyLock[EtcdLease]):
    """A lock of etcd; a `Lock`."""

    def __init__(
        self,
        channels: Channels,
        leases: EtcdLeases,
        watcher: EtcdWatcher,
        *,
        key: str,
        holder: str,
        ttl: float,
    ) -> None:
        super().__init__(leases.grant, key=key, holder=holder, ttl=ttl)
        self._channels = channels
        self._watcher = watcher

    async def holder(self) -> str | None:
        """Return the current holder's text from the store; None if the lock is free."""
        answer = await self._read()
        return answer.kvs[0].value.decode() if answer.kvs else None

    async def try_lock(self, lease: EtcdLease) -> Fence | int:
        """Create the key; if another client holds it, return the revision of that answer."""
        put = rpc.PutRequest(key=self._raw, value=self._holder.encode(), lease=lease.id)
        answer = await self._channels.call(
            lambda member: member.kv.Txn,
            rpc.TxnRequest(
                compare=[self._created(0)],
                success=[rpc.RequestOp(request_put=put)],
                failure=[rpc.RequestOp(request_range=rpc.RangeRequest(key=self._raw))],
            ),
            Retry.READ,  # a second copy finds the key with our lease
        )
        rev = int(answer.header.revision)
        if answer.succeeded:
            return Fence(self._key, rev)
        found = answer.responses[0].response_range.kvs
        if found and found[0].lease == lease.id:
            return Fence(self._key, int(found[0].create_revision))
        return rev

    async def wait_until_free(self, since: int | str) -> None:
        """Return when the key may have been deleted after a revision."""
        async with aclosing(self._events(int(since))) as events:
            async for event in events:
                if event.type == _DELETE:
                    return

    async def wait_until_lost(self, fence: Fence) -> None:
        """Return when the key is not the one that was created at the fence's revision."""
        # An outage is no loss: `KeyLock.lost` also waits for the lease, which bounds it.
        loop = Loop(
            log,
            "lock not watched, store unavailable",
            about=self._key,
            pace=STORE,
            errors=StoreUnavailable,
            patience=REMOTE,
        )
        while True:
            answer = await retry(loop, self._read)
            if not answer.kvs or answer.kvs[0].create_revision != fence.token:
                return
            async with aclosing(self._events(answer.header.revision)) as events:
                async for event in events:
                    if event.type == _DELETE or event.kv.create_revision != fence.token:
                        return

    async def unlock(self, fence: Fence) -> None:
        """Delete the key if it is still the one of the fence."""
        with suppress(StoreUnavailable):  # the lease expires
            await self._channels.call(
                lambda member: member.kv.Txn,
                rpc.TxnRequest(
                    compare=[self._created(fence.token)],
                    success=[
                        rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=self._raw))
                    ],
                ),
                Retry.REPEAT,
                budget=REVOKE_BUDGET,
            )

    @property
    def _raw(self) -> bytes:
        return self._key.encode()

    async def _events(self, rev: int) -> AsyncGenerator[Any, None]:
        """Yield the key's events after a revision; ends after a cut: the key is read again then."""
        # A position without evidence is not resumed. Reading one key is as cheap as verifying it.
        with suppress(HistoryLost):
            at = WatchPosition(rev)
            async with aclosing(self._watcher.changes(KeyRange(self._raw), at)) as changes:
                async for batch in changes:
                    for event in batch:
                        yield event

    async def _read(self) -> Any:
        return await self._channels.call(
            lambda member: member.kv.Range, rpc.RangeRequest(key=self._raw)
        )

    def _created(self, rev: int | str) -> Any:
        return _Compare(
            target=_Compare.CREATE, result=_Compare.EQUAL, key=self._raw, create_revision=rev
        )
