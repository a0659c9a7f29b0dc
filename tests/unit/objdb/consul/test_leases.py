"""`objdb.consul.leases`: no check of a lease that was not granted, or has ended, stays behind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from core.errors import ContivError, StoreDenied, StoreUnavailable
from objdb.access import StoreAccess
from objdb.consul.agents import ConsulAgents
from objdb.consul.leases import ConsulLeases

NO_LEADER: Final = 500, "No cluster leader"


class Consul:
    """An agent that keeps checks, before servers that refuse some sessions first.

    Once `removals_fail` it removes checks without an answer, as one does whose servers are away.
    """

    def __init__(self, *refusals: tuple[int, str]) -> None:
        self.checks: set[str] = set()
        self.registered = 0
        self.sessions: set[str] = set()
        self.removals_fail = False
        self._refusals = list(refusals)

    def app(self) -> web.Application:
        """Return what answers the requests of leases."""
        app = web.Application()
        app.router.add_put("/v1/agent/service/register", self._register)
        app.router.add_put("/v1/agent/check/pass/{check}", self._pass)
        app.router.add_put("/v1/agent/service/deregister/{check}", self._deregister)
        app.router.add_put("/v1/session/create", self._create)
        app.router.add_get("/v1/session/info/{session}", self._info)
        app.router.add_put("/v1/session/destroy/{session}", self._destroy)
        return app

    async def _register(self, request: web.Request) -> web.Response:
        self.checks.add((await request.json())["ID"])
        self.registered += 1
        return web.Response()

    async def _pass(self, request: web.Request) -> web.Response:
        if (check := request.match_info["check"]) not in self.checks:
            return web.Response(status=404, text=f'CheckID "{check}" does not have associated TTL')
        return web.Response()

    async def _deregister(self, request: web.Request) -> web.Response:
        self.checks.discard(request.match_info["check"])
        return _unanswered(request) if self.removals_fail else web.Response()

    async def _create(self, request: web.Request) -> web.Response:
        if self._refusals:
            status, text = self._refusals.pop(0)
            return web.Response(status=status, text=text)
        assert (await request.json())["ServiceChecks"][0]["ID"] in self.checks
        session = f"session-{len(self.sessions)}"
        self.sessions.add(session)
        return web.json_response({"ID": session})

    async def _info(self, request: web.Request) -> web.Response:
        known = self.sessions & {request.match_info["session"]}
        return web.json_response([{"ID": one} for one in known])

    async def _destroy(self, request: web.Request) -> web.Response:
        if self.removals_fail:
            return _unanswered(request)
        self.sessions.discard(request.match_info["session"])
        return web.json_response(data=True)


def _unanswered(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@asynccontextmanager
async def leases_at(consul: Consul) -> AsyncIterator[ConsulLeases]:
    async with TestServer(consul.app()) as server:
        agents = ConsulAgents(StoreAccess(endpoints=(f"127.0.0.1:{server.port}",)))
        leases = ConsulLeases(agents)
        yield leases
        await leases.stop()
        await agents.close()


async def test_attempts_that_fail_leave_no_check() -> None:
    consul = Consul(NO_LEADER, NO_LEADER, NO_LEADER)
    async with leases_at(consul) as leases:
        await leases.grant(2)
    assert consul.registered == 4
    assert len(consul.checks) == 1


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        ((403, "Permission denied"), StoreDenied),
        ((400, "Request decode failed"), StoreUnavailable),
    ],
)
async def test_a_refused_grant_leaves_no_check(
    refusal: tuple[int, str], error: type[ContivError]
) -> None:
    consul = Consul(refusal)
    async with leases_at(consul) as leases:
        with pytest.raises(error):
            await leases.grant(2)
    assert consul.registered == 1
    assert consul.checks == set()


async def test_an_attempt_whose_check_is_removed_without_an_answer_leaves_none_either() -> None:
    consul = Consul(NO_LEADER)
    consul.removals_fail = True
    async with leases_at(consul) as leases:
        await leases.grant(2)
    assert consul.registered == 2
    assert len(consul.checks) == 1


async def test_a_lease_that_ends_leaves_neither_session_nor_check() -> None:
    consul = Consul()
    async with leases_at(consul) as leases:
        lease = await leases.grant(2)
        assert len(consul.sessions) == len(consul.checks) == 1
        await lease.revoke()
    assert consul.sessions == set()
    assert consul.checks == set()


async def test_a_lease_that_ends_without_the_servers_leaves_no_check() -> None:
    consul = Consul()
    async with leases_at(consul) as leases:
        lease = await leases.grant(2)
        consul.removals_fail = True
        await lease.revoke()
    assert consul.checks == set()
