"""/inspect/flows: records of flows of this host. GET has the newest, POST those that have changed.

/inspect/conversations: the same records, as far as policies tell them apart.

netmaster asks all hosts at once, and so sends the same to each (`netmaster.api.v2.diagnostics
.flows`): of a page before, the place of its last record among those of all hosts; of changes, the
position of each host. A host without a position is told its own, and no record.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from aiohttp import web

from contivmodel.wire import dumps
from core.errors import Malformed
from core.ids import HostLabel
from core.numbers import bounded
from core.outside_json import read_json
from netplugin.flow_records.recorder import FlowRecorder
from netplugin.flow_records.ring import Ring
from state import conversations
from state.conversations import of_records
from state.flow_records import FILTERS, FlowRecord, RecordPlace, chooser

PATH: Final = "/inspect/flows"
CONVERSATIONS_PATH: Final = "/inspect/conversations"
MOST: Final = 5001
"""Records of one answer, at most."""

_LAST: Final = 10**18 - 1
Json = dict[str, Any]
_OFF: Final[Json] = {"on": False, "records": [], "position": 0, "lost": {}}


def routes(recorder: FlowRecorder | None, host: HostLabel) -> list[web.RouteDef]:
    """Return the routes; without a recorder, records are off."""

    async def newest(request: web.Request) -> web.Response:
        def choose(ring: Ring, fits: _Fits) -> Iterable[FlowRecord]:
            place = RecordPlace.read(request.query.get("before", ""))
            if place is None:
                return islice(filter(fits, ring.newest()), _limit(request.query))
            older = (one for one in ring.newest(place.begun) if place.is_before(one, host))
            return islice(filter(fits, older), _limit(request.query))

        return await _answer(recorder, request.query, choose)

    async def changed(request: web.Request) -> web.Response:
        positions = _positions(await request.read())
        after = bounded(str(positions.get(host, _LAST)), 0, _LAST)

        def choose(ring: Ring, fits: _Fits) -> Iterable[FlowRecord]:
            later = ring.changed(_LAST if after is None else after)
            return _first(_limit(request.query), filter(fits, later))

        return await _answer(recorder, request.query, choose)

    async def talked(request: web.Request) -> web.Response:
        return await _reply(partial(_conversations, recorder, request.query))

    return [
        web.get(PATH, newest),
        web.post(PATH, changed),
        web.get(CONVERSATIONS_PATH, talked),
    ]


_Fits = Callable[[FlowRecord], bool]
_Choose = Callable[[Ring, _Fits], Iterable[FlowRecord]]


async def _answer(
    recorder: FlowRecorder | None, query: Mapping[str, str], choose: _Choose
) -> web.Response:
    async def ask() -> Json:
        fits = _fitting(query)
        return _OFF if recorder is None else await _found(recorder, fits, choose)

    return await _reply(ask)


async def _reply(ask: Callable[[], Awaitable[Json]]) -> web.Response:
    try:
        found = await ask()
    except Malformed as exc:
        return web.Response(status=400, text=f"{exc}\n")
    body = await asyncio.to_thread(dumps, found)
    return web.Response(body=body, content_type="application/json")


async def _found(recorder: FlowRecorder, fits: _Fits, choose: _Choose) -> Json:
    position, found = recorder.ring.position, choose(recorder.ring, fits)
    chosen = await asyncio.to_thread(list, found)
    if len(chosen) == MOST:
        position = min(position, chosen[-1].changed)
    shown = [one.shown() for one in chosen]
    return {"on": True, "records": shown, "position": position, "lost": recorder.lost}


async def _conversations(recorder: FlowRecorder | None, query: Mapping[str, str]) -> Json:
    """Return the conversations of a tenant, of records that fit the query."""
    fits = _fitting(query)
    if recorder is None:
        return {"on": False, "conversations": [], "complete": True, "from": 0.0, "lost": {}}
    records = recorder.ring.records()
    tenant = query.get("tenant", "")
    found = await asyncio.to_thread(of_records, filter(fits, records), tenant)
    return {
        "on": True,
        "conversations": conversations.shown(found),
        "complete": len(found) <= conversations.MOST,
        "from": recorder.since,
        "lost": recorder.lost,
    }


def _fitting(query: Mapping[str, str]) -> _Fits:
    """Return what chooses records by their values, and by tenants that the client may see."""
    fits = chooser({name: query[name] for name in FILTERS if name in query})
    if "tenants" not in query:
        return fits
    tenants = frozenset(query["tenants"].split(","))
    return lambda one: not tenants.isdisjoint(one.tenants) and fits(one.seen_by(tenants))


def _limit(query: Mapping[str, str]) -> int:
    limit = bounded(query.get("limit", str(MOST)), 0, _LAST)
    if limit is None:
        raise Malformed(f"limit={query['limit'][:80]} is no number")
    return min(limit, MOST)


def _positions(body: bytes) -> Mapping[str, Any]:
    try:
        found = read_json(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _first(limit: int, records: Iterable[FlowRecord]) -> Iterator[FlowRecord]:
    # a generator: what it costs is paid where it is read
    yield from heapq.nsmallest(limit, records, key=_changed)


def _changed(record: FlowRecord) -> int:
    return record.changed
