"""Snapshots and watches of etcd: every change once, in order, across reconnects.

A watch resumes after the last event that it delivered. A member that does not answer heartbeats is
left for the next one. If the history was compacted, or is another one than before (the store was
restored from a backup), the watch delivers another snapshot.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from aetcd import rpc

from core.errors import StoreUnavailable
from core.logs import fields
from core.patience import patient
from core.retry import REMOTE, STORE, Loop, retry
from core.tasks import background
from objdb.api import Delta, Entry, Keep, Parts, Snapshot, delta_of, keep_all
from objdb.etcd.channel import Channels
from objdb.etcd.grpc_errors import is_about_token, is_out_of_range
from objdb.etcd.history import (
    Compacted,
    Evidence,
    HistoryReader,
    Rewound,
    WatchPosition,
    looks_rewound,
)
from objdb.etcd.watch_stream import HEARTBEAT, StreamBroken, TooSlow, WatchRefused, WatchStreams

log = logging.getLogger(__name__)

# How snapshot and watch are merged: the pages of a snapshot are all read at the revision R of its
# first page, and the watch starts at R. So no change falls between the two, although the pages of
# a large prefix take seconds to read. Events up to R are part of the snapshot and are skipped.
#
# The only record of progress is the revision of the last delivered event. Progress responses have
# a revision too, but they can overtake events (docs/notes/stores.md §1.5): to resume from
# one would lose what it overtook. They serve as heartbeats only.

PAGE: Final = 5_000
"""Keys per page: megabytes here, and for each page etcd counts all remaining keys of the range."""

PAGE_ATTEMPT: Final = patient(5.0)
"""Seconds for one page."""

PART: Final = 500
"""Keys that are collected before other tasks run: some 2 ms."""

_DELETE: Final = rpc.Event.DELETE


@dataclass(frozen=True, slots=True)
class KeyRange:
    """One key, or everything under a prefix."""

    key: bytes
    end: bytes = b""

    @classmethod
    def under(cls, prefix: str) -> "KeyRange":
        """Return the range of all keys that start with a prefix, which ends with ASCII."""
        raw = prefix.encode()
        return cls(raw, raw[:-1] + bytes([raw[-1] + 1]))

    def since(self, rev: int) -> Any:
        """Return the request to watch the range from a revision on."""
        return rpc.WatchCreateRequest(key=self.key, range_end=self.end, start_revision=rev)


class EtcdWatcher:
    """Reads and watches key ranges of one cluster."""

    def __init__(
        self, channels: Channels, *, heartbeat: float = HEARTBEAT, page: int = PAGE
    ) -> None:
        self._channels = channels
        self._page_limit = page
        self._streams = WatchStreams(channels, heartbeat)
        self._history = HistoryReader(channels)

    async def snapshot(self, prefix: str, keep: Keep = keep_all) -> Snapshot:
        """Return everything under a prefix that passes `keep`, at one revision, read in pages."""
        return (await self._snapshot([KeyRange.under(prefix)], keep))[0]

    async def stream(
        self, prefix: str, *, every_revision: bool = False, parts: Parts | None = None
    ) -> AsyncIterator[Snapshot | Delta]:
        """Yield the items of `Backend.watch`."""
        keys, rewound = KeyRange.under(prefix), False
        at: WatchPosition | None = None
        loop = _loop("store unavailable", prefix)

        async def read() -> tuple[Snapshot, WatchPosition] | None:
            return None if self._channels.closed else await self._snapshot(_ranges(prefix, parts))

        while (found := await retry(loop, read)) is not None:
            snapshot, read_at = found
            if at is not None and (read_at.cluster != at.cluster or snapshot.rev < at.rev):
                rewound = True
            # Megabytes: a name that still had it would keep it until the next one, which may
            # never come.
            handed = [replace(snapshot, rewound=rewound)]
            del found, snapshot
            yield handed.pop()
            at, rewound = read_at, False
            try:
                async with aclosing(self.changes(keys, at)) as changes:
                    async for events in changes:
                        for part in _revisions(events) if every_revision else (events,):
                            yield delta(part)
            except Compacted:
                log.info(
                    "watched history compacted, reading all keys anew", extra=fields(key=prefix)
                )
            except Rewound:
                log.warning("store went back, reading all keys anew", extra=fields(key=prefix))
                rewound = True

    async def changes(self, keys: KeyRange, at: WatchPosition) -> AsyncGenerator[list[Any], None]:
        """Yield the events after a position, in lists of whole revisions, until closed.

        `at` moves along. Raises HistoryLost when that history is not there, StoreDenied when
        refused.
        """
        loop = _loop("watch of the store broken", _text(keys.key))
        try:
            async with aclosing(self._changes(keys, at, loop)) as changes:
                async for events in changes:
                    yield events
        finally:
            loop.withdraw()

    async def _changes(
        self, keys: KeyRange, at: WatchPosition, loop: Loop
    ) -> AsyncGenerator[list[Any], None]:
        unverified, pause = False, 0.0
        while not self._channels.closed:
            member = self._channels.current
            try:
                # Start at `rev`, not at `rev + 1`, and skip what is known. If `rev + 1` is
                # compacted before etcd has sent it, etcd silently drops its deletes
                # (etcd-io/etcd#18089). A start at a compacted `rev` is refused instead, which
                # leads to a resync.
                async with self._streams.watch(member, keys.since(at.rev)) as watch:
                    while True:
                        response = _ongoing(await watch.read())
                        loop.works()
                        if unverified or looks_rewound(response.header, at):
                            await self._history.verify(keys.key, at, opened_again=unverified)
                            unverified = False
                        at.on(watch.seen)
                        events = [e for e in response.events if e.kv.mod_revision > at.rev]
                        if events:
                            at.went_on(events[-1])
                            yield events
            except WatchRefused as exc:
                await self._require_permission(keys, exc)
                unverified = unverified or at.seen is not None
                await asyncio.sleep(loop.failed(exc))
                continue
            except TooSlow:
                log.debug("watch did not read in time, resuming", extra=fields(key=_text(keys.key)))
                unverified = True
                continue
            except (StreamBroken, StoreUnavailable) as exc:
                pause = loop.failed(exc)
            unverified = True
            self._channels.rotate(member)
            await asyncio.sleep(pause)

    async def _snapshot(
        self, ranges: Iterable[KeyRange], keep: Keep = keep_all
    ) -> tuple[Snapshot, WatchPosition]:
        """Return a snapshot of all ranges, of one at least, and the position of the reading."""
        while True:
            at, entries = WatchPosition(0), dict[str, Entry]()
            try:
                for keys in ranges:
                    await self._read(keys, keep, entries, at)
                return Snapshot(at.rev, entries), at
            except Compacted:
                log.debug(
                    "snapshot compacted while reading, restarting", extra=fields(keys=len(entries))
                )

    async def _read(
        self, keys: KeyRange, keep: Keep, entries: dict[str, Entry], at: WatchPosition
    ) -> None:
        """Add what is kept of a range, as of a position; at revision 0 it becomes the store's."""
        page = await self._page(keys.key, keys.end, at.rev)
        if not at.rev:  # the headers of later pages have newer revisions
            at.rev, at.cluster = page.header.revision, page.header.cluster_id
        while page.more:
            start = page.kvs[-1].key + b"\0"
            # The store takes longer to make a page than it takes to collect one.
            async with background("page", self._page(start, keys.end, at.rev)) as following:
                await _collect(page.kvs, keep, entries, at)
                # Megabytes, which need not be there while the next page comes. Any part of a
                # message keeps all of it in memory.
                del page
                page = await following
        await _collect(page.kvs, keep, entries, at)

    async def _page(self, start: bytes, end: bytes, rev: int) -> Any:
        """Return the first keys of a range; Compacted if a revision's are not there any more."""
        request = rpc.RangeRequest(key=start, range_end=end, limit=self._page_limit, revision=rev)
        try:
            return await self._channels.call(
                lambda member: member.kv.Range, request, attempt=PAGE_ATTEMPT
            )
        except StoreUnavailable as exc:
            if is_out_of_range(exc.__cause__):
                raise Compacted from exc
            raise

    async def _require_permission(self, keys: KeyRange, refusal: WatchRefused) -> None:
        """Return if the keys may be read, with a token that is accepted; else raise StoreDenied."""
        # etcd 3.4 refuses a watch in the same words for an old token and for a missing permission.
        # It tells them apart for a read, which gets a new token if need be.
        log.debug(
            "watch refused, asking anew", extra=fields(key=_text(keys.key), error=str(refusal))
        )
        request = rpc.RangeRequest(key=keys.key, range_end=keys.end, limit=1, keys_only=True)
        try:
            await self._channels.call(lambda member: member.kv.Range, request)
        except StoreUnavailable as exc:
            log.debug("permission not known", extra=fields(error=str(exc)))


def _loop(name: str, about: str) -> Loop:
    return Loop(
        log,
        name,
        about=about,
        pace=STORE,
        errors=StoreUnavailable,
        patience=REMOTE,
        vital=True,
    )


def _ranges(prefix: str, parts: Parts | None) -> list[KeyRange]:
    """Return the ranges that a snapshot reads: one at least, since it needs a revision."""
    if parts is None:
        return [KeyRange.under(prefix)]
    return [KeyRange.under(part) for part in parts()] or [KeyRange(prefix.encode())]


def delta(events: Iterable[Any]) -> Delta:
    """Merge events of whole revisions into a delta: each key once, with its last state."""
    last: dict[str, Entry | None] = {}
    rev = 0
    for event in events:
        rev = event.kv.mod_revision
        key = _text(event.kv.key)
        last[key] = None if event.type == _DELETE else Entry(key, event.kv.value, rev)
    return delta_of(rev, last)


def _ongoing(response: Any) -> Any:
    """Return a response of a watch that goes on; raise what has ended it."""
    if not response.canceled:
        return response
    if response.compact_revision:
        raise Compacted
    reason = response.cancel_reason
    if "permission" in reason or "auth" in reason or is_about_token(reason):
        raise WatchRefused(reason)
    raise StreamBroken(response.cancel_reason)


def _revisions(events: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the events of each revision."""
    for _, part in groupby(events, lambda event: event.kv.mod_revision):
        yield list(part)


async def _collect(
    kvs: Sequence[Any], keep: Keep, entries: dict[str, Entry], at: WatchPosition
) -> None:
    """Add what is kept to the entries, and the key that was changed last to the position."""
    last = at.evidence
    newest, rev = None, last.entry[1] if last is not None and last.entry is not None else 0
    for first in range(0, len(kvs), PART):
        await asyncio.sleep(0)  # for the request of the next page, and for other tasks
        for kv in kvs[first : first + PART]:
            key, value, changed = _text(kv.key), kv.value, kv.mod_revision
            if keep(key, value):
                entries[key] = Entry(key, value, changed)
            if changed > rev:
                newest, rev = kv, changed
    if newest is not None:
        at.evidence = Evidence(newest.key, rev, (newest.value, rev))


def _text(key: bytes) -> str:
    """Decode a key; a key of another program that is not UTF-8 is escaped, not an error."""
    return key.decode(errors="backslashreplace")
