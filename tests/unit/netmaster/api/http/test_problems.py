"""Errors of API v2: a kind for each class, and a body that names the fault and the remedy."""

import json
from urllib.parse import urlsplit

import pytest

from contivmodel.representation import InvalidFields
from core.errors import (
    AgentUnavailable,
    Conflict,
    ContivError,
    Exhausted,
    Invalid,
    Malformed,
    NotFound,
    NotLeader,
    NotSupported,
    PreconditionFailed,
    StoreFull,
    StoreUnavailable,
    TooLarge,
)
from netmaster.api.http.bodies import BodyTooSlow
from netmaster.api.http.problems import (
    KINDS,
    TYPE,
    KeyReused,
    TooManyWatches,
    UnsupportedMedia,
    body,
    faults_of,
    kind_of,
    of_status,
)
from netmaster.auth.roles import AccessDenied, NotAuthenticated


@pytest.mark.parametrize(
    ("error", "name", "status"),
    [
        (Malformed("x"), "malformed-request", 400),
        (NotSupported("x"), "malformed-request", 400),
        (NotAuthenticated("x"), "not-authenticated", 401),
        (AccessDenied("x"), "access-denied", 403),
        (NotFound("x"), "not-found", 404),
        (BodyTooSlow("x"), "", 408),
        (Conflict("x"), "conflict", 409),
        (Exhausted("x"), "exhausted", 409),
        (PreconditionFailed("x"), "precondition-failed", 412),
        (TooLarge("x"), "too-large", 413),
        (UnsupportedMedia("x"), "unsupported-media-type", 415),
        (Invalid("x"), "invalid-value", 422),
        (KeyReused("x"), "idempotency-key-reused", 422),
        (ContivError("x"), "internal-error", 500),
        (AgentUnavailable("x"), "agent-unreachable", 502),
        (NotLeader("x"), "no-leader", 503),
        (StoreUnavailable("x"), "store-unavailable", 503),
        (StoreFull("x"), "store-full", 503),
        (TooManyWatches("x"), "too-many-watches", 503),
    ],
)
def test_each_class_has_a_kind(error: ContivError, name: str, status: int) -> None:
    assert (kind_of(error).name, kind_of(error).status) == (name, status)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_has_a_type_of_its_own_and_a_remedy(kind: object) -> None:
    (same,) = [each for each in KINDS if each == kind]
    assert same.remedy
    assert urlsplit(TYPE + same.name).scheme == "urn"
    assert [each.name for each in KINDS].count(same.name) == 1


def test_a_problem_says_what_is_wrong() -> None:
    error = InvalidFields([("subnet", "is missing")])
    assert json.loads(body(kind_of(error), str(error), faults_of(error))) == {
        "type": "urn:contiv:problem:invalid-value",
        "title": "the object cannot be as it was sent",
        "status": 422,
        "detail": "subnet: is missing",
        "remedy": "correct the fields that `errors` or `detail` names",
        "errors": [{"pointer": "#/subnet", "detail": "is missing"}],
    }
    assert set(json.loads(body(kind_of(Conflict("x")), "x"))) == {
        *("type", "title", "status", "detail", "remedy")
    }


@pytest.mark.parametrize(("status", "name"), [(413, "too-large"), (502, "leader-unreachable")])
def test_a_status_alone_has_a_kind(status: int, name: str) -> None:
    assert of_status(status).name == name
    assert of_status(500).name == of_status(599).name == "internal-error"
