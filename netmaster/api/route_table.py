"""The one table of routes: method and path pattern, handler, and what OpenAPI tells of them.

`ROUTE_FINDER` dispatches the requests of `netmaster.api.dispatch` from it, `document` describes it
(`netmaster.api.http.openapi`). A route that is added here is dispatched and documented; an object
class that is added to `contivmodel.kinds.KINDS` has all its routes.
"""

import asyncio
from functools import cache
from typing import Any, Final

from aiohttp import web

from contivmodel.wire import dumps
from core.version import VERSION
from netmaster.api.http import openapi
from netmaster.api.http.replies import json_body
from netmaster.api.http.routes import OperationDoc, Route, RouteFinder
from netmaster.api.leader.leader_context import ApiRequest, Handler, LeaderContext
from netmaster.api.v1 import routes as v1
from netmaster.api.v1.objects import OBJECT_CLASSES
from netmaster.api.v2 import conditions, overview, whoami
from netmaster.api.v2 import routes as v2
from netmaster.api.v2.diagnostics import (
    capture,
    diagnosis,
    flow_list,
    kubernetes_rules,
    live_trace,
    policy_log,
    reach,
    rule_hits,
    selftest,
    suggestion,
    trace,
)
from netmaster.api.v2.endpoint_list import QUERY, list_endpoints
from netmaster.plan.show.endpoint_pages import EndpointPage


def document(version: str) -> dict[str, Any]:
    """Return the OpenAPI document of all routes."""
    return openapi.document(ROUTES, version)


async def _show_document(_leader: LeaderContext, _request: ApiRequest) -> web.Response:
    # Every master gives the same document, so this answer alone need not confirm leadership.
    return json_body(await asyncio.to_thread(_encoded_document))


@cache
def _encoded_document() -> bytes:
    """Return the document as JSON; it is the same for as long as the process runs."""
    # To build it takes 50 ms, which any reader could ask for again and again.
    return dumps(document(VERSION))


_LISTED_ENDPOINTS: Final = OperationDoc(
    summary="list endpoints", tag="endpoint", answer=EndpointPage, query=QUERY
)
_SHOWN_DOCUMENT: Final = OperationDoc(summary="openapi", tag="openapi", answer={"type": "object"})

ROUTES: Final[tuple[Route[Handler], ...]] = (
    *v1.object_routes(OBJECT_CLASSES.values()),
    v1.INSPECT_ENDPOINT,
    *v2.object_routes(OBJECT_CLASSES.values()),
    *v2.other_routes(),
    *conditions.routes(),
    Route("GET", "/api/v2/endpoints", list_endpoints, _LISTED_ENDPOINTS),
    Route("GET", capture.PATH, capture.answer, capture.OPERATION),
    Route("GET", diagnosis.PATH, diagnosis.answer, diagnosis.OPERATION),
    Route("GET", selftest.PATH, selftest.answer, selftest.OPERATION),
    Route("GET", rule_hits.PATH, rule_hits.answer, rule_hits.OPERATION),
    Route("GET", kubernetes_rules.PATH, kubernetes_rules.answer, kubernetes_rules.OPERATION),
    Route("GET", flow_list.PATH, flow_list.answer, flow_list.OPERATION),
    Route("GET", flow_list.WATCH_PATH, flow_list.watch, flow_list.WATCH_OPERATION),
    Route("GET", policy_log.PATH, policy_log.answer, policy_log.OPERATION),
    Route("GET", "/api/v2/trace", trace.show_trace, trace.OPERATION),
    Route("POST", "/api/v2/trace", live_trace.answer, live_trace.OPERATION),
    Route("GET", suggestion.PATH, suggestion.answer, suggestion.OPERATION),
    Route("GET", reach.PATH, reach.answer, reach.OPERATION),
    Route("GET", overview.PATH, overview.answer, overview.OPERATION),
    Route("GET", whoami.PATH, whoami.answer, whoami.OPERATION),
    *v1.AGENT_ROUTES,
    *v1.PAGES,
    Route("GET", "/openapi.json", _show_document, _SHOWN_DOCUMENT),
    *v1.UPKEEP,
)
"""In the order of the OpenAPI document."""

ROUTE_FINDER: Final = RouteFinder(ROUTES)
