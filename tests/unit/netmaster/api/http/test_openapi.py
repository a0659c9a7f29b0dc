"""The OpenAPI document: valid, and complete by itself."""

import json
import re
from typing import Any, cast

import pytest
from aiohttp import web
from openapi_spec_validator import validate

from contivmodel.schema import hoisted, named
from core.version import VERSION
from netmaster.api.http import openapi
from netmaster.api.route_table import ROUTE_FINDER, ROUTES, document
from netmaster.api.v1.objects import OBJECT_CLASSES
from netmaster.api.v2.examples import EXAMPLES


@pytest.fixture(scope="module")
def served() -> dict[str, Any]:
    """Return the document."""
    return document("1.2")


def test_it_is_valid(served: dict[str, Any]) -> None:
    validate(served)
    assert served["openapi"].startswith("3.1")
    assert served["info"]["version"] == "1.2"


@pytest.mark.parametrize("plural", OBJECT_CLASSES)
def test_every_kind_is_there_whole(served: dict[str, Any], plural: str) -> None:
    assert "get" in served["paths"][f"/api/v1/{plural}/"]
    assert "get" in served["paths"][f"/api/v1/inspect/{plural}/{{key}}/"]
    item = served["paths"][f"/api/v1/{plural}/{{key}}/"]
    assert {"get", "post", "put", "delete"} <= set(item)


def operations(served: dict[str, Any]) -> set[tuple[str, str]]:
    """Return method and path of every operation."""
    return {
        (method.upper(), path)
        for path, item in served["paths"].items()
        for method in set(item) - {"parameters"}
    }


def test_what_is_documented_and_what_is_dispatched_is_the_same(served: dict[str, Any]) -> None:
    assert operations(served) == {(route.method, route.pattern) for route in ROUTES}
    assert len(operations(served)) == len(ROUTES)
    for method, path in operations(served):
        found = ROUTE_FINDER.find(method, re.sub(r"\{\w+\}", "a", path))
        assert found is not None, path
        assert (found.route.method, found.route.pattern) == (method, path)


def test_every_body_of_the_agents_is_described(served: dict[str, Any]) -> None:
    posted = {path for _, path in operations(served) if path.startswith("/plugin/")}
    assert len(posted) == 8
    for path in posted:
        content = served["paths"][path]["post"]["requestBody"]["content"]
        name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert name in served["components"]["schemas"]


def test_operations_have_names_of_their_own(served: dict[str, Any]) -> None:
    names = [
        item[method]["operationId"]
        for item in served["paths"].values()
        for method in set(item) - {"parameters"}
    ]
    assert len(names) == len(set(names))


def test_a_generated_client_can_change_one_field_of_every_kind(served: dict[str, Any]) -> None:
    """Named once, nullable, and without defaults, which a client would send for other fields."""
    for plural in OBJECT_CLASSES:
        content = served["paths"][f"/api/v2/{plural}/{{key}}"]["patch"]["requestBody"]["content"]
        (name,) = {media["schema"]["$ref"].rpartition("/")[2] for media in content.values()}
        for field in served["components"]["schemas"][name]["properties"].values():
            typed, null = field["anyOf"]
            assert null == {"type": "null"}
            assert "type" in typed
            assert "default" not in typed


def test_objects_have_no_alternatives(served: dict[str, Any]) -> None:
    """Of which generators of clients make no class."""
    for name, schema in served["components"]["schemas"].items():
        if "properties" in schema:
            assert not {"anyOf", "oneOf", "allOf"} & schema.keys(), name


def test_failures_of_v2_are_one_problem(served: dict[str, Any]) -> None:
    problem = {"$ref": "#/components/responses/Problem"}
    for path, item in served["paths"].items():
        for method in set(item) - {"parameters"} if path.startswith("/api/v2/") else ():
            failures = {s: a for s, a in item[method]["responses"].items() if int(s) >= 400}
            assert failures
            assert all(answer == problem for answer in failures.values()), (method, path)


def test_bodies_of_v2_are_named(served: dict[str, Any]) -> None:
    inline = [
        (path, method)
        for path, item in served["paths"].items()
        for method in ("post", "put", "patch")
        if path.startswith("/api/v2/") and "requestBody" in item.get(method, {})
        for media in item[method]["requestBody"]["content"].values()
        if set(media["schema"]) != {"$ref"}
    ]
    assert inline == []


def test_clients_are_told_where_to_ask_and_how_to_sign_in(served: dict[str, Any]) -> None:
    (server,) = served["servers"]
    assert server["url"] == "/", "any netmaster answers for itself"
    schemes = served["components"]["securitySchemes"]
    assert schemes["token"] | {"description": ""} == {
        "type": "apiKey",
        "in": "header",
        "name": "X-Auth-Token",
        "description": "",
    }
    assert {name for one in served["security"] for name in one} == set(schemes)


@pytest.mark.parametrize("plural", EXAMPLES)
def test_bodies_of_v2_have_examples(served: dict[str, Any], plural: str) -> None:
    content = served["paths"][f"/api/v2/{plural}"]["post"]["requestBody"]["content"]
    assert content["application/json"]["example"] == EXAMPLES[plural]


def test_a_name_stands_for_one_schema() -> None:
    found: dict[str, Any] = {}
    page = {"items": [named("One", {"type": "string"}), named("One", {"type": "string"})]}
    assert hoisted(page, found) == {"items": [{"$ref": "#/components/schemas/One"}] * 2}
    assert found == {"One": {"type": "string"}}
    with pytest.raises(ValueError, match="two schemas are called One"):
        hoisted(named("One", {"type": "integer"}), found)


def test_a_property_may_be_called_title() -> None:
    schema = {"properties": {"title": named("Title", {"type": "string"}), "type": {}}}
    assert hoisted(schema, {}) == {
        "properties": {"title": {"$ref": "#/components/schemas/Title"}, "type": {}}
    }


async def test_it_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ROUTE_FINDER.find("GET", "/openapi.json")
    assert found is not None
    leader, request = cast(Any, None), cast(Any, None)  # it is the same for every one
    first = await found.route.handler(leader, request)
    monkeypatch.delattr(openapi, "document")
    second = await found.route.handler(leader, request)
    assert isinstance(first, web.Response)
    assert isinstance(second, web.Response)
    assert first.body == second.body
    assert json.loads(first.text or "")["info"]["version"] == VERSION
