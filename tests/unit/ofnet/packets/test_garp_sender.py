"""Announcements go out when the switch has its flows, and again in rounds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core.errors import SwitchUnavailable
from core.tasks import background
from ofnet.agent import BridgeAgent
from ofnet.packets.announcements import REPEATS, ROUNDS
from ofnet.world import Bridge
from tests.unit.ofnet.announcements import EMPTY, grouped, holding, of
from tests.unit.ofnet.conditions import until
from tests.unit.ofnet.fake_switch import FakeSwitch
from tests.unit.ofnet.worlds import local


@asynccontextmanager
async def announcing(
    switch: FakeSwitch, *, period: float = 0.001, repeat: float = 1000.0
) -> AsyncIterator[BridgeAgent]:
    agent = BridgeAgent(switch, Bridge.VLAN, EMPTY)
    async with (
        background("bridge", agent.run()),
        background("announcements", agent.garp_sender.run(period=period, repeat=repeat)),
    ):
        yield agent


async def test_an_endpoint_is_announced_behind_its_flows() -> None:
    switch = FakeSwitch()
    async with announcing(switch) as agent:
        await until(lambda: agent.sync.synced, "synced")
        updating = asyncio.gather(agent.update(holding(local(1)), of(local(1))))
        while not updating.done():
            assert not switch.packets
            await asyncio.sleep(0)
        await until(lambda: len(switch.packets) == 2, "a frame for the switch, the announcement")
        assert agent.stats["GarpPktSent"] == 1
        assert agent.stats["GARPSent"] == 0


async def test_an_endpoint_is_announced_again_behind_its_port() -> None:
    switch = FakeSwitch()
    async with announcing(switch) as agent:
        await agent.update(holding(local(1)), of(local(1)))
        await until(lambda: len(switch.packets) == 2, "behind its flows")
        await agent.garp_sender.announce(local(1).key)
        assert switch.packets[2:] == switch.packets[:2]


async def test_a_new_endpoint_is_announced_some_times_more() -> None:
    switch = FakeSwitch()
    async with announcing(switch, repeat=0.001) as agent:
        await agent.update(holding(local(1)), of(local(1)))
        await until(lambda: len(switch.packets) == 2 * (1 + REPEATS), "all of them")
        assert agent.stats["GarpPktSent"] == 1 + REPEATS
        first = switch.packets[:2]
        assert switch.packets == first * (1 + REPEATS)
        await agent.update(holding(local(1), local(2)), of(local(2)))
        await until(lambda: len(switch.packets) == 4 * (1 + REPEATS), "the second one's, no more")


async def test_without_a_switch_announcements_wait_for_it() -> None:
    switch = FakeSwitch(connected=False)
    async with announcing(switch) as agent:
        with pytest.raises(SwitchUnavailable):
            await agent.update(holding(local(1)), of(local(1)))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not switch.packets
        switch.connect()
        await until(lambda: len(switch.packets) == 2, "a frame for the switch, the announcement")


async def test_a_group_is_announced_in_rounds_that_end() -> None:
    switch = FakeSwitch()
    async with announcing(switch) as agent:
        await agent_gets_a_group(agent)
        await until(lambda: agent.stats["GARPSent"] == ROUNDS, "all rounds")
        assert agent.stats["GarpPktSent"] == ROUNDS + 1
        await agent_gets_a_group(agent, 2)
        await until(lambda: agent.stats["GARPSent"] == 3 * ROUNDS, "both, in all rounds")


async def agent_gets_a_group(agent: BridgeAgent, members: int = 1) -> None:
    await until(lambda: agent.sync.synced, "synced")
    group = [grouped(number) for number in range(1, members + 1)]
    await agent.update(holding(*group), of(*group))
