"""The lock: a key created only if absent, under a lease; its create revision is the fence.

A fenced commit compares that revision, so a holder that was stopped past its lease and woken
cannot write any more, whatever it believes. A lost answer to the create is no riddle: if the key
names our lease, it is ours.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final

from aetcd import rpc

from core.errors import StoreUnavailable
from core.logs import fields
from core.tasks import background, backoff
from objdb.api import Fence
from objdb.etcd.channel import Channels, Retry
from objdb.etcd.leases import PARTING, EtcdLease, Leases
from objdb.etcd.watching import Compacted, KeyRange, Watching

log = logging.getLogger(__name__)

_DELETE: Final = rpc.Event.DELETE
_Compare = rpc.Compare


class EtcdLock:
    """A lock of etcd; a `Lock`."""

    def __init__(
        self,
        channels: Channels,
        leases: Leases,
        watching: Watching,
        *,
        key: str,
        holder: str,
        ttl: float,
    ) -> None:
        self._channels = channels
        self._leases = leases
        self._watching = watching
        self._key = key
        self._holder = holder
        self._ttl = ttl
        self._lease: EtcdLease | None = None
        self._fence: Fence | None = None

    @property
    def valid_until(self) -> float:
        """Monotonic time until which the lock is certainly ours; 0.0 while it is not."""
        return self._lease.valid_until if self._lease is not None and self._fence else 0.0

    async def acquire(self) -> Fence:
        """Wait until the lock is ours and return the fence for commits."""
        await self._give_up_lease()
        delays = backoff(0.02, 0.5)
        try:
            while True:
                try:
                    token = await self._attempt()
                except StoreUnavailable as exc:
                    log.warning("lock: store away", extra=fields(key=self._key, error=str(exc)))
                    await asyncio.sleep(next(delays))
                    continue
                if token is not None:
                    self._fence = Fence(self._key, token)
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
            background("lock key", self._taken(fence)) as taken,
        ):
            await asyncio.wait((ended, taken), return_when=asyncio.FIRST_COMPLETED)
        if self._fence is fence:
            self._fence = None

    async def release(self) -> None:
        """Give the lock up at once; a waiter gets it without waiting for the lease to end."""
        fence, self._fence = self._fence, None
        if fence is not None:
            with suppress(StoreUnavailable):  # the lease ends by itself
                await self._channels.call(
                    lambda member: member.kv.Txn,
                    rpc.TxnRequest(
                        compare=[self._created(fence.token)],
                        success=[
                            rpc.RequestOp(
                                request_delete_range=rpc.DeleteRangeRequest(key=self._raw)
                            )
                        ],
                    ),
                    Retry.REPEAT,
                    budget=PARTING,
                )
        await self._give_up_lease()

    async def holder(self) -> str | None:
        """Return the holder's text as the store has it now; None if nobody holds the lock."""
        answer = await self._read()
        return answer.kvs[0].value.decode() if answer.kvs else None

    @property
    def _raw(self) -> bytes:
        return self._key.encode()

    async def _attempt(self) -> int | None:
        """Create the key, or wait until it may be gone; return its create revision if ours."""
        if self._lease is None or time.monotonic() >= self._lease.valid_until:
            await self._give_up_lease()
            self._lease = await self._leases.grant(self._ttl)
        lease = self._lease
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
        if answer.succeeded:
            return int(answer.header.revision)
        found = answer.responses[0].response_range.kvs
        if not found:
            return None
        if found[0].lease == lease.id:
            return int(found[0].create_revision)
        async with (
            background("lock lease", lease.lost()) as ended,
            background("lock key", self._gone(answer.header.revision)) as gone,
        ):
            await asyncio.wait((ended, gone), return_when=asyncio.FIRST_COMPLETED)
        return None

    async def _gone(self, rev: int) -> None:
        """Return when the key may have been deleted after a revision."""
        async with aclosing(self._events(rev)) as events:
            async for event in events:
                if event.type == _DELETE:
                    return

    async def _taken(self, fence: Fence) -> None:
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

    async def _give_up_lease(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.revoke()
