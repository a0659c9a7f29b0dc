"""The one table of routes: method and path pattern, handler, and what OpenAPI tells of them.

`ROUTE_FINDER` dispatches the requests of `netmaster.api.leader` from it, `document` describes it
(`netmaster.api.openapi`). A route that is added here is dispatched and documented; an object class
that is added to `netmaster.api.objects.KINDS` has all its routes.
"""

from collections.abc import Iterator
from functools import cache, partial
from typing import Any, Final

from aiohttp import web

from contivmodel import rpc
from contivmodel.schema import TEXT as TEXT_SCHEMA
from contivmodel.schema import Schema, reference
from contivmodel.wire import WireModel, dumps
from core.version import VERSION
from netmaster.api import (
    capture,
    diagnosis,
    dry_run,
    endpoints,
    handlers,
    live_trace,
    openapi,
    overview,
    policy_log,
    reach,
    rule_hits,
    selftest,
    trace,
    whoami,
)
from netmaster.api.context import ApiRequest, Handler, LeaderContext
from netmaster.api.endpoint_list import PAGE_SCHEMA, QUERY, list_endpoints
from netmaster.api.endpoints import ReadCall
from netmaster.api.hosts import DRAINED_SCHEMA, HOST_SCHEMA, REMOVED_SCHEMA
from netmaster.api.objects import ENDPOINTS, KINDS, ObjectClass
from netmaster.api.replies import json_body
from netmaster.api.routes import TEXT, OperationDoc, Route, RouteFinder
from netmaster.api.v2 import routes as v2

API: Final = "/api/v1/"

_OBJECT: Final[Schema] = {"type": "object"}


def document(version: str) -> dict[str, Any]:
    """Return the OpenAPI document of all routes."""
    return openapi.document(ROUTES, version)


async def _show_document(_leader: LeaderContext, _request: ApiRequest) -> web.Response:
    # Every master gives the same document, so this answer alone need not confirm leadership.
    return json_body(_encoded_document())


@cache
def _encoded_document() -> bytes:
    """Return the document as JSON; it is the same for as long as the process runs."""
    # To build it takes 28 ms of the event loop, which any reader could ask for again and again.
    return dumps(document(VERSION))


def _object_routes(kind: ObjectClass) -> Iterator[Route[Handler]]:
    name, plural, model = kind.model.kind, kind.model.plural, kind.model
    whole = reference(model)
    item, inspected = f"{API}{plural}/{{key}}/", f"{API}inspect/{plural}/{{key}}/"
    read = OperationDoc(summary=f"read {name}", tag=name, answer=whole)
    write, put = (
        OperationDoc(
            summary=f"{verb} {name}",
            tag=name,
            answer=dry_run.answer(whole),
            body=model,
            query=dry_run.QUERY,
        )
        for verb in ("write", "put")
    )
    delete = OperationDoc(
        summary=f"delete {name}",
        tag=name,
        answer=dry_run.answer(TEXT_SCHEMA),
        query=dry_run.QUERY,
    )
    every: Schema = {"type": "array", "items": whole}
    listed = OperationDoc(summary=f"list {name}", tag=name, answer=every)
    state = OperationDoc(summary=f"inspect {name}", tag=name, answer=_operational_state(whole))
    yield Route("GET", f"{API}{plural}/", partial(handlers.list_objects, kind), listed)
    yield Route("GET", item, partial(handlers.read_object, kind), read)
    yield Route("POST", item, partial(handlers.write_object, kind), write)
    yield Route("PUT", item, partial(handlers.write_object, kind), put)
    yield Route("DELETE", item, partial(handlers.delete_object, kind), delete)
    yield Route("GET", inspected, partial(handlers.inspect_object, kind), state)


def _agent_route(
    call: str, read_call: ReadCall, summary: str, body: type[WireModel]
) -> Route[Handler]:
    operation = OperationDoc(summary=summary, tag="plugin", body=body)
    return Route("POST", f"/plugin/{call}", partial(handlers.agent_call, read_call), operation)


def _operational_state(config: Schema | None = None) -> Schema:
    """Return the schema of an inspection: the object, if there is one, and its state."""
    oper: Schema = {"Oper": _OBJECT}
    return {"type": "object", "properties": {"Config": config, **oper} if config else oper}


def _page(summary: str, tag: str) -> OperationDoc:
    """Return what is told of a page that the original sends as text, JSON or not."""
    return OperationDoc(summary=summary, tag=tag, media=TEXT)


def _json(summary: str, tag: str, answer: Schema) -> OperationDoc:
    return OperationDoc(summary=summary, tag=tag, answer=answer)


_LISTED_ENDPOINTS: Final = OperationDoc(
    summary="list endpoints", tag="endpoint", answer=PAGE_SCHEMA, query=QUERY
)

ROUTES: Final[tuple[Route[Handler], ...]] = (
    *(route for kind in KINDS.values() for route in _object_routes(kind)),
    Route(
        "GET",
        f"{API}inspect/{ENDPOINTS}/{{key}}/",
        handlers.inspect_endpoint,
        _json("inspect endpoint", "endpoint", _operational_state()),
    ),
    *v2.object_routes(KINDS.values()),
    *v2.other_routes(),
    Route("GET", "/api/v2/endpoints", list_endpoints, _LISTED_ENDPOINTS),
    Route("GET", capture.PATH, capture.answer, capture.OPERATION),
    Route("GET", diagnosis.PATH, diagnosis.answer, diagnosis.OPERATION),
    Route("GET", selftest.PATH, selftest.answer, selftest.OPERATION),
    Route("GET", rule_hits.PATH, rule_hits.answer, rule_hits.OPERATION),
    Route("GET", policy_log.PATH, policy_log.answer, policy_log.OPERATION),
    Route("GET", "/api/v2/trace", trace.show_trace, trace.OPERATION),
    Route("POST", "/api/v2/trace", live_trace.answer, live_trace.OPERATION),
    Route("GET", reach.PATH, reach.answer, reach.OPERATION),
    Route("GET", overview.PATH, overview.answer, overview.OPERATION),
    Route("GET", whoami.PATH, whoami.answer, whoami.OPERATION),
    _agent_route(
        "allocAddress", endpoints.allocate_address, "allocate address", rpc.AllocAddressRequest
    ),
    _agent_route(
        "releaseAddress", endpoints.release_address, "release address", rpc.ReleaseAddressRequest
    ),
    _agent_route(
        "allocNetwork", endpoints.allocate_network, "allocate network", rpc.AllocNetworkRequest
    ),
    _agent_route(
        "addressBlocks",
        endpoints.renew_address_blocks,
        "renew address blocks",
        rpc.AddressBlocksRequest,
    ),
    _agent_route("freeNetwork", endpoints.free_network, "free network", rpc.FreeNetworkRequest),
    _agent_route(
        "createEndpoint", endpoints.create_endpoint, "create endpoint", rpc.CreateEndpointRequest
    ),
    _agent_route(
        "updateEndpoint", endpoints.update_endpoint, "update endpoint", rpc.UpdateEndpointRequest
    ),
    _agent_route(
        "deleteEndpoint", endpoints.delete_endpoint, "delete endpoint", rpc.DeleteEndpointRequest
    ),
    Route(
        "POST",
        f"{API}auth_proxy/login/",
        handlers.log_in,
        _json("log in", "login", {"type": "object", "properties": {"token": TEXT_SCHEMA}}),
    ),
    Route("GET", "/version", handlers.version, _page("version", "version")),
    Route("GET", "/info", handlers.info, _page("info", "info")),
    Route("GET", "/debug/ofnet", handlers.ofnet, _page("ofnet", "debug")),
    Route("GET", "/services", handlers.services, _page("services", "services")),
    Route("GET", "/openapi.json", _show_document, _json("openapi", "openapi", _OBJECT)),
    Route(
        "GET",
        "/hosts",
        handlers.hosts,
        _json("hosts", "hosts", {"type": "array", "items": HOST_SCHEMA}),
    ),
    Route("GET", "/ipam/check", handlers.ipam_check, _json("ipam check", "ipam", _OBJECT)),
    Route("POST", "/ipam/fix", handlers.ipam_fix, _json("ipam fix", "ipam", _OBJECT)),
    Route("GET", "/service/{key}", handlers.service, _page("service", "service")),
    Route("GET", "/hosts/{label}", handlers.host, _json("host", "hosts", HOST_SCHEMA)),
    Route(
        "DELETE",
        "/hosts/{label}",
        handlers.remove_host,
        _json("remove host", "hosts", REMOVED_SCHEMA),
    ),
    Route(
        "DELETE",
        "/hosts/{label}/force",
        handlers.force_host_away,
        _json("force host away", "hosts", REMOVED_SCHEMA),
    ),
    Route(
        "GET",
        "/hosts/{label}/drain",
        handlers.drained_host,
        _json("drained host", "hosts", DRAINED_SCHEMA),
    ),
    Route(
        "POST",
        "/hosts/{label}/drain",
        handlers.drain_host,
        _json("drain host", "hosts", DRAINED_SCHEMA),
    ),
    Route(
        "DELETE",
        "/hosts/{label}/drain",
        handlers.undrain_host,
        _json("undrain host", "hosts", DRAINED_SCHEMA),
    ),
    Route(
        "DELETE",
        "/debug/epcleanup/tenant/{tenant}/{category}/{key}",
        handlers.clean_up,
        OperationDoc(summary="clean up", tag="debug", answer=TEXT_SCHEMA, media=TEXT),
    ),
)
"""In the order of the OpenAPI document."""

ROUTE_FINDER: Final = RouteFinder(ROUTES)
