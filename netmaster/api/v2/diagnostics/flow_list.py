"""Answers `GET /api/v2/flows`: the flows of all hosts, and its watch, as server-sent events.

Asks the agents of all hosts; `netmaster.plan.show.flow_pages` makes a page of their answers. A
watch asks them again every `PERIOD` seconds for what has begun or ended since: agents keep the
records, and a master keeps nothing but each host's position.
"""

import asyncio
import json
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from contivmodel.schema import TEXT
from contivmodel.wire import dumps
from core.errors import Malformed
from netmaster.api.http import paging
from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.api.v2.events.stream import EVENT_STREAM
from netmaster.plan.show import flow_pages
from netmaster.view import View
from state.flow_records import FILTERS, RecordPlace, chooser

PATH: Final = "/api/v2/flows"
WATCH_PATH: Final = "/api/v2/flows/watch"
ASKED: Final = "/inspect/flows"
"""The agents' route (`netplugin.flow_records.report`)."""

_SHARE: Final = 20
"""Records that each host is asked for at least."""
PERIOD: Final = 2.0
LIFETIME: Final = 600.0
"""Seconds until a client has to connect again, with its rights of then."""

_QUERY: Final = {**FILTERS, "host": "on the host with this label", **paging.PAGED}
OPERATION: Final = OperationDoc(
    summary="list flows", tag="endpoint", answer=flow_pages.FlowList, query=_QUERY
)
_WATCHED: Final = {**FILTERS, "host": "on the host with this label"}
WATCH_OPERATION: Final = OperationDoc(
    summary="watch flows", tag="endpoint", answer=TEXT, media=EVENT_STREAM, query=_WATCHED
)


async def answer(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a page of the flows that the client may see. Raises Malformed for a bad query."""
    asked = parameters(request.query, _QUERY)
    limit = paging.limit(asked["limit"]) if "limit" in asked else paging.LIMIT
    question = _of_agents(request, asked)
    if asked.get("after"):
        question["before"] = str(_place(asked["after"]))
    found = await _page(leader, request, question, limit, _only(asked))
    await leader.committer.read(_nothing)  # only who still leads answers
    shown: flow_pages.FlowList = {
        "items": found.items,
        "next": "" if found.next is None else paging.token(str(found.next)),
        **found.gaps,
    }
    return json_reply(shown)


async def _page(
    leader: LeaderContext,
    request: ApiRequest,
    question: Mapping[str, str],
    limit: int,
    only: Collection[str] | None,
) -> flow_pages.FlowPage:
    """Return a page of what the hosts are asked for, all or some `only`.

    Each is asked for its share first, and those that may have more of the page once more: of many
    hosts whole pages would be many megabytes, nearly all of them for nothing.
    """
    tenants = request.access.tenants if request.access else None
    hosts = await leader.agents.count() if only is None else len(only)
    share = min(limit + 1, max(_SHARE, 2 * limit // max(1, hosts)))
    first = await leader.agents.ask_all(_path(question, share), only=only)
    found = await asyncio.to_thread(
        flow_pages.page, first.replies, first.unreachable, limit, tenants, share
    )
    if share > limit or not found.short:
        return found
    more = await leader.agents.ask_all(_path(question, limit + 1), only=found.short)
    replies = {**first.replies, **more.replies}
    away = {**first.unreachable, **more.unreachable}
    replies = {host: body for host, body in replies.items() if host not in more.unreachable}
    return await asyncio.to_thread(flow_pages.page, replies, away, limit, tenants)


def _path(question: Mapping[str, str], limit: int) -> str:
    return f"{ASKED}?{urlencode({**question, 'limit': str(limit)})}"


async def watch(leader: LeaderContext, request: ApiRequest) -> web.StreamResponse:
    """Answer flows as they begin and end, until the client goes or its time is over.

    Raises Malformed for a bad query.
    """
    asked = parameters(request.query, _WATCHED)
    path, only = f"{ASKED}?{urlencode(_of_agents(request, asked))}", _only(asked)
    await leader.committer.read(_nothing)  # refused before the answer begins
    reply = web.StreamResponse(headers={"Content-Type": EVENT_STREAM, "Cache-Control": "no-store"})
    incoming = request.incoming
    if incoming is None:
        return reply
    positions: dict[str, int] = {}
    tenants = request.access.tenants if request.access else None
    end = time.monotonic() + LIFETIME
    with suppress(ConnectionError):  # the client is gone
        await reply.prepare(incoming)
        while time.monotonic() < end:
            body = json.dumps(positions).encode()
            answers = await leader.agents.ask_all(path, body=body, only=only)
            found = await asyncio.to_thread(
                flow_pages.page, answers.replies, answers.unreachable, _ALL, tenants
            )
            await leader.committer.read(_nothing)
            for one in reversed(found.items):
                await reply.write(b"event: flow\ndata: %b\n\n" % dumps(one))
            # a sign of life too
            await reply.write(b"event: hosts\ndata: %b\n\n" % dumps(found.gaps))
            positions |= found.positions
            await asyncio.sleep(PERIOD)
        await reply.write_eof()
    return reply


_ALL: Final = 10**9


def _of_agents(request: ApiRequest, asked: Mapping[str, str]) -> dict[str, str]:
    """Return what the agents are asked for. Raises Malformed."""
    wanted = {name: asked[name] for name in FILTERS if asked.get(name)}
    chooser(wanted)
    if request.access is not None and request.access.tenants is not None:
        wanted["tenants"] = ",".join(sorted(request.access.tenants))
    return wanted


def _only(asked: Mapping[str, str]) -> Collection[str] | None:
    """Return the host that is asked for; None for all."""
    host = asked.get("host")
    return [host] if host else None


def _place(token: str) -> RecordPlace:
    found = RecordPlace.read(paging.key_of(token))
    if found is None:
        raise Malformed(f"parameter after={token} is not `next` of a page")
    return found


def _nothing(_view: View) -> None:
    """Read nothing."""
