"""An agent on a real bridge: after every disturbance the flows become those of the World."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from core.errors import SwitchUnavailable
from core.tasks import background
from ofnet.agent import BridgeAgent
from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.channel.requests import FlowsRefused
from ofnet.openflow.actions import Output
from ofnet.tables import TableId
from ofnet.world import Bridge, World
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import FAST, Dialled, dialled, listener, running_agent, until
from tests.unit.ofnet.worlds import local, remote, with_local, without_local, world

pytestmark = pytest.mark.ovs


@pytest.fixture
async def bridge(ovs_module: OvsHost) -> AsyncIterator[Dialled]:
    async with dialled(ovs_module) as bridge:
        yield bridge


def lines(agent: BridgeAgent) -> list[str]:
    return sorted(str(flow) for flow in agent.desired.flows.values())


def pods(count: int) -> World:
    return world(
        here=tuple(local(number) for number in range(1, count + 1)),
        there=tuple(remote(number) for number in range(1001, 1001 + count)),
    )


async def test_the_bridge_gets_the_flows_of_its_world(bridge: Dialled) -> None:
    async with running_agent(bridge, pods(2)) as agent:
        assert bridge.flows() == lines(agent)
        cookies = {f"cookie={flow.cookie:#x}" for flow in agent.desired.flows.values()}
        assert {line.strip().partition(",")[0] for line in bridge.raw()} == cookies


async def test_an_update_returns_when_its_flows_are_in_the_switch(bridge: Dialled) -> None:
    async with running_agent(bridge, pods(1)) as agent:
        pod = local(7)
        added = with_local(agent.world, pod)
        await agent.update(added, Changes.of(ObjectKind.LOCAL, {pod.key}))
        assert sum("in_port=107" in line for line in bridge.flows()) == 7
        await agent.update(without_local(added, pod.key), Changes.of(ObjectKind.LOCAL, {pod.key}))
        assert not [line for line in bridge.flows() if "in_port=107" in line]
        assert bridge.flows() == lines(agent)


async def test_a_second_comparison_sends_nothing(bridge: Dialled) -> None:
    async with running_agent(bridge, pods(50)):
        pass
    sent = bridge.switch.counters["flow_mods"]
    async with running_agent(bridge, pods(50)):
        assert bridge.switch.counters["flow_mods"] == sent


async def test_a_restarted_agent_keeps_the_flows_and_removes_the_stale_ones(
    ovs_module: OvsHost,
) -> None:
    async with dialled(ovs_module) as bridge:
        port = bridge.switch.port
        async with running_agent(bridge, pods(3)) as agent:
            before = bridge.flows()
        await bridge.switch.close()
        assert bridge.flows() == before
        async with listener(ovs_module, port=port) as again:
            await until(lambda: again.connected, "the switch dials in again")
            second = Dialled(ovs_module, bridge.name, again)
            smaller = without_local(pods(3), local(3).key)
            async with running_agent(second, smaller) as agent:
                assert second.flows() == lines(agent)
                assert again.counters["flow_mods"] == len(before) - len(lines(agent))


async def test_a_switch_is_left_alone_until_the_world_is_complete(bridge: Dialled) -> None:
    """What only the incomplete World has is never written, what it lacks never deleted."""
    async with running_agent(bridge, pods(2)):
        before = set(bridge.flows())
    written = bridge.switch.counters["flow_mods"]
    agent = BridgeAgent(
        bridge.switch, Bridge.VXLAN, replace(world(here=(local(3),)), complete=False)
    )
    async with background("bridge", agent.run()):
        await agent.update(without_local(pods(2), local(2).key), EVERYTHING)
        await until(lambda: agent.sync.synced, "the bridge equals its World")
        after = set(lines(agent))
        assert set(bridge.flows()) == after
        assert bridge.switch.counters["flow_mods"] - written == len(before ^ after) > 0


async def test_a_foreign_flow_is_removed(bridge: Dialled) -> None:
    async with running_agent(bridge, pods(1), audit_interval=0.2) as agent:
        bridge.ofctl("add-flow", "table=7,cookie=0x1f,priority=5,ip,actions=drop")
        bridge.ofctl("add-flow", "table=0,priority=77,arp,actions=drop")
        await until(lambda: bridge.flows() == lines(agent), "foreign flows are gone")


async def test_a_foreign_flow_with_a_copied_cookie_is_removed(bridge: Dialled) -> None:
    async with running_agent(bridge, pods(1), audit_interval=0.2) as agent:
        stolen = next(flow for flow in agent.desired.flows.values() if flow.table == 7)
        bridge.ofctl("add-flow", f"table=7,cookie={stolen.cookie:#x},priority=5,ip,actions=drop")
        await until(lambda: bridge.flows() == lines(agent), "only our flow has the cookie")


async def test_a_flow_of_the_original_under_our_key_is_replaced(bridge: Dialled) -> None:
    bridge.ofctl("add-flow", "table=0,cookie=0x9,priority=1,actions=drop")
    bridge.ofctl("add-flow", "table=1,cookie=0x9,priority=10,in_port=77,actions=drop")
    async with running_agent(bridge, pods(1)) as agent:
        assert bridge.flows() == lines(agent)


async def test_a_deleted_flow_comes_back(bridge: Dialled) -> None:
    async with running_agent(bridge, pods(1), audit_interval=0.2) as agent:
        bridge.ofctl("del-flows", "table=7")
        await until(lambda: bridge.flows() == lines(agent), "the audit restores the flows")


async def test_an_unexpected_error_leads_to_a_comparison(bridge: Dialled) -> None:
    async with running_agent(bridge, pods(1)) as agent:
        bridge.ofctl("del-flows", "table=7")
        bridge.switch.send_packet(bytes(60), (Output(0xFFFFFF05),), in_port=1)
        await until(lambda: bridge.flows() == lines(agent), "the error starts a comparison")


@pytest.mark.parametrize("others", [1, 200])
async def test_a_refused_flow_is_reported_and_the_others_are_installed(
    bridge: Dialled, others: int
) -> None:
    """No port can be numbered 70000, be it in a small write or in a bundle."""
    bad = local(9, ofport=70000)
    async with running_agent(bridge, pods(1)) as agent:
        grown = with_local(pods(others + 1), bad)
        keys = frozenset(grown.local) | frozenset(grown.remote)
        with pytest.raises(FlowsRefused) as caught:
            await agent.update(
                grown, Changes.of(ObjectKind.LOCAL, keys) | Changes.of(ObjectKind.REMOTE, keys)
            )
        tables = sorted(flow.table for flow, _ in caught.value.flows)
        assert tables == [
            *[TableId.INPUT] * 3,
            *(TableId.VLAN, TableId.IP),
            *[TableId.HOST_SNAT] * 3,
        ]
        wanted = {
            key: flow for key, flow in agent.desired.flows.items() if key not in agent.sync.refused
        }
        installed = bridge.flows()
        assert set(map(str, wanted.values())) <= set(installed)
        dropped = sorted(set(installed) - set(map(str, wanted.values())))
        assert all(line.endswith("actions=drop") for line in dropped)
        assert [line.partition(",")[0] for line in dropped] == ["table=7"]
        assert not agent.sync.fully_synced, "a match that is refused leaves a gap"
        # the same update again has the same outcome
        with pytest.raises(FlowsRefused):
            await agent.update(grown, Changes.of(ObjectKind.LOCAL, {bad.key}))
        healed = without_local(grown, bad.key)
        await agent.update(healed, Changes.of(ObjectKind.LOCAL, {bad.key}))
        assert bridge.flows() == lines(agent)


async def test_ten_thousand_flows(bridge: Dialled) -> None:
    big = world(there=tuple(remote(number) for number in range(1, 5001)))
    async with running_agent(bridge, world()) as agent:
        await agent.update(big, Changes.of(ObjectKind.REMOTE, big.remote))
        assert len(bridge.flows()) == len(agent.desired.flows) > 10_000
        await agent.update(world(), Changes.of(ObjectKind.REMOTE, big.remote))
        assert bridge.flows() == lines(agent)


async def test_without_a_switch_an_update_fails_at_once_and_is_made_good(
    ovs_module: OvsHost,
) -> None:
    async with dialled(ovs_module) as bridge, listener(ovs_module) as other:
        agent = BridgeAgent(other, Bridge.VXLAN, world())
        pod = local(1)
        with pytest.raises(SwitchUnavailable):
            await agent.update(
                with_local(agent.world, pod), Changes.of(ObjectKind.LOCAL, {pod.key})
            )
        ovs_module.vsctl("set-controller", bridge.name, f"tcp:127.0.0.1:{other.port}")
        async with background("bridge", agent.run()):
            await until(lambda: agent.sync.synced, "the bridge equals its World")
            assert bridge.flows() == lines(agent)


async def test_a_frozen_switch_ends_the_wait_and_is_brought_up_to_date_later(
    ovs_module: OvsHost,
) -> None:
    async with dialled(ovs_module, timing=FAST) as bridge, running_agent(bridge, pods(1)) as agent:
        pod = local(5)
        ovs_module.vswitchd.pause()
        try:
            with pytest.raises(SwitchUnavailable):
                await agent.update(
                    with_local(agent.world, pod), Changes.of(ObjectKind.LOCAL, {pod.key})
                )
            await until(lambda: not bridge.switch.connected, "the dead peer is noticed")
        finally:
            ovs_module.vswitchd.resume()
        await until(lambda: agent.sync.synced, "the switch is back and up to date")
        assert bridge.flows() == lines(agent)
        assert any("in_port=105" in line for line in bridge.flows())


async def test_a_restarted_switch_gets_its_flows_back(ovs_module: OvsHost) -> None:
    async with dialled(ovs_module) as bridge, running_agent(bridge, pods(3)) as agent:
        ovs_module.vswitchd.kill()
        await until(lambda: not agent.connected, "the switch is gone")
        ovs_module.vswitchd.start()
        await until(lambda: agent.sync.synced, "the switch is back and up to date")
        assert bridge.flows() == lines(agent)
