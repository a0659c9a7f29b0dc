"""The OpenAPI 3.1 document of what a master serves, made from the table of routes. Pure.

In comes `netmaster.api.route_table.ROUTES`; out comes the document that `/openapi.json` shows.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from contivmodel.answers import described, schema_of
from contivmodel.kinds import KINDS
from contivmodel.schema import (
    TEXT,
    Schema,
    hoisted,
    patch_schemas,
    reference,
    schemas,
    shown_schemas,
)
from netmaster.api.http import paging, problems, queries
from netmaster.api.http.routes import OperationDoc, Route
from netmaster.stored import CleanupCategory

H = TypeVar("H")

_KEY: Final[Schema] = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": "the object's key: the fields that name it, joined by a colon",
    "schema": {**TEXT, "minLength": 1, "pattern": "^[^/]+$"},
}
_PARAMETERS: Final[dict[str, Schema]] = {
    "key": _KEY,
    "tenant": {**_KEY, "name": "tenant"},
    "category": {**_KEY, "name": "category", "schema": {**TEXT, "enum": list(CleanupCategory)}},
    "label": {**_KEY, "name": "label", "description": "the host's label"},
}
"""Path parameter -> what the document says of it."""

_REFUSAL: Final[Schema] = {
    "description": "refused or failed; the first line says why",
    "content": {"text/plain": {"schema": TEXT}},
}
_FAILURES: Final[Schema] = {
    "404": {"description": "no such path", "content": {"text/plain": {"schema": TEXT}}},
    "413": {"description": "the body is too large", "content": {"text/plain": {"schema": TEXT}}},
    "500": _REFUSAL,
}
_PROBLEM: Final = schema_of(problems.Problem)
_RESPONSES: Final[Schema] = {
    "Problem": {
        "description": "refused or failed; `detail` says why, `remedy` what to do",
        "content": {problems.MEDIA: {"schema": _PROBLEM}},
    }
}
_PROBLEMS: Final[Schema] = {
    str(status): {"$ref": "#/components/responses/Problem"}
    for status in sorted({kind.status for kind in problems.KINDS})
}
_SECURITY: Final[Schema] = {
    "token": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Auth-Token",
        "description": "the token that `POST /api/v1/auth_proxy/login/` answers",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "a certificate that the cluster's authority signed",
    },
}
_SERVERS: Final = (
    {"url": "/", "description": "the netmaster that served this document; any of them answers"},
)
_QUERY_SCHEMAS: Final[dict[str, Schema]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": paging.MOST},
    queries.DRY_RUN: {"type": "boolean"},
}
"""Query parameter -> its schema if it is not a text."""


def document(routes: Iterable[Route[H]], version: str) -> dict[str, Any]:
    """Return the document of a table of routes."""
    paths: dict[str, Schema] = {}
    models = []
    for route in routes:
        item = paths.setdefault(route.pattern, {})
        if route.parameters:
            item["parameters"] = [_PARAMETERS[name] for name in route.parameters]
        failures = _PROBLEMS if problems.is_asked_by(route.pattern) else _FAILURES
        item[route.method.lower()] = _operation(route.operation, failures)
        if route.operation.body is not None:
            models.append(route.operation.body)
    named_ones: dict[str, Schema] = {}
    responses = hoisted(_RESPONSES, named_ones)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Contiv netmaster",
            "version": version,
            "description": "Tenants, networks, groups and all else of the cluster. "
            "POST and PUT both create an object, or update it where it exists.",
        },
        "servers": list(_SERVERS),
        # either of them, or none where the master asks for none
        "security": [{}, *({scheme: []} for scheme in _SECURITY)],
        "paths": hoisted(paths, named_ones),
        "components": {
            "schemas": {
                **schemas(models),
                **shown_schemas(KINDS.values()),
                **patch_schemas(KINDS.values()),
                **named_ones,
            },
            "responses": responses,
            "securitySchemes": _SECURITY,
        },
    }


def _operation(operation: OperationDoc, failures: Schema) -> Schema:
    shown: Schema = {
        "operationId": _camel_case(operation.summary),
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {
            "200": {
                "description": "done",
                "content": {operation.media: {"schema": described(operation.answer)}},
            },
            **{
                str(status): _answer(operation.media, schema)
                for status, schema in operation.answers.items()
            },
            **failures,
        },
    }
    if operation.query or operation.headers:
        shown["parameters"] = [
            *(_parameter("query", *each) for each in operation.query.items()),
            *(_parameter("header", *each) for each in operation.headers.items()),
        ]
    taken = operation.content
    if operation.body is not None:
        taken = {"application/json": reference(operation.body)}
    if taken:
        example = {} if operation.example is None else {"example": operation.example}
        content = {media: {"schema": schema, **example} for media, schema in taken.items()}
        shown["requestBody"] = {"required": True, "content": content}
    return shown


def _answer(media: str, schema: Schema | None) -> Schema:
    described: Schema = {"description": "done"}
    return described if schema is None else {**described, "content": {media: {"schema": schema}}}


def _parameter(place: str, name: str, text: str) -> Schema:
    schema = _QUERY_SCHEMAS.get(name, TEXT)
    return {"name": name, "in": place, "description": text, "schema": schema}


def _camel_case(words: str) -> str:
    first, *others = words.split()
    return first + "".join(word[:1].upper() + word[1:] for word in others)
