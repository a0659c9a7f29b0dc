"""`objdb.consul.leases`: no check of a lease that was not granted, or has ended, stays behind."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Final

import pytest

from core.errors import ContivError, StoreDenied, StoreUnavailable
from objdb.access import StoreAccess
from objdb.consul.agents import ConsulAgent, ConsulAgents
from objdb.consul.leases import ConsulLeases
from objdb.failover import Failover, NoAnswer

NO_LEADER: Final = NoAnswer("no answer within 1 s")


class Agent(ConsulAgent):
    """An agent that keeps checks, before servers that refuse some sessions first.

    Once `removals_fail` it removes checks without an answer, as one does whose servers are away.
    """

    def __init__(self, *refusals: Exception) -> None:
        self.address = "127.0.0.1:1"
        self.checks: set[str] = set()
        self.registered = 0
        self.sessions: set[str] = set()
        self.removals_fail = False
        self._refusals = list(refusals)
        self.client: Any = SimpleNamespace(
            http=SimpleNamespace(put=self._put),
            agent=SimpleNamespace(
                check=SimpleNamespace(ttl_pass=self._passed),
                service=SimpleNamespace(deregister=self._deregister),
            ),
            session=SimpleNamespace(destroy=self._destroy),
        )

    async def call(self, ask: Callable[[Any], Awaitable[Any]], attempt: float = 1.0) -> Any:
        assert attempt > 0
        return await ask(self.client)

    async def _put(self, _answer: object, path: str, *, data: str) -> str:
        if path == "/v1/agent/service/register":
            self.checks.add(json.loads(data)["ID"])
            self.registered += 1
            return ""
        if self._refusals:
            raise self._refusals.pop(0)
        session = f"session-{len(self.sessions)}"
        self.sessions.add(session)
        return session

    async def _passed(self, check: str) -> None:
        assert check in self.checks

    async def _deregister(self, check: str) -> None:
        self.checks.discard(check)
        if self.removals_fail:
            raise NO_LEADER

    async def _destroy(self, session: str) -> None:
        if self.removals_fail:
            raise NO_LEADER
        self.sessions.discard(session)


class Agents(ConsulAgents):
    """One agent."""

    def __init__(self, agent: Agent) -> None:
        self.access = StoreAccess(endpoints=(agent.address,))
        self.context = None
        Failover.__init__(self, [agent])


@asynccontextmanager
async def leases_at(agent: Agent) -> AsyncIterator[ConsulLeases]:
    leases = ConsulLeases(Agents(agent))
    yield leases
    await leases.stop()


async def test_attempts_that_fail_leave_no_check() -> None:
    agent = Agent(NO_LEADER, NO_LEADER, NO_LEADER)
    async with leases_at(agent) as leases:
        await leases.grant(2)
    assert agent.registered == 4
    assert len(agent.checks) == 1


@pytest.mark.parametrize("refusal", [StoreDenied("no right"), StoreUnavailable("bad request")])
async def test_a_refused_grant_leaves_no_check(refusal: ContivError) -> None:
    agent = Agent(refusal)
    async with leases_at(agent) as leases:
        with pytest.raises(type(refusal)):
            await leases.grant(2)
    assert agent.registered == 1
    assert agent.checks == set()


async def test_an_attempt_whose_check_is_removed_without_an_answer_leaves_none_either() -> None:
    agent = Agent(NO_LEADER)
    agent.removals_fail = True
    async with leases_at(agent) as leases:
        await leases.grant(2)
    assert len(agent.checks) == 1


async def test_a_lease_that_ends_leaves_neither_session_nor_check() -> None:
    agent = Agent()
    async with leases_at(agent) as leases:
        lease = await leases.grant(2)
        await lease.revoke()
    assert agent.sessions == set()
    assert agent.checks == set()


async def test_a_lease_that_ends_without_the_servers_leaves_no_check() -> None:
    agent = Agent()
    async with leases_at(agent) as leases:
        lease = await leases.grant(2)
        agent.removals_fail = True
        await lease.revoke()
    assert agent.checks == set()
