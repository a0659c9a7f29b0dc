"""Snapshots and watches of etcd: every change once, in order, over any reconnect.

A watch resumes behind the last event it has given out. A member that does not answer the heartbeat
is left for the next. Where history has been compacted away, another snapshot says so. Progress
answers are a heartbeat alone: they can overtake events (docs/notes/stores.md §1.5).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
from aetcd import rpc

from core.errors import StoreDenied, StoreUnavailable
from core.logs import fields
from core.tasks import background, backoff
from objdb.api import Delta, Entry, Snapshot
from objdb.etcd.channel import Channels, EtcdMember
from objdb.etcd.errors import detail, is_stale_token, is_transient, translated

log = logging.getLogger(__name__)

PAGE: Final = 20_000
"""Keys in one answer. For each answer etcd counts all keys of the range, however few it holds."""

PAGE_ATTEMPT: Final = 5.0
BEAT: Final = 1.0
"""Seconds between heartbeats."""

PATIENCE: Final = 3
"""Heartbeats without an answer after which a member is left."""

REQUIRE_LEADER: Final = ("hasleader", "true")
"""Makes a member that has lost its cluster end the watch instead of keeping silent."""

_DELETE: Final = rpc.Event.DELETE
_EOF: Final = grpc.aio.EOF  # type: ignore[attr-defined]  # missing in the stubs


class Compacted(Exception):
    """The history a watch was to resume from is gone."""


class _Cut(Exception):
    """The stream broke; another one goes on where it ended."""


class _Refused(Exception):
    """The store refused the watch: an old token, or no right to these keys."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """One key, or everything under a prefix."""

    key: bytes
    end: bytes = b""

    @classmethod
    def under(cls, prefix: str) -> "KeyRange":
        """Return the range of all keys that start with a prefix, which ends with "/"."""
        raw = prefix.encode()
        return cls(raw, raw[:-1] + bytes([raw[-1] + 1]))


class Watching:
    """Reads and follows key ranges of one cluster."""

    def __init__(self, channels: Channels, *, beat: float = BEAT) -> None:
        self._channels = channels
        self._beat = beat

    async def snapshot(self, prefix: str) -> Snapshot:
        """Return everything under a prefix at one revision, read in pages."""
        while True:
            try:
                return await self._pages(prefix)
            except Compacted:
                log.debug("compacted while reading", extra=fields(key=prefix))

    async def stream(self, prefix: str) -> AsyncIterator[Snapshot | Delta]:
        """Yield as `Backend.watch` promises."""
        keys = KeyRange.under(prefix)
        for delay in backoff(0.02, 0.5):
            if self._channels.closed:
                return
            try:
                snapshot = await self.snapshot(prefix)
            except StoreUnavailable as exc:
                log.warning("store away, waiting", extra=fields(key=prefix, error=str(exc)))
                await asyncio.sleep(delay)
                continue
            yield snapshot
            try:
                async with aclosing(self.changes(keys, snapshot.rev)) as changes:
                    async for events in changes:
                        yield delta(events)
            except Compacted:
                log.info("watch resumes with a snapshot", extra=fields(key=prefix))

    async def changes(self, keys: KeyRange, rev: int) -> AsyncGenerator[list[Any], None]:
        """Yield the events behind a revision, whole revisions at a time, until closed.

        Raises Compacted when that history is gone, StoreDenied when refused.
        """
        delays, refused = backoff(0.02, 1.0), False
        while not self._channels.closed:
            member = self._channels.current
            try:
                # not rev + 1: etcd drops the deletes of a revision that is compacted before
                # they were sent, and does not say so (etcd-io/etcd#18089)
                async with self._opened(member, keys, rev) as call:
                    while True:
                        response = await self._read(call)
                        delays, refused = backoff(0.02, 1.0), False
                        events = [e for e in response.events if e.kv.mod_revision > rev]
                        if events:
                            rev = events[-1].kv.mod_revision
                            yield events
            except _Refused as exc:
                await self._authenticate_again(exc, refused=refused)
                refused = True
                continue
            except (_Cut, StoreUnavailable) as exc:
                log.debug("watch cut", extra=fields(peer=member.address, error=str(exc)))
            except asyncio.CancelledError:
                if self._channels.interrupted():
                    return
                raise
            self._channels.rotate(member)
            await asyncio.sleep(next(delays))

    async def _pages(self, prefix: str) -> Snapshot:
        keys, rev = KeyRange.under(prefix), 0
        entries: dict[str, Entry] = {}
        start = keys.key
        while True:
            request = rpc.RangeRequest(key=start, range_end=keys.end, limit=PAGE, revision=rev)
            try:
                page = await self._channels.call(
                    lambda member: member.kv.Range, request, attempt=PAGE_ATTEMPT
                )
            except StoreUnavailable as exc:
                if _is_compaction(exc.__cause__):
                    raise Compacted from exc
                raise
            rev = rev or page.header.revision  # later headers show the newest revision
            for kv in page.kvs:
                key = _text(kv.key)
                entries[key] = Entry(key, kv.value, kv.mod_revision)
            if not page.more:
                return Snapshot(rev, entries)
            start = page.kvs[-1].key + b"\0"

    @asynccontextmanager
    async def _opened(self, member: EtcdMember, keys: KeyRange, start: int) -> AsyncIterator[Any]:
        """Open a watch on a member; a stream that breaks ends it with _Cut or _Refused."""
        metadata = await self._channels.metadata()
        call = member.watch.Watch(metadata=(*metadata, REQUIRE_LEADER))
        create = rpc.WatchCreateRequest(key=keys.key, range_end=keys.end, start_revision=start)
        try:
            async with asyncio.timeout(PATIENCE * self._beat):
                await call.write(rpc.WatchRequest(create_request=create))
            async with background("watch heartbeat", self._knock(call)):
                yield call
        except grpc.aio.AioRpcError as exc:
            if is_stale_token(exc):
                raise _Refused(detail(exc)) from exc
            if not is_transient(exc):
                raise translated(exc) from exc
            raise _Cut(detail(exc)) from exc
        except (TimeoutError, asyncio.InvalidStateError) as exc:
            raise _Cut(f"silent: {exc}") from exc
        finally:
            call.cancel()

    async def _read(self, call: Any) -> Any:
        async with asyncio.timeout(PATIENCE * self._beat):
            response = await call.read()
        if response is _EOF:
            raise _Cut("ended")
        if not response.canceled:
            return response
        if response.compact_revision:
            raise Compacted
        if "permission" in response.cancel_reason or "auth" in response.cancel_reason:
            raise _Refused(response.cancel_reason)
        raise _Cut(response.cancel_reason)

    async def _knock(self, call: Any) -> None:
        request = rpc.WatchRequest(progress_request=rpc.WatchProgressRequest())
        try:
            while True:
                await asyncio.sleep(self._beat)
                await call.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the reader sees the same end

    async def _authenticate_again(self, refusal: "_Refused", *, refused: bool) -> None:
        """Get a new token: etcd refuses a watch alike for an old one and for a missing right."""
        if refused or self._channels.access.credentials is None:
            raise StoreDenied(f"store: {refusal}") from refusal
        try:
            await self._channels.authenticate(stale=self._channels.last_metadata)
        except StoreUnavailable as exc:
            log.debug("no new token yet", extra=fields(error=str(exc)))


def delta(events: Iterable[Any]) -> Delta:
    """Return events of whole revisions as a delta: each key once, with its last state."""
    last: dict[str, Entry | None] = {}
    rev = 0
    for event in events:
        rev = event.kv.mod_revision
        key = _text(event.kv.key)
        last[key] = None if event.type == _DELETE else Entry(key, event.kv.value, rev)
    return Delta(
        rev,
        tuple(entry for entry in last.values() if entry is not None),
        tuple(key for key, entry in last.items() if entry is None),
    )


def _text(key: bytes) -> str:
    """Return a key as text; a foreign one that is not UTF-8 stays visible instead of fatal."""
    return key.decode(errors="backslashreplace")


def _is_compaction(exc: BaseException | None) -> bool:
    return isinstance(exc, grpc.aio.AioRpcError) and exc.code() is grpc.StatusCode.OUT_OF_RANGE
