"""The lock of etcd: a key created only if absent; its create revision is the fence.

A fenced commit compares that revision, so a holder that was stopped past its lease and woken
cannot write any more, whatever it believes. A lost answer to the create is no riddle: if the key
names our lease, it is ours.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final

from aetcd import rpc

from core.errors import StoreUnavailable
from core.tasks import backoff
from objdb.api import Fence
from objdb.etcd.channel import Channels
from objdb.etcd.leases import EtcdLease, EtcdLeases
from objdb.etcd.watching import Compacted, KeyRange, Watching
from objdb.failover import Retry
from objdb.keepalive import PARTING
from objdb.locking import KeyLock

_DELETE: Final = rpc.Event.DELETE
_Compare = rpc.Compare


class EtcdLock(KeyLock[EtcdLease]):
    """A lock of etcd; a `Lock`."""

    def __init__(
        self,
        channels: Channels,
        leases: EtcdLeases,
        watching: Watching,
        *,
        key: str,
        holder: str,
        ttl: float,
    ) -> None:
        super().__init__(leases.grant, key=key, holder=holder, ttl=ttl)
        self._channels = channels
        self._watching = watching

    async def holder(self) -> str | None:
        """Return the holder's text as the store has it now; None if nobody holds the lock."""
        answer = await self._read()
        return answer.kvs[0].value.decode() if answer.kvs else None

    async def take(self, lease: EtcdLease) -> Fence | int:
        """Create the key; if it is another's, return the revision at which it was seen."""
        put = rpc.PutRequest(key=self._raw, value=self._holder.encode(), lease=lease.id)
        answer = await self._channels.call(
            lambda member: member.kv.Txn,
            rpc.TxnRequest(
                compare=[self._created(0)],
                success=[rpc.RequestOp(request_put=put)],
                failure=[rpc.RequestOp(request_range=rpc.RangeRequest(key=self._raw))],
            ),
            Retry.READ,  # a second copy finds the key there with our lease
        )
        rev = int(answer.header.revision)
        if answer.succeeded:
            return Fence(self._key, rev)
        found = answer.responses[0].response_range.kvs
        if found and found[0].lease == lease.id:
            return Fence(self._key, int(found[0].create_revision))
        return rev

    async def gone(self, since: int | str) -> None:
        """Return when the key may have been deleted after a revision."""
        async with aclosing(self._events(int(since))) as events:
            async for event in events:
                if event.type == _DELETE:
                    return

    async def taken(self, fence: Fence) -> None:
        """Return when the key is no longer the one that was created at the fence's revision."""
        for delay in backoff(0.02, 0.5):
            try:
                answer = await self._read()
            except StoreUnavailable:
                # the lease tells how long the lock can be relied on
                await asyncio.sleep(delay)
                continue
            if not answer.kvs or answer.kvs[0].create_revision != fence.token:
                return
            async with aclosing(self._events(answer.header.revision)) as events:
                async for event in events:
                    if event.type == _DELETE or event.kv.create_revision != fence.token:
                        return

    async def give_back(self, fence: Fence) -> None:
        """Delete the key if it is still the one of the fence."""
        with suppress(StoreUnavailable):  # the lease ends by itself
            await self._channels.call(
                lambda member: member.kv.Txn,
                rpc.TxnRequest(
                    compare=[self._created(fence.token)],
                    success=[
                        rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=self._raw))
                    ],
                ),
                Retry.REPEAT,
                budget=PARTING,
            )

    @property
    def _raw(self) -> bytes:
        return self._key.encode()

    async def _events(self, rev: int) -> AsyncGenerator[Any, None]:
        """Yield what happens to the key; ends where history is gone."""
        with suppress(Compacted):
            async with aclosing(self._watching.changes(KeyRange(self._raw), rev)) as changes:
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
