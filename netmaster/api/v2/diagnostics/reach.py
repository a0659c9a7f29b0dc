"""Answers `GET /api/v2/reach`: which groups of a tenant may talk to which, by which rule.

`netmaster.plan.reachability.reach_matrix` makes the matrix; this module knows who asks. Of other
tenants an operator learns nothing, not even that they are there.
"""

from functools import partial
from typing import Final

from aiohttp import web

from core.errors import Invalid, NotFound
from core.ids import TenantName
from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.plan.reachability.reach_matrix import Reach, ReachQuery, matrix

PATH: Final = "/api/v2/reach"
_QUERY: Final = {
    "tenant": "whose groups",
    "source": "only from the group of this name",
    "destination": "only to the group of this name",
}
OPERATION: Final = OperationDoc(summary="reach of groups", tag="rule", answer=Reach, query=_QUERY)


async def answer(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer the matrix of a tenant. Raises Invalid without one, NotFound for an unknown one."""
    asked = parameters(request.query, _QUERY)
    if not asked.get("tenant"):
        raise Invalid("parameter tenant is required")
    wanted = ReachQuery(
        tenant=TenantName(asked["tenant"]),
        source=asked.get("source", ""),
        destination=asked.get("destination", ""),
    )
    visible = request.access.tenants if request.access else None
    if visible is not None and wanted.tenant not in visible:
        raise NotFound(f"tenant {wanted.tenant} not found")
    return json_reply(await leader.committer.read(partial(matrix, asked=wanted)))
