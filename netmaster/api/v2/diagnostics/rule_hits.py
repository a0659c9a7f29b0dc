"""Answers `GET /api/v2/rule-hits`: how often the rules of policies applied, over all hosts.

Asks the agents of all hosts; `netmaster.plan.show.rule_hits` sums their answers up.
"""

from functools import partial
from typing import Final

from aiohttp import web

from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.plan.show import rule_hits

PATH: Final = "/api/v2/rule-hits"
ASKED: Final = "/inspect/rules"
"""The agents' route (`netplugin.diagnostics.rule_hits`)."""

_QUERY: Final = {
    "tenant": "of the policies of this tenant",
    "policy": "of the policies of this name",
}
OPERATION: Final = OperationDoc(
    summary="hits of rules", tag="rule", answer=rule_hits.RuleHits, query=_QUERY
)


async def answer(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer the hits of the rules that the client may see. Raises Invalid for a bad query."""
    asked = parameters(request.query, _QUERY)
    answers = await leader.agents.ask_all(ASKED)
    shown = partial(
        rule_hits.hits,
        replies=answers.replies,
        unreachable=answers.unreachable,
        tenants=request.access.tenants if request.access else None,
        tenant=asked.get("tenant", ""),
        policy=asked.get("policy", ""),
    )
    return json_reply(await leader.committer.read(shown))
