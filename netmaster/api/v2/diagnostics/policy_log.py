"""Answers `GET /api/v2/policy-log`: what rules with `log` denied and allowed, over all hosts.

Asks the agents of all hosts; `netmaster.plan.show.policy_log` makes a page of their answers.
"""

import asyncio
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from core.errors import Malformed
from core.numbers import bounded
from netmaster.agent_answers import LARGEST_COUNT
from netmaster.api.http import paging
from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.plan.show import policy_log
from netmaster.plan.show.policy_log import LogQuery, Place
from netmaster.view import View

PATH: Final = "/api/v2/policy-log"
ASKED: Final = "/inspect/policy-log"
"""The agents' route (`netplugin.diagnostics.policy_log`)."""

_QUERY: Final = {**policy_log.FILTERS, **paging.PAGED}
OPERATION: Final = OperationDoc(
    summary="list what rules with log decided",
    tag="rule",
    answer=policy_log.PolicyLogList,
    query=_QUERY,
)


async def answer(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a page of the records that the client may see. Raises Malformed for a bad query."""
    asked = parameters(request.query, _QUERY)
    wanted = LogQuery(
        having={name: asked[name] for name in policy_log.FILTERS if asked.get(name)},
        limit=paging.limit(asked["limit"]) if "limit" in asked else paging.LIMIT,
        before=_place(asked["after"]) if asked.get("after") else None,
        tenants=request.access.tenants if request.access else None,
    )
    answers = await leader.agents.ask_all(f"{ASKED}?{urlencode(policy_log.of_agents(wanted))}")
    # of many hosts these are many megabytes
    found = await asyncio.to_thread(policy_log.page, answers.replies, answers.unreachable, wanted)
    await leader.committer.read(_nothing)  # only who still leads answers
    shown: policy_log.PolicyLogList = {
        "items": found.items,
        "next": "" if found.next is None else paging.token(" ".join(map(str, found.next))),
        "unrecorded": found.unrecorded,
        "unreachable": found.unreachable,
    }
    return json_reply(shown)


def _place(token: str) -> Place:
    at, _, rest = paging.key_of(token).partition(" ")
    host, _, number = rest.rpartition(" ")
    found = bounded(number, 0, LARGEST_COUNT)
    if found is None:
        raise Malformed(f"parameter after={token} is not `next` of a page")
    return at, host, found


def _nothing(_view: View) -> None:
    """Read nothing."""
