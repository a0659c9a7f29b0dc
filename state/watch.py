"""Records in motion: several watched prefixes as one queue of typed events.

`objdb` tells snapshots and deltas of bytes, one stream for each prefix. A `RecordFeed` decodes
them, finds by difference what a later snapshot lacks, and keeps for its one reader what has
changed since it last asked: each key at most once, with its last state, so the queue is bounded by
what the store holds. Behind the changes of a prefix stands up to which revision they tell of it:
prefixes are streams of their own, and a quiet one stays low. Which key holds which fact is
`state.intents`' knowledge. Next is the agent's `netplugin.world.builder` or the leader's view.

A key of no known kind and a value that cannot be decoded are logged and counted; the last good
record of such a key stays in force until the key is deleted.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from core import keys
from core.errors import Invalid
from core.logs import fields
from objdb.api import Backend, Delta, Entry, Snapshot
from state import intents
from state.intents import Fact

log = logging.getLogger(__name__)

AGENT_PREFIXES: Final = (
    keys.MASTER_CONFIG,
    keys.NETWORKS,
    keys.GROUPS,
    keys.HOSTS,
    keys.GROUP_OBJECTS,
    keys.PROFILE_OBJECTS,
    keys.ACI_LAUNCHES,
    keys.RULES,
    keys.SERVICE_LBS,
    keys.BGPS,
    keys.ENDPOINTS,
)
"""What an agent follows."""

_SLICE: Final = 500
"""Records decoded at a stretch; a large snapshot must not hold the event loop."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A record is there, new or different; `previous` is the one the reader knew."""

    key: str
    record: Fact
    previous: Fact | None


@dataclass(frozen=True, slots=True)
class Removed:
    """A record is gone; `record` is the one the reader knew."""

    key: str
    record: Fact


@dataclass(frozen=True, slots=True)
class Reached:
    """All that happened under a prefix up to a revision has been told.

    The first one of a prefix says that it was read as a whole.
    """

    prefix: str
    rev: int


Event = Changed | Removed | Reached


class RecordFeed:
    """Follows prefixes for one reader; `run` is supervised, `take` gives the events."""

    def __init__(self, backend: Backend, prefixes: Sequence[str] = AGENT_PREFIXES) -> None:
        self._backend = backend
        self._prefixes = tuple(prefixes)
        self._current: dict[str, Fact] = {}
        self._pending: dict[str, Fact | Reached | None] = {}
        self._news = asyncio.Event()
        self._unread = set(prefixes)
        self.unknown = 0
        """How often a key of no known kind was seen."""
        self.undecodable = 0
        """How often a value could not be decoded."""
        self.unreadable: dict[str, str] = {}
        """The keys whose values cannot be decoded now, with the reason."""

    @property
    def complete(self) -> bool:
        """True once every prefix has been read and what was found has been taken."""
        return not self._unread

    @property
    def records(self) -> Mapping[str, Fact]:
        """The last good record of every key, including what has not been taken yet."""
        return self._current

    async def run(self) -> None:
        """Follow all prefixes, for ever."""
        async with asyncio.TaskGroup() as group:
            for prefix in self._prefixes:
                group.create_task(self._follow(prefix), name=f"watch {prefix}")

    async def take(self, limit: int = 5000) -> list[Event]:
        """Wait for news and return them in order, at most `limit`."""
        while True:
            await self._news.wait()
            events = [event for key in self._first(limit) if (event := self._event(key))]
            if not self._pending:
                self._news.clear()
            if events:
                return events

    def _first(self, limit: int) -> list[str]:
        return [key for key, _ in zip(self._pending, range(limit), strict=False)]

    def _event(self, key: str) -> Event | None:
        """Take one key off the queue; None if it is again as the reader knew it."""
        known = self._pending.pop(key)
        if isinstance(known, Reached):
            self._unread.discard(known.prefix)
            return known
        record = self._current.get(key)
        if record is not None:
            return None if record == known else Changed(key, record, known)
        return None if known is None else Removed(key, known)

    async def _follow(self, prefix: str) -> None:
        async for item in self._backend.watch(prefix):
            match item:
                case Snapshot():
                    await self._resync(prefix, item.entries)
                case Delta():
                    await self._put_all(item.puts)
                    self._remove_all(item.deletes)
            self._pending.pop(prefix, None)  # behind everything that was found now
            self._pending[prefix] = Reached(prefix, item.rev)
            self._news.set()

    async def _resync(self, prefix: str, entries: Mapping[str, Entry]) -> None:
        known = [*self._current, *self.unreadable]
        self._remove_all(key for key in known if key.startswith(prefix) and key not in entries)
        await self._put_all(entries.values())

    async def _put_all(self, entries: Iterable[Entry]) -> None:
        for number, entry in enumerate(entries, start=1):
            record = self._decoded(entry)
            if record is not None:
                self._mark(entry.key)
                self._current[entry.key] = record
            if number % _SLICE == 0:
                await asyncio.sleep(0)

    def _remove_all(self, gone: Iterable[str]) -> None:
        for key in gone:
            self.unreadable.pop(key, None)
            if key in self._current:
                self._mark(key)
                del self._current[key]

    def _mark(self, key: str) -> None:
        """Remember what the reader knows of a key that is about to change."""
        self._pending.setdefault(key, self._current.get(key))
        self._news.set()

    def _decoded(self, entry: Entry) -> Fact | None:
        try:
            record = intents.decode(entry.key, entry.value)
        except Invalid as exc:
            self.undecodable += 1
            self.unreadable[entry.key] = str(exc)
            log.warning("record not readable", extra=fields(key=entry.key, error=str(exc)))
            return None
        self.unreadable.pop(entry.key, None)
        if record is None:
            self.unknown += 1
            log.warning("key of no known kind", extra=fields(key=entry.key))
        return record
