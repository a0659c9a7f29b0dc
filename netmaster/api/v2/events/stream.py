"""`GET /api/v2/events`: the changes of objects as server-sent events, of any master's event log.

Each event is one transaction of the store, with all changes of it that the client may see; its id
is `<term>.<revision>`, a position in the store's history (`state.lineage`). A client that connects
again, to whichever master, sends the last id that it has seen, and gets each later change once. If
they are not there any more, or the id is of another history since the store went back, it gets an
event `reset`: it has to read its lists again.

Hosts and endpoints are no objects: whoever asks for their lists is told by an event `touched` that
a list has changed, and reads it again. Such an event has no id, since a later one stands for it.
"""

# Every master serves watches itself, followers too. A proxied stream would hold one of the few
# connections to the leader and end with each change of leader. A stream needs nothing of a leader:
# what it tells is committed, and a client goes on by positions.
#
# No stream has a queue. Each has a position in the one log, so a slow client costs what any client
# costs; one that falls behind the log's end is told to read again.

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from contivmodel.kinds import KINDS
from contivmodel.wire import dumps
from core.errors import Malformed, StoreUnavailable
from core.numbers import bounded
from netmaster.api.http.access import Access, AccessControl
from netmaster.api.http.places import LimitedPlaces, PlaceLimits
from netmaster.api.http.problems import TooManyWatches
from netmaster.api.http.queries import parameters
from netmaster.api.http.server import ROUTE
from netmaster.api.v2.events.log import LISTS, Event, EventLog, ObjectChange
from state.lineage import Position

PATH: Final = "/api/v2/events"
EVENT_STREAM: Final = "text/event-stream"
LAST_EVENT_ID: Final = "Last-Event-ID"
QUERY: Final = {
    "kind": "only objects of this class, as `networks`; several are joined by commas",
    "tenantName": "only objects of this tenant",
    "lists": "tell also, by events `touched`, that these lists have changed: "
    f"{', '.join(sorted(LISTS))}; several are joined by commas",
    "after": "as the header Last-Event-ID, for clients that cannot send it",
}
_PLURALS: Final = frozenset(model.plural for model in KINDS.values())
_LAST_REVISION: Final = 10**18 - 1
_LONGEST_TERM: Final = 64
RETRY: Final = 1000
"""Milliseconds after which a client should connect again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """Limits of watches: how many in all, of one client, and for administrators alone; seconds.

    `per_peer` is for clients that are known by their address only. `gather` is between two events
    `touched`, `idle` between two signs of life, `lifetime` until a client has to connect again,
    with its rights of then; `catch_up` is how long a master waits for a revision that another has
    seen.
    """

    total: int = 256
    per_peer: int = 64
    per_client: int = 64
    reserve: int = 64
    gather: float = 0.5
    idle: float = 10.0
    lifetime: float = 600.0
    catch_up: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a client asks for: behind a position, None for from now on, which objects and lists."""

    after: Position | None
    plurals: frozenset[str]
    tenant: str
    tenants: frozenset[str] | None
    lists: frozenset[str] = frozenset()

    @classmethod
    def of(cls, query: str, last_id: str | None, access: Access | None) -> "Watch":
        """Return the watch of a request. Raises Malformed."""
        asked = parameters(query, QUERY)
        plurals = _among("kind", asked, _PLURALS)
        lists = _among("lists", asked, LISTS.keys())
        after = last_id if last_id is not None else asked.get("after")
        return cls(
            after=None if after is None else _position(after),
            plurals=plurals,
            tenant=asked.get("tenantName", ""),
            tenants=access.tenants if access else None,
            lists=lists,
        )

    def shows(self, change: ObjectChange) -> bool:
        """Return whether the client is told of a change."""
        return (
            (not self.plurals or change.plural in self.plurals)
            and self.tenant in {"", change.tenant}
            and (self.tenants is None or change.tenant in self.tenants)
        )


class EventStreams:
    """Answers watches from one log; `answer` is the role of its path on every master."""

    def __init__(
        self,
        log: EventLog,
        access: AccessControl | None,
        limits: StreamLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._access = access
        self._limits = limits or StreamLimits()
        self._clock = clock
        self._places = LimitedPlaces(
            "watches",
            PlaceLimits(
                total=self._limits.total,
                per_client=self._limits.per_client,
                reserve=self._limits.reserve,
                per_address=self._limits.per_peer,
            ),
            TooManyWatches,
        )

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Stream events until the client ends it, or its time is over."""
        request[ROUTE] = PATH
        access = await self._access.admit(request, PATH, {}) if self._access else None
        query = request.raw_path.partition("?")[2]
        watch = Watch.of(query, request.headers.get(LAST_EVENT_ID), access)
        if not self._log.restarts:
            raise StoreUnavailable("the store is not read yet: try again")
        with self._places.taken(access.who if access else None, request.remote or ""):
            reply = web.StreamResponse(
                headers={
                    "Content-Type": EVENT_STREAM,
                    "Cache-Control": "no-store",
                }
            )
            with suppress(ConnectionError), self._log.wanting(watch.lists):  # the client is gone
                await reply.prepare(request)
                await self._stream(reply, watch)
            return reply

    async def _stream(self, reply: web.StreamResponse, watch: Watch) -> None:
        end = self._clock() + self._limits.lifetime
        restarts = self._log.restarts
        at = await self._begin(reply, watch)
        touches, rest = self._log.touches.copy(), self._clock()
        while self._clock() < end:
            if restarts != self._log.restarts or at < self._log.first:
                restarts, at = self._log.restarts, self._log.last
                await reply.write(self._reset(at))
                continue
            told = False
            for event in self._log.behind(at):
                at = event.revision
                text = _event(event, self._id(at), watch)
                if text:
                    told = True
                    await reply.write(text)
            if told:
                continue  # the log may have changed meanwhile
            pause = self._limits.idle
            if lists := [one for one in watch.lists if self._log.touches[one] != touches[one]]:
                pause = rest - self._clock()
                if pause <= 0:
                    touches, rest = self._log.touches.copy(), self._clock() + self._limits.gather
                    await reply.write(_touched(lists))
                    continue
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._log.grown()
                    continue
            if lists:
                continue
            # An id without data: the client is at this revision, although nothing is for it.
            await reply.write(b"id: %b\n\n" % self._id(at))

    async def _begin(self, reply: web.StreamResponse, watch: Watch) -> int:
        """Tell where the stream begins; return that revision."""
        await reply.write(b"retry: %d\n\n" % RETRY)
        log = self._log
        if watch.after is None:
            at = log.last
            ready = b'event: ready\nid: %b\ndata: {"revision":%d}\n\n'
            await reply.write(ready % (self._id(at), at))
            return at
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.catch_up):
                while log.last < watch.after.rev:
                    await log.grown()
        if log.has(watch.after):
            return watch.after.rev
        at = log.last
        await reply.write(self._reset(at))
        return at

    def _id(self, revision: int) -> bytes:
        """Return the id of the event of a revision."""
        position = self._log.position(revision)
        return f"{position.term}.{position.rev}".encode()

    def _reset(self, at: int) -> bytes:
        return b'event: reset\nid: %b\ndata: {"revision":%d}\n\n' % (self._id(at), at)


def _event(event: Event, name: bytes, watch: Watch) -> bytes:
    """Return an event as the client gets it; b"" if nothing in it is for it."""
    seen = [change.text for change in event.changes if watch.shows(change)]
    if not seen:
        return b""
    return b'event: changes\nid: %b\ndata: {"revision":%d,"changes":[%b]}\n\n' % (
        name,
        event.revision,
        b",".join(seen),
    )


def _touched(lists: Iterable[str]) -> bytes:
    return b"event: touched\ndata: %b\n\n" % dumps({"lists": sorted(lists)})


def _among(name: str, asked: Mapping[str, str], known: Collection[str]) -> frozenset[str]:
    """Return the words of a parameter. Raises Malformed for one that is not known."""
    words = frozenset(filter(None, asked.get(name, "").split(",")))
    if unknown := sorted(words.difference(known)):
        raise Malformed(f"parameter {name}={unknown[0]}: known are {', '.join(sorted(known))}")
    return words


def _position(text: str) -> Position:
    """Return the position that an id names; one of an older release has no term."""
    term, _, revision = text.rpartition(".")
    found = bounded(revision, 0, _LAST_REVISION)
    if found is None or len(term) > _LONGEST_TERM:
        raise Malformed(f"{LAST_EVENT_ID} {text[:80]} is not the id of an event")
    return Position(term, found)
