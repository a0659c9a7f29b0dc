"""Answers `GET /api/v2/kubernetes-rules`: what Kubernetes' policies and services say of pods.

Asks the agents of all hosts, each about its own pods; `netmaster.plan.show.kubernetes_rules` merges
their answers.
"""

import asyncio
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.plan.show import kubernetes_rules
from netmaster.view import View

PATH: Final = "/api/v2/kubernetes-rules"
ASKED: Final = "/inspect/kubernetes-rules"
"""The agents' route (`netplugin.diagnostics.kubernetes_rules`)."""

_QUERY: Final = {
    "namespace": "of pods of this namespace of Kubernetes",
    "pod": "of pods of this name",
}
OPERATION: Final = OperationDoc(
    summary="what Kubernetes' policies and services say of pods",
    tag="rule",
    answer=kubernetes_rules.KubernetesRules,
    query=_QUERY,
)


async def answer(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer the rules and services of the pods asked for. Raises Invalid for a bad query."""
    asked = parameters(request.query, _QUERY)
    having = {name: asked[name] for name in _QUERY if asked.get(name)}
    answers = await leader.agents.ask_all(f"{ASKED}?{urlencode(having)}")
    # of many hosts these are many megabytes
    found = await asyncio.to_thread(kubernetes_rules.merged, answers.replies, answers.unreachable)
    await leader.committer.read(_nothing)  # only who still leads answers
    return json_reply(found)


def _nothing(_view: View) -> None:
    """Read nothing."""
