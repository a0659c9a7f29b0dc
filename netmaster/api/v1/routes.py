"""The routes of API v1 and what OpenAPI tells of them, for `netmaster.api.route_table`.

The original's paths, those of agents (`/plugin/*`), and what this master has beside them: hosts and
the check of addresses.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from contivmodel import rpc
from contivmodel.schema import TEXT as TEXT_SCHEMA
from contivmodel.schema import Schema, reference
from contivmodel.wire import WireModel
from netmaster.api.http.routes import TEXT, OperationDoc, Route
from netmaster.api.leader import dry_run
from netmaster.api.leader.hosts import DrainedHost, RemovedHost
from netmaster.api.leader.leader_context import Handler
from netmaster.api.v1 import agent_calls, handlers
from netmaster.api.v1.agent_calls import ReadCall
from netmaster.api.v1.objects import ENDPOINTS, ObjectClass
from netmaster.host_progress import ShownHost

API: Final = "/api/v1/"

_OBJECT: Final[Schema] = {"type": "object"}


def object_routes(kinds: Iterable[ObjectClass]) -> Iterator[Route[Handler]]:
    """Yield the routes of all classes of objects."""
    for kind in kinds:
        yield from _routes_of(kind)


def _routes_of(kind: ObjectClass) -> Iterator[Route[Handler]]:
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
    """Return the OpenAPI operation of a text route, whose text may be JSON."""
    return OperationDoc(summary=summary, tag=tag, media=TEXT)


def _json(summary: str, tag: str, answer: Schema | type[Any]) -> OperationDoc:
    return OperationDoc(summary=summary, tag=tag, answer=answer)


INSPECT_ENDPOINT: Final[Route[Handler]] = Route(
    "GET",
    f"{API}inspect/{ENDPOINTS}/{{key}}/",
    handlers.inspect_endpoint,
    _json("inspect endpoint", "endpoint", _operational_state()),
)

AGENT_ROUTES: Final[tuple[Route[Handler], ...]] = (
    _agent_route(
        "allocAddress", agent_calls.allocate_address, "allocate address", rpc.AllocAddressRequest
    ),
    _agent_route(
        "releaseAddress", agent_calls.release_address, "release address", rpc.ReleaseAddressRequest
    ),
    _agent_route(
        "allocNetwork", agent_calls.allocate_network, "allocate network", rpc.AllocNetworkRequest
    ),
    _agent_route(
        "addressBlocks",
        agent_calls.renew_address_blocks,
        "renew address blocks",
        rpc.AddressBlocksRequest,
    ),
    _agent_route("freeNetwork", agent_calls.free_network, "free network", rpc.FreeNetworkRequest),
    _agent_route(
        "createEndpoint", agent_calls.create_endpoint, "create endpoint", rpc.CreateEndpointRequest
    ),
    _agent_route(
        "updateEndpoint", agent_calls.update_endpoint, "update endpoint", rpc.UpdateEndpointRequest
    ),
    _agent_route(
        "deleteEndpoint", agent_calls.delete_endpoint, "delete endpoint", rpc.DeleteEndpointRequest
    ),
)
"""What agents ask."""

PAGES: Final[tuple[Route[Handler], ...]] = (
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
)
"""The login, and pages about the master and services."""

UPKEEP: Final[tuple[Route[Handler], ...]] = (
    Route(
        "GET",
        "/hosts",
        handlers.hosts,
        _json("hosts", "hosts", list[ShownHost]),
    ),
    Route("GET", "/ipam/check", handlers.ipam_check, _json("ipam check", "ipam", _OBJECT)),
    Route("POST", "/ipam/fix", handlers.ipam_fix, _json("ipam fix", "ipam", _OBJECT)),
    Route("GET", "/service/{key}", handlers.service, _page("service", "service")),
    Route("GET", "/hosts/{label}", handlers.host, _json("host", "hosts", ShownHost)),
    Route(
        "DELETE",
        "/hosts/{label}",
        handlers.remove_host,
        _json("remove host", "hosts", RemovedHost),
    ),
    Route(
        "DELETE",
        "/hosts/{label}/force",
        handlers.force_host_away,
        _json("force host away", "hosts", RemovedHost),
    ),
    Route(
        "GET",
        "/hosts/{label}/drain",
        handlers.drained_host,
        _json("drained host", "hosts", DrainedHost),
    ),
    Route(
        "POST",
        "/hosts/{label}/drain",
        handlers.drain_host,
        _json("drain host", "hosts", DrainedHost),
    ),
    Route(
        "DELETE",
        "/hosts/{label}/drain",
        handlers.undrain_host,
        _json("undrain host", "hosts", DrainedHost),
    ),
    Route(
        "DELETE",
        "/debug/epcleanup/tenant/{tenant}/{category}/{key}",
        handlers.clean_up,
        OperationDoc(summary="clean up", tag="debug", answer=TEXT_SCHEMA, media=TEXT),
    ),
)
"""Hosts, the check of addresses, and the removal of endpoints that are left over."""
