"""The limits of pods: an agent's meters are there before their flows, and go with them."""

from dataclasses import replace

from ofnet.changes import Changes, ObjectKind
from ofnet.openflow.meters import Meter
from ofnet.tables import TableId
from ofnet.world import LocalEndpoint, World
from tests.unit.ofnet.agent import running
from tests.unit.ofnet.conditions import until
from tests.unit.ofnet.fake_switch import FakeSwitch
from tests.unit.ofnet.worlds import local, with_local, world

LIMITED = replace(local(1), rate=1048, burst=100, dscp=10)
OF_POD = Changes.of(ObjectKind.LOCAL, [LIMITED.key])


def having(pod: LocalEndpoint) -> World:
    return with_local(world(), pod)


async def test_all_that_a_pod_sends_is_metered() -> None:
    switch = FakeSwitch()
    async with running(switch, having(LIMITED)) as agent:
        assert list(switch.held_meters.values()) == [Meter(101, 1048, 100)]
        by_port = [
            flow
            for flow in agent.desired.flows.values()
            if flow.table == TableId.VLAN and "in_port=101" in str(flow.match)
        ]
        assert len(by_port) == 3
        for flow in by_port:
            assert flow.instructions.meter == Meter(101, 1048, 100)
            assert str(flow).partition("actions=")[2].startswith("meter:101,")


async def test_another_limit_replaces_the_flows() -> None:
    switch = FakeSwitch()
    async with running(switch, having(LIMITED)) as agent:
        await agent.update(having(replace(LIMITED, rate=5)), OF_POD)
        assert list(switch.held_meters.values()) == [Meter(101, 5, 100)]
        await agent.update(having(replace(LIMITED, rate=0)), OF_POD)
        assert not agent.desired.meters()


async def test_the_default_burst() -> None:
    switch = FakeSwitch()
    async with running(switch, having(replace(LIMITED, burst=0))):
        assert list(switch.held_meters.values()) == [Meter(101, 1048, 8000)]


async def test_a_meter_changed_by_hand_is_corrected_and_an_unused_one_removed() -> None:
    switch = FakeSwitch()
    async with running(switch, having(LIMITED)) as agent:
        switch.held_meters = {101: Meter(101, 0, 0), 7: Meter(7, 1, 1)}
        agent.on_error("anything that leads to a comparison")
        wanted = {101: Meter(101, 1048, 100)}
        await until(lambda: switch.held_meters == wanted, "the meters are ours again")


async def test_unused_meters_stay_while_flows_are_spared() -> None:
    switch = FakeSwitch()
    switch.held_meters = {7: Meter(7, 1, 1)}
    partial = replace(having(LIMITED), kubernetes_partial=True)
    async with running(switch, partial) as agent:
        assert 7 in switch.held_meters
        await agent.update(replace(partial, kubernetes_partial=False), Changes(everything=True))
        await until(lambda: 7 not in switch.held_meters, "it goes")
