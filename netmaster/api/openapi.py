"""The OpenAPI 3.1 document of what a master serves, generated from its tables.

In come the kinds of objects (`netmaster.api.objects.KINDS`) and the single routes
(`netmaster.api.routes.EXACT`); out comes the document that `/openapi.json` shows. A kind that is
added to its table is here at once. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from contivmodel import rpc
from contivmodel.schema import TEXT, Schema, reference, schemas
from contivmodel.wire import WireModel
from netmaster.api.objects import ENDPOINTS, KINDS, ObjectClass
from netmaster.api.routes import API, EXACT, RouteAction
from netmaster.stored import CleanupCategory

BODIES: Final[Mapping[RouteAction, type[WireModel]]] = {
    RouteAction.ALLOCATE_ADDRESS: rpc.AllocAddressRequest,
    RouteAction.RELEASE_ADDRESS: rpc.ReleaseAddressRequest,
    RouteAction.CREATE_ENDPOINT: rpc.CreateEndpointRequest,
    RouteAction.UPDATE_ENDPOINT: rpc.UpdateEndpointRequest,
    RouteAction.DELETE_ENDPOINT: rpc.DeleteEndpointRequest,
}
"""What the agents' routes take."""

_KEY: Final[Schema] = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": "the object's key: the fields that name it, joined by a colon",
    "schema": {**TEXT, "minLength": 1, "pattern": "^[^/]+$"},
}
_TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
_HOST_FIELDS: Final[Mapping[str, Schema]] = {
    "label": TEXT,
    "controlIP": TEXT,
    "vtepIP": TEXT,
    "uplinkMACs": _TEXTS,
    "version": TEXT,
    "registered": {"type": "boolean"},
    "ends": _TEXTS,
    "applied": {"type": "boolean"},
    "behind": {**TEXT, "description": "why the host has not applied all that was changed"},
    "errors": _TEXTS,
    "endpoints": {"type": "integer", "minimum": 0},
    "drained": {"type": "boolean"},
}
_MISSING_SINCE: Final[Schema] = {
    "type": "number",
    "description": "since when its agent is not registered, in seconds since 1970, where known",
}
_HOST: Final[Schema] = {
    "type": "object",
    "properties": {**_HOST_FIELDS, "missingSince": _MISSING_SINCE},
    "required": list(_HOST_FIELDS),
}
_DRAINED: Final[Schema] = {
    "type": "object",
    "properties": {name: _HOST_FIELDS[name] for name in ("label", "drained", "endpoints")},
}
_REMOVED: Final[Schema] = {
    "type": "object",
    "properties": {name: _HOST_FIELDS[name] for name in ("label", "endpoints")},
}
_REFUSAL: Final[Schema] = {
    "description": "refused or failed; the first line says why",
    "content": {"text/plain": {"schema": TEXT}},
}
_FAILURES: Final[Schema] = {
    "404": {"description": "no such path", "content": {"text/plain": {"schema": TEXT}}},
    "413": {"description": "the body is too large", "content": {"text/plain": {"schema": TEXT}}},
    "500": _REFUSAL,
}


def document(version: str) -> dict[str, Any]:
    """Return the document."""
    models = (*(kind.model for kind in KINDS.values()), *BODIES.values())
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Contiv netmaster",
            "version": version,
            "description": "Tenants, networks, groups and all else of the cluster. "
            "POST and PUT both create an object, or update it where it exists.",
        },
        "paths": dict(_paths()),
        "components": {"schemas": schemas(models)},
    }


def _paths() -> Iterator[tuple[str, Schema]]:
    for plural, kind in KINDS.items():
        yield from _object_paths(plural, kind)
    yield (
        f"{API}inspect/{ENDPOINTS}/{{key}}/",
        {"parameters": [_KEY], "get": _operation("inspect endpoint", "endpoint", _oper())},
    )
    for (method, path), target in EXACT.items():
        yield path, {method.lower(): _single(path, target.action)}
    yield (
        "/service/{key}",
        {"parameters": [_KEY], "get": _operation("service", "service", {}, media="text/plain")},
    )
    yield from _host_paths()
    names = [{**_KEY, "name": name} for name in ("tenant", "category", "key")]
    names[1] = {**names[1], "schema": {**TEXT, "enum": list(CleanupCategory)}}
    yield (
        "/debug/epcleanup/tenant/{tenant}/{category}/{key}",
        {"parameters": names, "delete": _operation("clean up", "debug", TEXT, media="text/plain")},
    )


def _host_paths() -> Iterator[tuple[str, Schema]]:
    parameters = [{**_KEY, "name": "label", "description": "the host's label"}]
    methods = {"get": "drained host", "post": "drain host", "delete": "undrain host"}
    drained = {method: _operation(name, "hosts", _DRAINED) for method, name in methods.items()}
    shown = {"get": _operation("host", "hosts", _HOST)}
    removed = {"delete": _operation("remove host", "hosts", _REMOVED)}
    forced = {"delete": _operation("force host away", "hosts", _REMOVED)}
    yield "/hosts/{label}", {"parameters": parameters, **shown, **removed}
    yield "/hosts/{label}/force", {"parameters": parameters, **forced}
    yield "/hosts/{label}/drain", {"parameters": parameters, **drained}


def _object_paths(plural: str, kind: ObjectClass) -> Iterator[tuple[str, Schema]]:
    name = kind.model.kind
    whole = reference(kind.model)
    yield (
        f"{API}{plural}/",
        {"get": _operation(f"list {name}", name, {"type": "array", "items": whole})},
    )
    body = _body(whole)
    yield (
        f"{API}{plural}/{{key}}/",
        {
            "parameters": [_KEY],
            "get": _operation(f"read {name}", name, whole),
            "post": _operation(f"write {name}", name, whole) | body,
            "put": _operation(f"put {name}", name, whole) | body,
            "delete": _operation(f"delete {name}", name, TEXT),
        },
    )
    yield (
        f"{API}inspect/{plural}/{{key}}/",
        {"parameters": [_KEY], "get": _operation(f"inspect {name}", name, _oper(whole))},
    )


def _single(path: str, action: RouteAction) -> Schema:
    name = action.name.lower().replace("_", " ")
    tag = path.strip("/").partition("/")[0].partition(".")[0]
    if action in {RouteAction.OPENAPI, RouteAction.IPAM_CHECK, RouteAction.IPAM_FIX}:
        return _operation(name, tag, {"type": "object"})
    if action is RouteAction.HOSTS:
        return _operation(name, tag, {"type": "array", "items": _HOST})
    if path.startswith("/plugin/"):
        return _operation(name, tag, {}) | _body(
            reference(BODIES[action]) if action in BODIES else {"type": "object"}
        )
    return _operation(name, tag, {}, media="text/plain")


def _body(schema: Schema) -> Schema:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _oper(config: Schema | None = None) -> Schema:
    """Return the schema of an inspection: the object, if there is one, and how it fares."""
    oper: Schema = {"Oper": {"type": "object"}}
    return {"type": "object", "properties": {"Config": config, **oper} if config else oper}


def _operation(name: str, tag: str, answer: Schema, *, media: str = "application/json") -> Schema:
    return {
        "operationId": "".join(
            word if at == 0 else word[:1].upper() + word[1:] for at, word in enumerate(name.split())
        ),
        "summary": name,
        "tags": [tag],
        "responses": {
            "200": {"description": "done", "content": {media: {"schema": answer}}},
            **_FAILURES,
        },
    }
