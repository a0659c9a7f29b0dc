"""Errors of API v2: a status for each class, and a body that names the fault."""

import json

import pytest

from core.errors import Conflict, ContivError, Invalid, NotFound, NotLeader, StoreFull
from netmaster.api.problems import body, status_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Invalid("x"), 400),
        (NotFound("x"), 404),
        (Conflict("x"), 409),
        (NotLeader("x"), 503),
        (StoreFull("x"), 503),
        (ContivError("x"), 500),
    ],
)
def test_each_class_has_a_status(error: ContivError, status: int) -> None:
    assert status_of(error)[0] == status


def test_a_problem_says_what_is_wrong() -> None:
    assert json.loads(body(409, "conflict", "network n1 has endpoints")) == {
        "type": "about:blank",
        "title": "conflict",
        "status": 409,
        "detail": "network n1 has endpoints",
    }
