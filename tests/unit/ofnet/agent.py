"""What tests of agent share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.tasks import background
from ofnet.agent import BridgeAgent
from ofnet.flow_sync import SyncLimits
from ofnet.world import Bridge, World
from tests.unit.ofnet.conditions import until
from tests.unit.ofnet.fake_switch import FakeSwitch


@asynccontextmanager
async def running(
    switch: FakeSwitch, of: World, limits: SyncLimits | None = None
) -> AsyncIterator[BridgeAgent]:
    agent = BridgeAgent(switch, Bridge.VXLAN, of, limits=limits)
    async with background("bridge", agent.run()):
        if switch.connected:
            await until(lambda: agent.sync.synced, "synced")
        yield agent
