"""The OpenAPI document: valid, and complete by itself."""

import re
from typing import Any

import pytest
from openapi_spec_validator import validate

from netmaster.api import routes
from netmaster.api.objects import KINDS
from netmaster.api.openapi import BODIES, document


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


def test_every_operation_is_routed(served: dict[str, Any]) -> None:
    for path, item in served["paths"].items():
        for method in set(item) - {"parameters"}:
            concrete = re.sub(r"\{\w+\}", "a", path)
            assert routes.find(method.upper(), concrete) is not None, path


def test_every_single_route_is_there(served: dict[str, Any]) -> None:
    for method, path in routes.EXACT:
        assert method.lower() in served["paths"][path]


def test_every_body_of_the_agents_is_described() -> None:
    posted = {target.action for (_, path), target in routes.EXACT.items() if "/plugin/" in path}
    assert set(BODIES) == posted


def test_operations_have_names_of_their_own(served: dict[str, Any]) -> None:
    names = [
        item[method]["operationId"]
        for item in served["paths"].values()
        for method in set(item) - {"parameters"}
    ]
    assert len(names) == len(set(names))
