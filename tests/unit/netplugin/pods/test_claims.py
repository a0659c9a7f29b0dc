"""Endpoints of running pods that a store that went back does not know."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from core import keys
from core.errors import MasterUnavailable
from core.ids import EndpointKey
from core.retry import Pace
from core.tasks import background
from netplugin.pods.claims import Claims, ClaimTiming
from netplugin.pods.garbage_collection import GarbageCollector
from state.lineage import Lineage, Position, Term
from state.watch import Changed, HistoryUnverified, Removed, StoreRolledBack, SyncedTo
from tests.unit.netplugin.agent import Agent, Outside, eventually, request, running, stays
from tests.unit.netplugin.bridges.reconciler import flows_of
from tests.unit.netplugin.records import PEER, asking, endpoint, key

pytestmark = pytest.mark.usefixtures("hurried")

ADDRESS = "nw_dst=10.1.0.1 "


@asynccontextmanager
async def claiming(agent: Agent) -> AsyncIterator[None]:
    """Run the claims of an agent."""
    timing = ClaimTiming(pace=Pace(0.01, 0.01))
    claims = Claims(agent.pod_services.host, agent.pod_ports, timing)
    async with background("claims", claims.run()):
        yield


async def add(agent: Agent) -> EndpointKey:
    """Add a pod whose endpoint is in the store."""
    await agent.pods.add(request())
    one = key("c1")
    agent.learn("k", agent.outside.master.endpoints[one])
    return one


def go_back(agent: Agent, *gone: EndpointKey) -> None:
    """Have the store go back to where it did not know some endpoints."""
    agent.records.apply(StoreRolledBack(keys.ENDPOINTS))
    for one in gone:
        record = agent.outside.master.endpoints.pop(one)
        agent.records.apply(Removed("k", record))
    agent.records.apply(SyncedTo(keys.ENDPOINTS, 3))


async def test_a_running_pod_is_claimed_with_its_address(outside: Outside) -> None:
    async with running(outside) as agent, claiming(agent):
        one = await add(agent)
        before = outside.master.endpoints[one]
        outside.master.last = 77  # what it grants next
        go_back(agent, one)
        await eventually(lambda: one in outside.master.endpoints)
        assert outside.master.endpoints[one] == before
        assert one in agent.registry.claiming()
        agent.learn("k", outside.master.endpoints[one])
        await eventually(lambda: not outside.journal.entries[one].claiming)
        assert not agent.registry.claiming()
        assert agent.progress.standing.errors == ()


async def test_a_further_interface_is_claimed_with_the_addresses_it_asked_for(
    outside: Outside,
) -> None:
    asked = asking(request(ifname="net1"), mac="02:aa:00:00:00:01")
    async with running(outside) as agent, claiming(agent):
        await agent.pods.add(asked)
        one = key(asked.spec.endpoint)
        before = outside.master.endpoints[one]
        agent.learn("k", before)
        go_back(agent, one)
        await eventually(lambda: one in outside.master.endpoints)
        assert outside.master.endpoints[one] == before


async def test_a_claim_waits_for_netmaster(outside: Outside) -> None:
    async with running(outside) as agent, claiming(agent):
        one = await add(agent)
        outside.faults.failing["create"] = MasterUnavailable("no netmaster leads")
        go_back(agent, one)
        await eventually(lambda: outside.faults.reached["create"] > 2)
        assert agent.progress.standing.errors == ()
        outside.faults.failing.clear()
        await eventually(lambda: one in outside.master.endpoints)


async def test_an_address_that_another_has_is_reported_and_the_pod_runs_on(
    outside: Outside,
) -> None:
    async with running(outside) as agent, claiming(agent):
        one = await add(agent)
        clock = iter((1000.0, 2000.0, 3000.0))
        collector = GarbageCollector(
            agent.pod_services.host, agent.pods, agent.pod_ports, grace=0, clock=clock.__next__
        )
        other = replace(endpoint(1, host=PEER), key=EndpointKey("other"))
        outside.master.endpoints[other.key] = other
        go_back(agent, one)
        await eventually(lambda: bool(agent.progress.standing.errors))
        (fault,) = agent.progress.standing.errors
        assert "runs with 10.1.0.1" in fault
        assert "is not available" in fault
        for _ in range(3):
            await collector.scan()
        await agent.reconciler.flush()
        assert ADDRESS in flows_of(outside)
        del outside.master.endpoints[other.key]
        await eventually(lambda: one in outside.master.endpoints)
        agent.learn("k", outside.master.endpoints[one])
        await eventually(lambda: agent.progress.standing.errors == ())


async def test_a_del_ends_a_claim(outside: Outside) -> None:
    async with running(outside) as agent, claiming(agent):
        one = await add(agent)
        outside.master.networks.clear()
        go_back(agent, one)
        await eventually(lambda: bool(agent.progress.standing.errors))
        await agent.pods.delete(request())
        await eventually(lambda: agent.progress.standing.errors == ())
        assert not agent.registry.claiming()


async def test_what_the_leader_deletes_in_the_same_history_is_not_claimed(outside: Outside) -> None:
    async with running(outside) as agent, claiming(agent):
        one = await add(agent)
        agent.records.apply(Removed("k", outside.master.endpoints.pop(one)))
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 9))
        await stays(lambda: not agent.registry.claiming() and not outside.master.endpoints)


async def test_what_was_lost_while_no_agent_ran_is_claimed_at_the_start(outside: Outside) -> None:
    outside.master.history, outside.master.revisions = "a", {keys.ENDPOINTS: 5}
    async with running(outside) as agent:
        follow(agent, Term("a", 0))
        one = await add(agent)
        assert outside.journal.entries[one].position == Position("a", 5)
    del outside.master.endpoints[one]
    async with running(outside) as agent, claiming(agent):
        follow(agent, Term("a", 0), Term("b", 3))
        await eventually(lambda: one in outside.master.endpoints)
        agent.learn("k", outside.master.endpoints[one])
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 7))
        await eventually(lambda: outside.journal.entries[one].position == Position("b", 7))
        await eventually(lambda: agent.progress.standing.history == "b")


async def test_what_the_leader_reclaimed_while_no_agent_ran_is_not_claimed(
    outside: Outside,
) -> None:
    outside.master.history, outside.master.revisions = "a", {keys.ENDPOINTS: 5}
    async with running(outside) as agent:
        follow(agent, Term("a", 0))
        one = await add(agent)
    del outside.master.endpoints[one]
    async with running(outside) as agent, claiming(agent):
        follow(agent, Term("a", 0), Term("b", 6))
        await stays(lambda: not agent.registry.claiming() and not outside.master.endpoints)
        assert agent.progress.standing.history == "b"
        assert one in outside.journal.entries


async def test_an_entry_of_an_older_agent_is_claimed_only_once_it_has_a_position(
    outside: Outside,
) -> None:
    async with running(outside) as agent, claiming(agent):
        one = await add(agent)
        assert outside.journal.entries[one].position.term == ""
        follow(agent, Term("a", 0))
        await eventually(lambda: outside.journal.entries[one].position == Position("a", 5))


async def test_nothing_is_claimed_while_what_was_read_is_in_doubt(outside: Outside) -> None:
    outside.master.history, outside.master.revisions = "a", {keys.ENDPOINTS: 5}
    async with running(outside) as agent, claiming(agent):
        follow(agent, Term("a", 0))
        one = await add(agent)
        agent.records.apply(HistoryUnverified(keys.ENDPOINTS))
        agent.records.apply(Removed("k", outside.master.endpoints.pop(one)))
        follow(agent, Term("a", 0), Term("b", 3), read=False)
        await stays(lambda: not agent.registry.claiming())
        assert agent.progress.standing.history == "", "nobody may rely on this host's claims"
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 7))
        await eventually(lambda: one in outside.master.endpoints)


async def test_claims_nobody_answers_are_not_reported_as_made(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running(outside) as agent, claiming(agent):
        follow(agent, Term("a", 0))
        one = await add(agent)
        outside.faults.failing["create"] = MasterUnavailable("no netmaster leads")
        go_back(agent, one)
        follow(agent, Term("a", 0), Term("b", 3))
        await eventually(lambda: "claims not answered, retrying" in caplog.messages)
        await stays(lambda: agent.progress.standing.history != "b")
        outside.faults.failing.clear()
        await eventually(lambda: agent.progress.standing.history == "b")


def follow(agent: Agent, *terms: Term, read: bool = True) -> None:
    """Have the agent learn the store's lineage, and read its endpoints."""
    agent.learn(keys.LINEAGE, Lineage(terms))
    if read:
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 5))


async def test_the_next_agent_goes_on_with_a_claim(outside: Outside) -> None:
    async with running(outside) as agent, claiming(agent):
        one = await add(agent)
        outside.master.networks.clear()
        go_back(agent, one)
        await eventually(lambda: outside.journal.entries[one].claiming)
    outside.master.networks.add(endpoint().network)
    async with running(outside) as agent, claiming(agent):
        assert ADDRESS not in flows_of(outside)
        await eventually(lambda: one in outside.master.endpoints)
        agent.records.apply(Changed("k", outside.master.endpoints[one], None))
        await eventually(lambda: ADDRESS in flows_of(outside))
        await eventually(lambda: not outside.journal.entries[one].claiming)
