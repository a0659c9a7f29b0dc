"""The World becomes flows and ports; no call succeeds before the switch has acknowledged."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from core.errors import Exhausted, NotFound, SwitchRefused, SwitchUnavailable
from core.ids import EndpointKey
from netplugin.bridges.tunnels import vtep_rows
from netplugin.ovsdb import PortRow, PortSpec
from netplugin.world.conversion import LocalPort
from netplugin.world.vrfs import VRF_ID, stored_vrfs
from ofnet.world import Bridge
from state.records import GlobalRecord, Record, TagRangesRecord
from state.watch import Changed, Reached, Removed
from tests.unit.netplugin.agent import Agent, Outside, eventually, running, turns
from tests.unit.netplugin.records import (
    NET,
    PEER,
    endpoint,
    group,
    host,
    key,
    network,
    nid_of,
)

FLOWS = f"flows {Bridge.VXLAN}"
KEY = key("c1")


def port(number: int = 1) -> LocalPort:
    return LocalPort(record=endpoint(number), ofport=number)


def tell(agent: Agent, *records: Record) -> None:
    for record in records:
        agent.learn("key", record)


def flows_of(outside: Outside) -> str:
    return "\n".join(str(flow) for s in outside.switches.values() for flow in s.table.values())


def tunnels(outside: Outside) -> dict[str, PortRow]:
    return vtep_rows(outside.ovsdb.ports(Bridge.VXLAN))


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


# -- facts from the store ----------------------------------------------------------------------


async def test_a_network_is_waited_for(outside: Outside) -> None:
    async with running(outside, ()) as agent:
        waiting = asyncio.gather(agent.records.network(NET, 5.0))
        await asyncio.sleep(0)
        tell(agent, network("other"), network())
        (found,) = await waiting
        assert found == network()
        with pytest.raises(NotFound, match=r"nowhere\.default"):
            await agent.records.network(nid_of("nowhere"), 0.01)


async def test_a_network_without_a_vrf_id_is_an_exhausted_pool(outside: Outside) -> None:
    others = tuple(network("n", f"t{number}") for number in range(255))
    async with running(outside, (*others, network())) as agent:
        with pytest.raises(Exhausted, match="VRF"):
            await agent.records.network(NET, 0.01)


async def test_every_kind_of_record_comes_and_goes(outside: Outside) -> None:
    records: tuple[Record, ...] = (network("a", "blue"), endpoint(2, host=PEER), group(), host())
    async with running(outside) as agent:
        agent.sup.supervise("ports", agent.ports.run())
        before = flows_of(outside)
        tell(agent, *records)
        await eventually(lambda: "nw_dst=10.1.0.2 " in flows_of(outside))
        for record in records:
            agent.records.apply(Removed("key", record))
        await eventually(lambda: flows_of(outside) == before and not tunnels(outside))


async def test_what_this_agent_has_no_use_for_is_passed_over(outside: Outside) -> None:
    async with running(outside) as agent:
        settings = GlobalRecord(
            infra_type="default", fwd_mode="routing", arp_mode="proxy", pvt_subnet="172.19.0.0/16"
        )
        before = flows_of(outside)
        agent.records.apply(Changed("key", TagRangesRecord(vlans="1-2", vxlans="3-4"), None))
        agent.records.apply(Reached("/prefix/", 1))
        agent.records.apply(Changed("key", settings, None))
        agent.records.apply(Removed("key", settings))
        agent.records.apply(Removed("key", endpoint(77)))
        agent.records.apply(Removed("key", network("never")))
        await agent.reconciler.flush()
        assert flows_of(outside) == before


@pytest.mark.parametrize(
    "bad",
    [
        network(gateway="10.1.1"),
        replace(network(), ipv6_gateway="2001::x"),
        replace(endpoint(2, host=PEER), ip_address="10.1.0.2/16"),
        replace(endpoint(2, host=PEER), ipv6_address="::x"),
        replace(endpoint(2, host=PEER), mac_address="02:02"),
        host(vtep_ip="nowhere"),
    ],
)
async def test_the_last_good_record_stays_in_force(
    outside: Outside, bad: Record, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(outside) as agent:
        tell(agent, endpoint(2, host=PEER), host())
        await agent.ports.converge()
        await agent.reconciler.flush()
        before = flows_of(outside)
        tell(agent, bad)
        await agent.ports.converge()
        await agent.reconciler.flush()
        assert flows_of(outside) == before
        assert "invalid record" in caplog.text


# -- bridges and ports ------------------------------------------------------------------------


async def test_a_refused_uplink_is_named_and_stops_no_tunnel(outside: Outside) -> None:
    async with running(outside, macs={"eth1": "52:54:00:00:00:01"}) as agent:
        tell(agent, host())
        add = outside.ovsdb.add_port

        async def refusing(bridge: str, spec: PortSpec, replaces: Iterable[str] = ()) -> None:
            if spec.name == "eth1":
                raise SwitchRefused("constraint")
            await add(bridge, spec, replaces)

        outside.ovsdb.add_port = refusing  # type: ignore[method-assign]
        with pytest.raises(SwitchRefused, match="constraint"):
            await agent.ports.converge()
        assert "192.0.2.2" in tunnels(outside)
        absent = "uplink card eth1 is out of use: not on the bridge"
        assert absent in agent.progress.standing.errors
        outside.ovsdb.add_port = add  # type: ignore[method-assign]
        outside.links.there["eth1"] = None
        await agent.ports.converge()
        row = replace(outside.ovsdb.ports()["eth1"], link_state="up")
        outside.ovsdb.show(ports={**outside.ovsdb.ports(), "eth1": row})
        await agent.ports.converge()
        assert not [e for e in agent.progress.standing.errors if e.startswith("uplink")]


async def test_an_outage_of_the_database_is_waited_out(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.failing["row"] = SwitchUnavailable("no answer")
        agent.sup.supervise("ports", agent.ports.run())
        tell(agent, host())
        await outside.faults.until("row", 3)
        outside.faults.failing.clear()
        await eventually(lambda: "192.0.2.2" in tunnels(outside))


async def test_a_bridge_that_is_gone_is_made_again_with_all_it_held(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, network(), host())
        agent.sup.supervise("ports", agent.ports.run())
        await eventually(lambda: "192.0.2.2" in tunnels(outside))
        outside.ovsdb.show(ports={}, bridges={})
        await eventually(lambda: "192.0.2.2" in tunnels(outside))
        assert outside.ovsdb.bridges() == set(Bridge)
        await eventually(
            lambda: stored_vrfs(outside.ovsdb.bridge_external_ids(Bridge.VXLAN)) == {"default": 1}
        )


async def test_an_endpoint_key_is_the_callers(outside: Outside) -> None:
    async with running(outside) as agent:
        strange = EndpointKey("n1.default-x")
        await agent.reconciler.put_port(strange, port())
        await agent.reconciler.remove_port(strange)
        assert "in_port=1 " not in flows_of(outside)
