"""The agent of a bridge and services: first packets, restarts of the agent and of the switch."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from core.tasks import background
from ofnet.agent import MAX_WAITING, BridgeAgent
from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.channel.wire import PacketIn
from ofnet.flows import Flow
from ofnet.inspection import AgentIdentity
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, LocalEndpoint, World
from tests.bed.waiting import eventually_async
from tests.unit.ofnet import frames
from tests.unit.ofnet.fake_switch import FakeSwitch
from tests.unit.ofnet.pipelines.scene import ANN, BOB, FAR, world
from tests.unit.ofnet.serving import VIP, having, service

SERVED = having(world(FwdMode.ROUTING), service(BOB.ip, FAR.ip))


async def until(check: Callable[[], bool], what: str) -> None:
    async def holds() -> bool:
        return check()

    await eventually_async(holds, what, within=10.0)


@asynccontextmanager
async def running(switch: FakeSwitch, of: World = SERVED) -> AsyncIterator[BridgeAgent]:
    agent = BridgeAgent(switch, Bridge.VXLAN, of)
    async with background("bridge", agent.run()):
        await until(lambda: agent.synced, "synced")
        yield agent


def first_packet(pod: LocalEndpoint = ANN) -> PacketIn:
    frame = frames.segment(pod, str(VIP), 80)
    return PacketIn(TableId.SRV_PROXY_DNAT, pod.ofport, None, frame)


def of_clients(switch: FakeSwitch) -> set[Flow]:
    return {flow for flow in switch.table.values() if flow.owner is ObjectKind.SERVED}


async def test_the_first_packet_goes_on_when_the_flows_are_there() -> None:
    switch = FakeSwitch()
    async with running(switch) as agent:
        agent.on_packet_in(first_packet())
        assert not switch.packets
        await until(lambda: bool(switch.packets), "the packet goes on")
        assert len(of_clients(switch)) == 6
        assert switch.table == agent.flows
        agent.on_packet_in(first_packet())
        await until(lambda: len(switch.packets) == 2, "one more that was on its way")
        assert len(of_clients(switch)) == 6
        assert agent.stats["SvcPktRcvd"] == 2


async def test_a_packet_whose_flows_are_refused_is_lost() -> None:
    switch = FakeSwitch()
    async with running(switch) as agent:
        switch.refuses = lambda flow: flow.table == TableId.SRV_PROXY_SNAT
        agent.on_packet_in(first_packet())
        await until(lambda: agent.stats["SvcPktDropped"] == 1, "the packet is counted")
        assert not switch.packets


async def test_too_many_packets_are_lost() -> None:
    switch = FakeSwitch()
    async with running(switch) as agent:
        for _ in range(MAX_WAITING + 5):
            agent.on_packet_in(first_packet())
        assert agent.stats["SvcPktDropped"] == 5
        await until(lambda: len(switch.packets) == MAX_WAITING, "the others go on")


async def test_a_restarted_agent_goes_on_with_whom_the_switch_has_served() -> None:
    switch = FakeSwitch()
    async with running(switch) as agent:
        agent.on_packet_in(first_packet(BOB))
        agent.on_packet_in(first_packet())
        await until(lambda: len(switch.packets) == 2, "both are served")
        before = of_clients(switch)
    sent = switch.counters["flow_mods"]
    async with running(switch, replace(SERVED, complete=False)) as agent:
        agent.on_packet_in(first_packet())
        assert agent.stats["SvcPktDropped"] == 1, (
            "no client is assigned before the World is complete"
        )
        await agent.update(SERVED, EVERYTHING)
        await until(lambda: bool(agent.world.served), "the switch has been asked")
        await until(lambda: agent.synced, "synced")
        assert of_clients(switch) == before
        assert {one.provider for one in agent.world.served.values()} == {BOB.ip, FAR.ip}
    assert switch.counters["flow_mods"] - sent < len(switch.table), "most was there"


async def test_what_holds_no_more_after_a_restart_is_gone() -> None:
    switch = FakeSwitch()
    async with running(switch) as agent:
        agent.on_packet_in(first_packet())
        await until(lambda: bool(switch.packets), "she is served")
        assert any(str(BOB.ip) in str(flow) for flow in of_clients(switch))
    async with running(switch, having(SERVED, service(FAR.ip))) as agent:
        assert not of_clients(switch)
        agent.on_packet_in(first_packet())
        await until(lambda: len(of_clients(switch)) == 6, "she is served by the other one")


async def test_a_restarted_switch_gets_its_clients_back() -> None:
    switch = FakeSwitch()
    async with running(switch) as agent:
        agent.on_packet_in(first_packet())
        await until(lambda: bool(switch.packets), "she is served")
        before = of_clients(switch)
        switch.disconnect()
        switch.table.clear()
        switch.connect()
        await until(lambda: agent.synced, "synced")
        assert of_clients(switch) == before


async def test_changes_and_first_packets_side_by_side() -> None:
    switch = FakeSwitch()
    async with running(switch) as agent:
        agent.on_packet_in(first_packet())
        without = having(SERVED, service(FAR.ip))
        key = frozenset({"web:default"})
        await asyncio.gather(agent.update(without, Changes.of(ObjectKind.SERVICE, key)))
        agent.on_packet_in(first_packet())
        gone = replace(without, local={BOB.key: BOB})
        await agent.update(gone, Changes.of(ObjectKind.LOCAL, {ANN.key}))
        assert not of_clients(switch)
        assert switch.table == agent.flows


async def test_counters_are_read_on_request() -> None:
    switch = FakeSwitch()
    async with running(switch) as agent:
        assert await agent.service_stats() == {}
        agent.on_packet_in(first_packet())
        await until(lambda: bool(switch.packets), "she is served")
        switch.counted = {flow.cookie: (2, 200) for flow in of_clients(switch)}
        clients = await agent.service_stats()
        provider = clients[str(ANN.ip)]["SvcStats"][str(VIP)]["ProvStats"][str(BOB.ip)]
        assert (provider["PacketsOut"], provider["BytesIn"]) == (4, 400), "of two ports"
        report = agent.inspect(AgentIdentity(), clients)
        assert report["Datapath"]["SvcProxy"]["EpStats"] == clients
        switch.disconnect()
        assert await agent.service_stats() == {}
