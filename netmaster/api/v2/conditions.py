"""Answers `GET /api/v2/<plural>/{key}/conditions`: on which hosts an object is realised.

`netmaster.api.leader.conditions_api` knows; this module knows who asks. Who is bound to tenants is
not told the errors of hosts, which may be about other tenants.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from aiohttp import web

from contivmodel.objects import EndpointGroup, Network, Policy, Rule
from core.errors import NotFound
from core.ids import EndpointKey
from netmaster.api.http.problems import PREFIX
from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc, Route
from netmaster.api.leader.leader_context import ApiRequest, Handler, LeaderContext
from netmaster.plan.show.conditions import ENDPOINT, Conditions
from netmaster.view import View

_MODELS: Final = (Network, EndpointGroup, Policy, Rule)
_ENDPOINTS: Final = "endpoints"


def routes() -> Iterator[Route[Handler]]:
    """Yield the routes of all kinds that have conditions."""
    kinds = [*((one.kind, one.plural) for one in _MODELS), (ENDPOINT, _ENDPOINTS)]
    for kind, plural in kinds:
        operation = OperationDoc(summary=f"conditions of {kind}", tag="v2", answer=Conditions)
        path = f"{PREFIX}{plural}/{{key}}/conditions"
        yield Route("GET", path, partial(_answer, kind), operation)


async def _answer(kind: str, leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer the conditions of an object. Raises NotFound."""
    parameters(request.query, ())
    key = request.parameters["key"]
    tenants = request.access.tenants if request.access else None
    if kind == ENDPOINT and tenants is not None:

        def is_own(view: View) -> bool:
            record = view.endpoints.get(EndpointKey(key))
            return record is not None and view.networks[record.network].tenant in tenants

        if not await leader.committer.read(is_own):
            raise NotFound(f"endpoint {key} not found")
    return json_reply(await leader.conditions.of(kind, key, errors=tenants is None))
