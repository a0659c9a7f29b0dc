"""The recent changes of all REST objects, by the revision of the store that made each.

Every master watches the store, whatever its role, and keeps what it saw within bounds. All masters
see the same changes at the same revisions; so a client may go on with any of them behind the last
one that it has seen (`netmaster.api.v2.events.stream`). Revisions are of one history: beside them
the log knows the terms of the store's leaders (`state.lineage`), by which a position of a store
that went back is told from one of this history.

What hosts and endpoints are is no object. Of their lists (`LISTS`) the log knows only that they
have changed, and looks at the store for that only while somebody wants to know.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import takewhile
from typing import Final, cast

from contivmodel.kinds import KINDS
from contivmodel.objects import RestObject
from contivmodel.representation import Json, etag, shown
from contivmodel.wire import dumps
from core import keys
from core.errors import Invalid, StoreUnavailable
from core.logs import fields
from core.retry import REMOTE, Loop, retry
from netmaster import codec
from netmaster.auth.route_classes import tenant_of
from objdb.api import Backend, Delta, Snapshot
from state import lineage
from state.lineage import Lineage, Position

log = logging.getLogger(__name__)

MOST_EVENTS: Final = 10_000
MOST_BYTES: Final = 16 << 20
LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "endpoints": (keys.ENDPOINTS,),
    "hosts": (keys.HOSTS, keys.SERVICES, keys.DRAINS, keys.ABSENCES),
}
"""Lists without objects -> the prefixes of the store that they are made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """A change of one object: its class by its path segment, its key, and JSON of the change.

    `tenant` is "" for objects that no tenant has.
    """

    plural: str
    key: str
    tenant: str
    text: bytes


class Event:
    """All changes that one revision of the store made: one transaction."""

    def __init__(self, reported: Delta) -> None:
        self._reported = reported
        self.revision = reported.rev
        stored = sum(len(entry.key) + len(entry.value) for entry in reported.puts)
        self.size = stored + sum(map(len, reported.deletes))
        """About how many bytes it takes; some more once it is told."""

    @cached_property
    def changes(self) -> tuple[ObjectChange, ...]:
        """Return what the revision changed, as it is told."""
        # Decoded and encoded when the first client asks. Mostly there is none, and that cost a
        # tenth of the processor time of posted rules.
        return tuple(_changes(self._reported))


class _Wanted:
    """Whether anybody wants to know of a list: `begun` is set while somebody does."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._count = 0

    def enter(self) -> None:
        self._count += 1
        self.begun.set()

    def leave(self) -> None:
        self._count -= 1
        if not self._count:
            self.begun.clear()


class EventLog:
    """What one master saw of the changes, oldest first.

    `last` is the revision that it has seen, `first` the one behind which it has all changes; both
    are 0 until the store was read.
    """

    # Invariant: `_events` are all changes of revisions above `first` and up to `last`, each in an
    # event of its own where the store has a history (etcd). Whatever breaks that, lost events or
    # another history, starts the log anew, and clients are told to read everything again.

    def __init__(self, *, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self.first = self.last = 0
        self.lineage = Lineage()
        """The terms of the store's leaders, as of a moment after `last`."""

        self.restarts = 0
        """How often the log began anew; who read it before that has to read all objects again."""
        self._most_events, self._most_bytes = most_events, most_bytes
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._grown = asyncio.Event()
        self.touches: Counter[str] = Counter()
        """How often each of `LISTS` has changed, as far as anybody wanted to know."""
        self._wanted = {name: _Wanted() for name in LISTS}

    @contextmanager
    def wanting(self, lists: Collection[str]) -> Iterator[None]:
        """Count changes of these of `LISTS` meanwhile."""
        for name in lists:
            self._wanted[name].enter()
        try:
            yield
        finally:
            for name in lists:
                self._wanted[name].leave()

    def touch(self, name: str) -> None:
        """Count a change of one of `LISTS`."""
        self.touches[name] += 1
        self._wake()

    async def follow_list(self, backend: Backend, name: str, prefix: str) -> None:
        """Count the changes below one prefix of a list while that is wanted, until cancelled."""
        wanted = self._wanted[name]
        while True:
            await wanted.begun.wait()
            # The first snapshot counts as well: it may have what a client did not see yet.
            watched = cast("AsyncGenerator[Snapshot | Delta]", backend.watch(prefix))
            async with aclosing(watched) as items:
                async for item in items:
                    del item  # the first one is all endpoints of the cluster
                    self.touch(name)
                    if not wanted.begun.is_set():
                        break

    async def follow(self, backend: Backend) -> None:
        """Keep what the store reports, until cancelled. Raises StoreDenied when refused."""
        # Read again behind each item, so that a term is known with the first change that was made
        # in it. A watch of its own could be late, and name that change by the term before.
        async for item in backend.watch(keys.OBJECTS, every_revision=True):
            self.take(item, await self._terms(backend))
            del item  # the first one is all objects

    async def _terms(self, backend: Backend) -> Lineage:
        """Return the store's lineage as of now, once it answers."""
        loop = Loop(log, "lineage of the store not read", errors=StoreUnavailable, patience=REMOTE)
        entry = await retry(loop, partial(backend.get, keys.LINEAGE))
        try:
            return lineage.decode(entry.value) if entry is not None else Lineage()
        except Invalid as exc:
            # such a store has no leader, and no changes
            log.warning("lineage of the store cannot be read", extra=fields(error=exc))
            return self.lineage

    def take(self, item: Snapshot | Delta, terms: Lineage | None = None) -> None:
        """Add what a watch of all objects reports, and the lineage if it was read behind that."""
        if terms is not None:
            self.lineage = terms
        if isinstance(item, Snapshot):
            self._events.clear()
            self._bytes = 0
            self.first = self.last = item.rev
            self.restarts += 1
        else:
            self._append(Event(item))
        self._wake()

    def position(self, revision: int) -> Position:
        """Return a revision of this history with the term in which it was made."""
        begun = (term.id for term in reversed(self.lineage.terms) if term.after < revision)
        return Position(next(begun, ""), revision)

    def has(self, position: Position) -> bool:
        """Return whether all changes behind a position are here: one of this history, and known."""
        same = self.lineage.has(position) if self.lineage.terms else not position.term
        return same and self.first <= position.rev <= self.last

    def behind(self, revision: int) -> list[Event]:
        """Return the events above a revision, which must not be below `first`."""
        newer = takewhile(lambda event: event.revision > revision, reversed(self._events))
        return list(newer)[::-1]

    async def grown(self) -> None:
        """Return after the next change, of a list too."""
        await self._grown.wait()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    def _append(self, event: Event) -> None:
        self._events.append(event)
        self._bytes += event.size
        self.last = event.revision
        while len(self._events) > self._most_events or self._bytes > self._most_bytes:
            oldest = self._events.popleft()
            self._bytes -= oldest.size
            self.first = oldest.revision


def _changes(delta: Delta) -> Iterator[ObjectChange]:
    for entry in delta.puts:
        # What cannot be read keeps this cluster from being led; here it is no object.
        with suppress(Invalid):
            obj = codec.decode(entry.key, entry.value)
            if isinstance(obj, RestObject):
                yield _change(
                    type(obj), obj.key, {"type": "put", "etag": etag(obj), "object": shown(obj)}
                )
    for deleted in delta.deletes:
        with suppress(ValueError, KeyError):
            kind, key = keys.parse_obj(deleted)
            yield _change(KINDS[kind], key, {"type": "delete"})


def _change(model: type[RestObject], key: str, told: Json) -> ObjectChange:
    return ObjectChange(
        plural=model.plural,
        key=key,
        tenant=tenant_of(f"/api/v2/{model.plural}/{{key}}", {"key": key}),
        text=dumps({"kind": model.plural, "key": key, **told}),
    )
