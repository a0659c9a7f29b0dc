"""Clean-ups: agents tear endpoints down, records are deleted, even if steps between fail."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from core.errors import AgentUnavailable, NotFound, StoreUnavailable
from core.tasks import background
from netmaster.hosts.cleanups import Cleanups
from netmaster.plan.endpoints import cleanup as plan
from objdb.memory import Faults, MemoryStore
from state.records import EndpointRecord
from tests.bed.waiting import eventually_async
from tests.unit.netmaster.term import Term, term

COUNT = plan.CHUNK * 2 + 1


class Hosts:
    """Agents that take endpoints away, but for those that are down."""

    def __init__(self, *down: str) -> None:
        self.down = set(down)
        self.reclaimed: list[str] = []
        self.asked: list[str] = []

    async def reclaim(self, endpoint: EndpointRecord) -> None:
        self.asked.append(endpoint.homing_host)
        if endpoint.homing_host in self.down:
            raise AgentUnavailable(f"host {endpoint.homing_host}: no netplugin is registered")
        self.reclaimed.append(endpoint.endpoint_id)


@pytest.fixture
async def lead() -> AsyncIterator[Term]:
    async with term() as lead:
        await lead.network("n1")
        await asyncio.gather(*(lead.endpoint(f"c{number}") for number in range(COUNT)))
        yield lead


async def test_agents_are_told_of_all_that_goes(lead: Term) -> None:
    hosts = Hosts()
    text = await Cleanups(lead.committer, hosts.reclaim).perform("default", "net", "n1")
    assert text == "Received request to cleanup Network with ID: n1"
    assert sorted(hosts.reclaimed) == sorted(f"c{number}" for number in range(COUNT))
    assert (lead.stored().endpoints, lead.stored().cleanups) == ({}, {})


async def test_an_agent_that_is_down_is_named_and_keeps_nothing_back(lead: Term) -> None:
    hosts = Hosts("h1")
    with pytest.raises(AgentUnavailable) as caught:
        await Cleanups(lead.committer, hosts.reclaim).perform("default", "net", "n1")
    assert str(caught.value) == (
        f"{COUNT} endpoints removed, but not from every host: host h1: no netplugin is registered"
    )
    assert hosts.asked == ["h1"]  # not once for each endpoint
    assert (lead.stored().endpoints, lead.stored().cleanups) == ({}, {})


async def test_nothing_to_remove_is_said(lead: Term) -> None:
    cleanups = Cleanups(lead.committer, Hosts().reclaim)
    with pytest.raises(NotFound, match="no endpoints of network nope in tenant default"):
        await cleanups.perform("default", "net", "nope")
    assert lead.stored().cleanups == {}


async def test_the_next_leader_finishes_what_one_left() -> None:
    store, faults = MemoryStore(), Faults()
    async with term(store, faults) as lead:
        await lead.network("n1")
        await asyncio.gather(*(lead.endpoint(f"c{number}") for number in range(COUNT)))

        async def fail_at_the_second_part(_: EndpointRecord) -> None:
            if len(lead.stored().endpoints) < COUNT:
                raise StoreUnavailable("the leader dies here")

        with pytest.raises(StoreUnavailable):
            await Cleanups(lead.committer, fail_at_the_second_part).perform("default", "net", "n1")
        assert 0 < len(lead.stored().endpoints) < COUNT
        assert len(lead.stored().cleanups) == 1
    async with term(store) as following:
        hosts = Hosts()
        cleanups = Cleanups(following.committer, hosts.reclaim)

        async def finished() -> bool:
            return not following.stored().cleanups

        async with background("resume", cleanups.resume()):
            await eventually_async(finished, "the clean-up is finished")
        assert following.stored().endpoints == {}
        assert len(hosts.reclaimed) == COUNT - plan.CHUNK
