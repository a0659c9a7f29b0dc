"""The OpenAPI document: valid, and complete by itself."""

import re
from typing import Any

import pytest
from openapi_spec_validator import validate

from netmaster.api.objects import KINDS
from netmaster.api.route_table import ROUTE_FINDER, ROUTES, document


@pytest.fixture(scope="module")
def served() -> dict[str, Any]:
    """Return the document."""
    return document("1.2")


def test_it_is_valid(served: dict[str, Any]) -> None:
    validate(served)
    assert served["openapi"].startswith("3.1")
    assert served["info"]["version"] == "1.2"


@pytest.mark.parametrize("plural", KINDS)
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
