"""The outermost edge turns every failure into an answer."""

import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from core.errors import Conflict, ContivError
from netmaster.api.bodies import MAX_BODY
from netmaster.api.server import RestServer, Role, read_body


async def answered(role: Role) -> web.Response:
    server = RestServer()
    server.role = role
    reply = await server._handle(make_mocked_request("GET", "/x"))
    assert isinstance(reply, web.Response)
    return reply


def failing(exc: BaseException) -> Role:
    async def role(_: web.BaseRequest) -> web.StreamResponse:
        raise exc

    return role


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
