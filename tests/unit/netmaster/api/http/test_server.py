"""The outermost edge turns every failure into an answer."""

import json
import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from core.errors import (
    AgentUnavailable,
    Conflict,
    ContivError,
    NotFound,
    NotLeader,
    StoreUnavailable,
)
from daemons.health import Health
from netmaster.api.http.bodies import MAX_BODY
from netmaster.api.http.server import RestServer, Role, read_body


async def answered(role: Role, method: str = "GET") -> web.Response:
    server = RestServer()
    server.role = role
    reply = await server._handle(make_mocked_request(method, "/x"))
    assert isinstance(reply, web.Response)
    return reply


def failing(exc: BaseException) -> Role:
    async def role(_: web.BaseRequest) -> web.StreamResponse:
        raise exc

    return role


@pytest.mark.parametrize("role", [None, failing(Conflict("not asked"))])
async def test_health_is_answered_in_any_role(role: Role | None) -> None:
    async def no_leader() -> None:
        raise NotLeader("no netmaster leads")

    server = RestServer(health=Health({"leader": no_leader}))
    if role is not None:
        server.role = role
    reply = await server._handle(make_mocked_request("GET", "/readyz"))
    assert isinstance(reply, web.Response)
    assert (reply.status, reply.content_type) == (503, "application/json")
    assert reply.text is not None
    assert json.loads(reply.text)["checks"] == {"leader": "no netmaster leads"}
    assert (await server._handle(make_mocked_request("GET", "/healthz"))).status == 200


async def test_without_a_role_there_is_no_leader() -> None:
    reply = await RestServer()._handle(make_mocked_request("GET", "/x"))
    assert isinstance(reply, web.Response)
    assert (reply.status, reply.body) == (500, b"Leader not found\n")


@pytest.mark.parametrize("exc", [Conflict("in use"), ContivError("in use")])
async def test_our_errors_become_their_text(exc: ContivError) -> None:
    reply = await answered(failing(exc))
    assert (reply.status, reply.body) == (500, b"in use\n")
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("exc", "outcome", "retry"),
    [
        (Conflict("in use"), "refused", None),
        (NotFound("key not found"), "absent", None),
        (NotLeader("Leader not found"), "refused", "1"),
        (StoreUnavailable("the store is full"), "refused", "1"),
        (AgentUnavailable("2 endpoints removed, but not from every host"), None, None),
    ],
)
async def test_a_refusal_says_that_nothing_was_done(
    exc: ContivError, outcome: str | None, retry: str | None
) -> None:
    """The finding of docs/notes/trust.md §9."""
    reply = await answered(failing(exc), "POST")
    assert (reply.status, reply.body) == (500, f"{exc}\n".encode())
    assert reply.headers.get("Contiv-Outcome") == outcome
    assert reply.headers.get("Retry-After") == retry


async def test_a_change_that_may_have_been_made_is_not_refused() -> None:
    """The finding of docs/notes/trust.md §9."""
    reply = await answered(failing(StoreUnavailable("no answer", outcome_unknown=True)), "POST")
    text = b"outcome unknown: POST /x may have been done; ask again: no answer\n"
    assert (reply.status, reply.body) == (500, text)
    assert (reply.headers["Contiv-Outcome"], reply.headers["Retry-After"]) == ("unknown", "1")


async def test_a_read_changes_nothing() -> None:
    reply = await answered(failing(StoreUnavailable("no answer", outcome_unknown=True)))
    assert (reply.status, reply.body) == (500, b"no answer\n")
    assert reply.headers["Contiv-Outcome"] == "refused"


async def test_the_unforeseen_is_logged_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        reply = await answered(failing(KeyError("x")))
    assert (reply.status, reply.body) == (500, b"internal error: KeyError: 'x'\n")
    (record,) = caplog.records
    assert record.exc_info
    assert (record.__dict__["method"], record.__dict__["path"]) == ("GET", "/x")


async def test_a_body_announced_too_large_is_not_read() -> None:
    async def role(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=await read_body(request))

    server = RestServer()
    server.role = role
    request = make_mocked_request("POST", "/x", {"Content-Length": str(MAX_BODY + 1)})
    reply = await server._handle(request)
    assert isinstance(reply, web.Response)
    assert (reply.status, reply.body) == (413, b"request body is larger than 1048576 bytes\n")
