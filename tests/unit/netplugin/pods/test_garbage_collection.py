"""Endpoints nobody deletes: what is released, when, and all that keeps it from being released."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from core.errors import HostError, MasterUnavailable
from netplugin.kernel.links.pod_links import PodLink
from netplugin.pods.garbage_collection import GarbageCollector
from netplugin.pods.registry.journal_entry import EntryState
from netplugin.world.bridges import port_names
from state.records import NetworkType
from state.watch import Changed, Removed
from tests.unit.netplugin.agent import (
    NOTHING_LEFT,
    Agent,
    Outside,
    eventually,
    request,
    running,
)
from tests.unit.netplugin.records import PEER, endpoint, key, network

pytestmark = pytest.mark.usefixtures("hurried")

GRACE = 100.0
STEP = 25.0


@dataclass
class Watch:
    """An agent's search for leaks, at times that a test says."""

    agent: Agent
    grace: float = GRACE
    at: float = 1000.0
    collector: GarbageCollector = field(init=False)

    def __post_init__(self) -> None:
        self.collector = GarbageCollector(
            self.agent.pod_services.host,
            self.agent.pods,
            self.agent.pod_ports,
            grace=self.grace,
            clock=lambda: self.at,
        )

    async def looks(self, seconds: float) -> None:
        """Look at the beginning, and then for so long."""
        await self.collector.scan()
        for _ in range(int(seconds / STEP)):
            self.at += STEP
            await self.collector.scan()

    def stray(self, container: str = "lost", **more: object) -> None:
        """Have the store tell of a record of this host that no ADD has made."""
        record = endpoint(9, container=container, **more)  # type: ignore[arg-type]
        self.agent.outside.master.endpoints[record.key] = record
        self.agent.learn("k", record)


async def gone(agent: Agent) -> None:
    await eventually(lambda: agent.traces() == NOTHING_LEFT)
    assert agent.registry.keys() == frozenset()


# -- pods that are gone --------------------------------------------------------------------------


async def test_a_pod_that_ended_without_a_del_is_released(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        watch = Watch(agent)
        outside.links.end("/run/netns/c1")
        await watch.looks(GRACE - STEP)
        assert key("c1") in outside.master.endpoints
        await watch.looks(STEP)
        await gone(agent)
        assert watch.collector.tally == {"pod gone": 1}


async def test_a_pod_with_its_namespace_or_its_link_is_kept(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request("c1"))
        await agent.pods.add(request("c2"))
        before = agent.traces()
        watch = Watch(agent)
        outside.links.dead.add("/run/netns/c1")  # its path is gone, but something holds it
        del outside.links.there[port_names.switch_name(2)]
        await watch.looks(2 * GRACE)
        assert (agent.traces()[2:4], watch.collector.tally) == (before[2:4], {})


async def test_a_pod_added_anew_in_the_grace_period_is_kept(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        watch = Watch(agent)
        outside.links.end("/run/netns/c1")
        await watch.looks(GRACE - STEP)
        await agent.pods.add(request(netns="/run/netns/again"))
        before = agent.traces()
        await watch.looks(2 * GRACE)
        assert agent.traces() == before


async def test_a_pod_a_call_is_at_work_on_is_left_to_it(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        watch = Watch(agent)
        outside.links.end("/run/netns/c1")
        gate = outside.faults.stop("journal removing")
        deleting = asyncio.gather(agent.pods.delete(request()))
        await outside.faults.until("journal removing")
        await watch.looks(2 * GRACE)
        assert watch.collector.tally == {}
        gate.set()
        await deleting
        await gone(agent)


async def test_a_release_that_netmaster_does_not_take_is_tried_again(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        outside.links.end("/run/netns/c1")
        outside.faults.failing["release"] = MasterUnavailable("away")
        await Watch(agent).looks(GRACE)
        assert outside.journal.entries[key("c1")].state is EntryState.REMOVING
        outside.faults.failing.clear()
        await gone(agent)


# -- records nobody knows ------------------------------------------------------------------------


async def test_a_record_nobody_here_knows_is_released(outside: Outside) -> None:
    async with running(outside) as agent:
        watch = Watch(agent)
        watch.stray()
        await watch.looks(GRACE - STEP)
        assert outside.master.endpoints
        await watch.looks(STEP)
        assert (outside.master.endpoints, watch.collector.tally) == ({}, {"record unknown": 1})


async def lost_ovsdb(watch: Watch) -> None:
    ovsdb = watch.agent.outside.ovsdb
    ovsdb._take(replace(ovsdb._view, connected=False))


async def unreadable_journal(watch: Watch) -> None:
    watch.agent.outside.journal.unreadable = 1


async def incomplete_world(watch: Watch) -> None:
    watch.agent.world._complete = False


async def a_link_of_nobody(watch: Watch) -> None:
    spec = PodLink(host_name="vvport77", ifname="eth0", netns_path="/run/netns/x", mtu=1450)
    watch.agent.outside.links.there["vvport77"] = spec


async def a_row_of_it(watch: Watch) -> None:
    agent = watch.agent
    await agent.pods.add(request("other"))
    (row,) = agent.outside.ovsdb.ports().values()
    mine = replace(row, name="vvport9", external_ids={port_names.ENDPOINT_ID: key("lost")})
    agent.outside.ovsdb.show(ports={row.name: row, mine.name: mine})


async def an_infra_network(watch: Watch) -> None:
    watch.agent.learn("k", replace(network(), type=NetworkType.INFRA))


async def a_network_nobody_knows(watch: Watch) -> None:
    watch.agent.world.remove(network())


BLINDNESS: list[Callable[[Watch], Awaitable[None]]] = [
    lost_ovsdb,
    unreadable_journal,
    incomplete_world,
    a_link_of_nobody,
    a_row_of_it,
    an_infra_network,
    a_network_nobody_knows,
]


@pytest.mark.parametrize("blind", BLINDNESS)
async def test_what_may_be_known_somewhere_is_kept(
    outside: Outside, blind: Callable[[Watch], Awaitable[None]]
) -> None:
    async with running(outside) as agent:
        watch = Watch(agent)
        watch.stray()
        await blind(watch)
        await watch.looks(3 * GRACE)
        assert key("lost") in outside.master.endpoints


async def test_a_moment_of_blindness_begins_the_grace_period_anew(outside: Outside) -> None:
    async with running(outside) as agent:
        watch = Watch(agent)
        watch.stray()
        for _ in range(5):
            await watch.looks(GRACE - 2 * STEP)
            agent.outside.journal.unreadable = 1
            watch.at += STEP
            await watch.looks(0)
            agent.outside.journal.unreadable = 0
            watch.at += STEP
        assert outside.master.endpoints


async def test_a_look_that_fails_begins_the_grace_period_anew(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        watch = Watch(agent)
        watch.stray()
        outside.links.end("/run/netns/c1")
        for _ in range(5):
            await watch.looks(GRACE - 2 * STEP)
            outside.faults.failing["links listed"] = HostError("no answer")
            watch.at += STEP
            with pytest.raises(HostError):
                await watch.collector.scan()
            del outside.faults.failing["links listed"]
            watch.at += STEP
        assert watch.collector.tally == {}


async def test_records_of_pods_and_of_other_hosts_are_kept(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        agent.learn("k", outside.master.endpoints[key("c1")])
        watch = Watch(agent)
        watch.stray("elsewhere", host=PEER)
        await watch.looks(3 * GRACE)
        assert set(outside.master.endpoints) == {key("c1"), key("elsewhere")}


async def test_a_record_is_not_suspected_while_its_pod_s_row_is_away(outside: Outside) -> None:
    async with running(outside) as agent:
        result = await agent.pods.add(request())
        agent.learn("k", outside.master.endpoints[key("c1")])
        watch = Watch(agent)
        outside.ovsdb.lose(result.host_ifname)
        await watch.looks(3 * GRACE)
        assert (set(outside.master.endpoints), watch.collector.tally) == ({key("c1")}, {})


async def test_a_record_that_something_stands_for_by_now_is_kept(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        record = outside.master.endpoints[key("c1")]
        await agent.pods.release_record(record, network())
        assert key("c1") in outside.master.endpoints


async def test_an_add_that_comes_meanwhile_keeps_its_record(outside: Outside) -> None:
    async with running(outside) as agent:
        watch = Watch(agent)
        watch.stray("c1")
        await watch.looks(GRACE - STEP)
        gate = outside.faults.stop("create")
        adding = asyncio.gather(agent.pods.add(request()))
        await outside.faults.until("create")
        await watch.looks(2 * GRACE)
        gate.set()
        await adding
        await watch.looks(2 * GRACE)
        assert key("c1") in outside.master.endpoints
        assert agent.world.endpoints.port(key("c1")) is not None


async def test_nothing_is_released_where_the_grace_period_is_for_ever(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        watch = Watch(agent, grace=0)
        watch.stray()
        outside.links.end("/run/netns/c1")
        await watch.looks(100 * GRACE)
        assert set(outside.master.endpoints) == {key("c1"), key("lost")}


# -- endpoints that netmaster has given up ---------------------------------------------------------


async def test_a_reclaimed_endpoint_is_cut_off(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        record = outside.master.endpoints.pop(key("c1"))
        agent.learn("k", record)
        flows = agent.traces()[4]
        agent.records.apply(Removed("k", record))
        watch = Watch(agent)
        await watch.looks(0)
        await agent.reconciler.flush()
        assert agent.traces()[4] == flows
        watch.at += outside.timing.pods.revoked_grace
        await watch.looks(0)
        await eventually(lambda: agent.traces()[4] == set())
        assert "endpoint is not connected" in caplog.text
        assert watch.collector.tally == {"cut off": 1}
        await agent.pod_ports.converge()
        assert agent.traces()[4] == set()
        await watch.looks(GRACE)
        assert watch.collector.tally == {"cut off": 1}
        await agent.pods.delete(request())
        await gone(agent)


async def test_a_record_that_is_made_anew_is_not_cut_off(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        record = outside.master.endpoints[key("c1")]
        agent.learn("k", record)
        watch = Watch(agent)
        for _ in range(5):
            agent.records.apply(Removed("k", record))
            await watch.looks(0)
            agent.records.apply(Changed("k", record, None))
            watch.at += STEP
            await watch.looks(0)
        assert agent.world.endpoints.port(key("c1")) is not None


async def test_a_record_the_store_has_not_told_of_yet_is_not_missed(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        await Watch(agent).looks(GRACE)
        assert agent.world.endpoints.port(key("c1")) is not None
