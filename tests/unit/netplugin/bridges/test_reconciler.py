"""The World becomes flows and ports; no call succeeds before the switch has acknowledged."""

import asyncio

import pytest

from core.errors import SwitchRefused, SwitchUnavailable
from core.ids import EndpointKey
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.bridges.vrfs import VRF_ID, stored_vrfs
from ofnet.tables import service_zones
from ofnet.world import Bridge
from state.watch import Removed
from tests.unit.netplugin.agent import Outside, eventually, running, turns
from tests.unit.netplugin.bridges.reconciler import flows_of, tell
from tests.unit.netplugin.records import (
    endpoint,
    host,
    key,
    network,
)

FLOWS = f"flows {Bridge.VXLAN}"
KEY = key("c1")


def port(number: int = 1) -> LocalPort:
    return LocalPort(record=endpoint(number), ofport=number)


# -- rounds ------------------------------------------------------------------------------------


async def test_flows_are_there_when_the_port_is(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.reconciler.put_port(KEY, port())
        assert "in_port=1 " in flows_of(outside)
        await agent.reconciler.remove_port(KEY)
        assert "in_port=1 " not in flows_of(outside)


async def test_those_who_come_together_share_a_round(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.reached.clear()
        puts = (agent.reconciler.put_port(key(f"c{n}"), port(n)) for n in range(1, 21))
        await asyncio.gather(*puts)
        assert outside.faults.reached[FLOWS] == 1
        assert all(f"in_port={n} " in flows_of(outside) for n in range(1, 21))


async def test_who_comes_during_a_round_waits_for_the_next(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.reached.clear()
        gate = outside.faults.stop(FLOWS)
        first = asyncio.gather(agent.reconciler.put_port(key("c1"), port(1)))
        await outside.faults.until(FLOWS)
        second = asyncio.gather(agent.reconciler.put_port(key("c2"), port(2)))
        await turns()
        assert outside.faults.reached[FLOWS] == 1
        assert not second.done()
        gate.set()
        await first
        assert "in_port=2 " not in flows_of(outside) or second.done()
        await second
        assert "in_port=2 " in flows_of(outside)


async def test_a_failed_round_fails_those_it_belongs_to_and_no_others(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.reached.clear()
        gate = outside.faults.stop(FLOWS)
        outside.faults.failing[FLOWS] = SwitchRefused("table full")
        first = asyncio.gather(
            *(agent.reconciler.put_port(key(f"c{n}"), port(n)) for n in (1, 2)),
            return_exceptions=True,
        )
        await outside.faults.until(FLOWS)
        second = asyncio.gather(agent.reconciler.put_port(key("c3"), port(3)))
        gate.set()
        failures = await first
        assert [type(failure) for failure in failures] == [SwitchRefused] * 2
        outside.faults.failing.clear()
        await second
        assert "in_port=3 " in flows_of(outside)
        await eventually(lambda: all(f"in_port={n} " in flows_of(outside) for n in (1, 2)))


async def test_a_switch_that_is_away_is_told(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.switches[Bridge.VXLAN].go(online=False)
        with pytest.raises(SwitchUnavailable):
            await agent.reconciler.put_port(KEY, port())
        outside.switches[Bridge.VXLAN].go(online=True)
        await eventually(lambda: "in_port=1 " in flows_of(outside))


async def test_a_cancelled_waiter_takes_nobody_with_it(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.reached.clear()
        gate = outside.faults.stop(FLOWS)
        async with asyncio.TaskGroup() as calls:
            doomed = calls.create_task(agent.reconciler.put_port(key("c1"), port(1)))
            other = calls.create_task(agent.reconciler.put_port(key("c2"), port(2)))
            await outside.faults.until(FLOWS)
            doomed.cancel()
            gate.set()
        assert doomed.cancelled()
        assert other.done()
        assert "in_port=2 " in flows_of(outside)


async def test_nobody_waits_for_an_agent_that_stops(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.stop(FLOWS)
        waiting = asyncio.gather(
            agent.reconciler.put_port(key("c1"), port(1)), return_exceptions=True
        )
        await outside.faults.until(FLOWS, 2)
        late = asyncio.gather(agent.reconciler.put_port(key("c2"), port(2)), return_exceptions=True)
        await asyncio.sleep(0)
    for failures in (await waiting, await late):
        assert [type(failure) for failure in failures] == [SwitchUnavailable]
    with pytest.raises(SwitchUnavailable, match="stops"):
        await agent.reconciler.flush()


async def test_an_endpoint_key_is_the_callers(outside: Outside) -> None:
    async with running(outside) as agent:
        strange = EndpointKey("n1.default-x")
        await agent.reconciler.put_port(strange, port())
        await agent.reconciler.remove_port(strange)
        assert "in_port=1 " not in flows_of(outside)


# -- VRF ids -----------------------------------------------------------------------------------


async def test_vrf_ids_are_kept_before_flows_speak_of_them(outside: Outside) -> None:
    async with running(outside, ()) as agent:
        gate = outside.faults.stop("external ids")
        before = outside.faults.reached[FLOWS]
        tell(agent, network(), host())
        agent.world.endpoints.put_port(KEY, port())
        await outside.faults.until("external ids")
        await turns()
        assert outside.faults.reached[FLOWS] == before
        assert "in_port=1 " not in flows_of(outside)
        gate.set()
        await agent.reconciler.flush()
        assert "in_port=1 " in flows_of(outside)
        assert outside.ovsdb.bridge_external_ids(Bridge.VXLAN) == {f"{VRF_ID}default": "1"}


async def test_a_port_put_while_vrf_ids_are_stored_fails_with_its_own_flows(
    outside: Outside,
) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("external ids")
        tell(agent, network("a", "blue"))
        await outside.faults.until("external ids", 2)
        outside.faults.failing[FLOWS] = SwitchRefused("table full")
        putting = asyncio.gather(agent.reconciler.put_port(KEY, port()), return_exceptions=True)
        await asyncio.sleep(0)
        gate.set()
        (outcome,) = await putting
        assert isinstance(outcome, SwitchRefused)


async def test_vrf_ids_that_are_free_again_are_forgotten(outside: Outside) -> None:
    foreign = {"somebody": "else"}
    outside.ovsdb.show(bridges={Bridge.VXLAN: foreign, Bridge.VLAN: {}})
    async with running(outside) as agent:
        tell(agent, network("a", "blue"))
        await agent.reconciler.flush()
        ids = outside.ovsdb.bridge_external_ids(Bridge.VXLAN)
        assert stored_vrfs(ids) == {"default": 1, "blue": 2}
        agent.records.apply(Removed("key", network("a", "blue")))
        await agent.reconciler.flush()
        ids = outside.ovsdb.bridge_external_ids(Bridge.VXLAN)
        assert ids == {f"{VRF_ID}default": "1", **foreign}


async def test_the_services_zones_of_vrfs_remember_ended_connections(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.reconciler.flush()
        zones = service_zones({1})
        assert len(zones) == 2, "one of each bridge"
        assert outside.ovsdb.remembering == {Bridge.VXLAN: zones}
        outside.ovsdb.remembering.clear()
        agent.reconciler.on_bridges_recreated()
        await agent.reconciler.flush()
        assert outside.ovsdb.remembering == {Bridge.VXLAN: zones}


async def test_no_change_is_lost_to_vrf_ids_that_cannot_be_kept(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.failing["external ids"] = SwitchUnavailable("no answer")
        tell(agent, network("a", "blue"))
        with pytest.raises(SwitchUnavailable, match="no answer"):
            await agent.reconciler.put_port(KEY, port())
        assert "in_port=1 " not in flows_of(outside)
        outside.faults.failing.clear()
        await agent.reconciler.flush()
        assert "in_port=1 " in flows_of(outside)


async def test_vrf_ids_are_tried_again_with_nobody_asking(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.failing["external ids"] = SwitchUnavailable("no answer")
        tell(agent, network("a", "blue"))
        await outside.faults.until("external ids", 3)
        outside.faults.failing.clear()
        await eventually(
            lambda: "blue" in stored_vrfs(outside.ovsdb.bridge_external_ids(Bridge.VXLAN))
        )
