"""Answers `GET /api/v2/overview`: how much there is, and what wants a look.

`netmaster.plan.show.overview` finds it; this module knows who asks. Of other tenants an operator
learns nothing.
"""

from functools import partial
from typing import Final

from aiohttp import web

from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.plan.show.overview import Overview, overview

PATH: Final = "/api/v2/overview"
OPERATION: Final = OperationDoc(summary="overview", tag="endpoint", answer=Overview)


async def answer(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer the overview of what the client may see."""
    parameters(request.query, ())
    tenants = request.access.tenants if request.access else None
    return json_reply(await leader.committer.read(partial(overview, tenants=tenants)))
