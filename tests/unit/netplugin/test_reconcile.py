"""Facts become flows and tunnel ports; nobody is told of a success that was none."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from core.errors import Exhausted, NotFound, SwitchRefused, SwitchUnavailable
from core.ids import EndpointKey, HostLabel
from netplugin import ports
from netplugin.ovsdb import PortRow, PortSpec
from netplugin.reconcile import vtep_options, vtep_rows
from netplugin.translation import LocalPort
from netplugin.vrfs import VRF_ID, stored_vrfs
from ofnet.world import Bridge
from state.records import GlobalRecord, Record, TagRangesRecord
from state.watch import Changed, Reached, Removed
from tests.unit.netplugin.agent import Agent, Outside, eventually, running
from tests.unit.netplugin.records import (
    HOST,
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


def vteps(agent: Agent) -> dict[HostLabel, tuple[str, int]]:
    agent.world.vxlan.alter_everything()
    world, changes = agent.world.take(Bridge.VXLAN)
    assert changes
    return {label: (str(vtep.ip), vtep.ofport) for label, vtep in world.vteps.items()}


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
        await asyncio.sleep(0.01)
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
        gate = outside.faults.stop(FLOWS)
        async with asyncio.TaskGroup() as calls:
            doomed = calls.create_task(agent.reconciler.put_port(key("c1"), port(1)))
            other = calls.create_task(agent.reconciler.put_port(key("c2"), port(2)))
            await asyncio.sleep(0.005)
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
        tell(agent, network(), host())
        agent.world.endpoints.put_port(KEY, port())
        await outside.faults.until("external ids")
        await asyncio.sleep(0.01)
        assert "in_port=1 " not in flows_of(outside)
        gate.set()
        await agent.reconciler.flush()
        assert "in_port=1 " in flows_of(outside)
        assert outside.ovsdb.bridge_external_ids(Bridge.VXLAN) == {f"{VRF_ID}default": "1"}


async def test_vrf_ids_that_are_free_again_are_forgotten(outside: Outside) -> None:
    foreign = {"somebody": "else"}
    outside.ovsdb.show(bridges={Bridge.VXLAN: foreign, Bridge.VLAN: {}})
    async with running(outside) as agent:
        tell(agent, network("a", "blue"))
        await agent.reconciler.flush()
        ids = outside.ovsdb.bridge_external_ids(Bridge.VXLAN)
        assert stored_vrfs(ids) == {"default": 1, "blue": 2}
        agent.reconciler.apply(Removed("key", network("a", "blue")))
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
        waiting = asyncio.gather(agent.reconciler.network(NET, 5.0))
        await asyncio.sleep(0)
        tell(agent, network("other"), network())
        (found,) = await waiting
        assert found == network()
        with pytest.raises(NotFound, match=r"nowhere\.default"):
            await agent.reconciler.network(nid_of("nowhere"), 0.01)


async def test_a_network_without_a_vrf_id_is_an_exhausted_pool(outside: Outside) -> None:
    others = tuple(network("n", f"t{number}") for number in range(255))
    async with running(outside, (*others, network())) as agent:
        with pytest.raises(Exhausted, match="VRF"):
            await agent.reconciler.network(NET, 0.01)


async def test_every_kind_of_record_comes_and_goes(outside: Outside) -> None:
    records: tuple[Record, ...] = (network("a", "blue"), endpoint(2, host=PEER), group(), host())
    async with running(outside) as agent:
        agent.sup.supervise("ports", agent.reconciler.run_ports())
        agent.sup.supervise("ovsdb", agent.reconciler.run_ovsdb())
        before = flows_of(outside)
        tell(agent, *records)
        await eventually(lambda: "nw_dst=10.1.0.2 " in flows_of(outside))
        for record in records:
            agent.reconciler.apply(Removed("key", record))
        await eventually(lambda: flows_of(outside) == before and not tunnels(outside))


async def test_what_this_agent_has_no_use_for_is_passed_over(outside: Outside) -> None:
    async with running(outside) as agent:
        settings = GlobalRecord(
            infra_type="default", fwd_mode="routing", arp_mode="proxy", pvt_subnet="172.19.0.0/16"
        )
        before = flows_of(outside)
        agent.reconciler.apply(Changed("key", TagRangesRecord(vlans="1-2", vxlans="3-4"), None))
        agent.reconciler.apply(Reached("/prefix/", 1))
        agent.reconciler.apply(Changed("key", settings, None))
        agent.reconciler.apply(Removed("key", settings))
        agent.reconciler.apply(Removed("key", endpoint(77)))
        agent.reconciler.apply(Removed("key", network("never")))
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
        await agent.reconciler.converge()
        await agent.reconciler.flush()
        before = flows_of(outside)
        tell(agent, bad)
        await agent.reconciler.converge()
        await agent.reconciler.flush()
        assert flows_of(outside) == before
        assert "record not understood" in caplog.text


# -- tunnel ports ------------------------------------------------------------------------------


async def test_each_peer_has_a_tunnel_port(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host(HOST, "192.0.2.1"), host(), host("h3", "192.0.2.3"))
        await agent.reconciler.converge()
        rows = tunnels(outside)
        assert rows.keys() == {"192.0.2.2", "192.0.2.3"}
        row = rows["192.0.2.2"]
        assert (row.name, row.type, row.tag) == ("vxif192022", "vxlan", 0)
        assert row.options == vtep_options(IPv4Address("192.0.2.2"), 4789)
        assert row.external_ids == {ports.VTEP_HOST_ID: PEER}
        assert row.ofport is not None
        assert row.ofport >= ports.FIRST_VTEP
        assert vteps(agent)[PEER] == ("192.0.2.2", row.ofport)


async def test_a_host_without_a_tunnel_end_of_its_own_has_no_port(outside: Outside) -> None:
    async with running(outside) as agent:
        # a host that was given another label is its own peer for a while
        tell(agent, host(HOST, "192.0.2.1"), host("old-label", "192.0.2.1"), host("h3", ""))
        await agent.reconciler.converge()
        assert tunnels(outside) == {}


async def test_two_records_with_one_address_share_a_port(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host(), host("new-label"), host("h3", "192.0.2.3"))
        await agent.reconciler.converge()
        assert len(tunnels(outside)) == 2
        found = vteps(agent)
        assert found[PEER] == found[HostLabel("new-label")]
        name = tunnels(outside)["192.0.2.2"].name
        agent.reconciler.apply(Removed("key", host()))
        await agent.reconciler.converge()
        assert tunnels(outside)["192.0.2.2"].name == name, "the other one goes on using it"
        assert vteps(agent).keys() == {"new-label", "h3"}


async def test_a_peer_that_moves_gets_another_port(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.reconciler.converge()
        old = vteps(agent)[PEER]
        tell(agent, host(vtep_ip="192.0.2.9"))
        await agent.reconciler.converge()
        assert tunnels(outside).keys() == {"192.0.2.9"}
        new = vteps(agent)[PEER]
        assert new[0] == "192.0.2.9"
        assert new[1] != old[1]


async def test_a_port_of_other_settings_is_made_anew_in_its_place(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.reconciler.converge()
        row = tunnels(outside)["192.0.2.2"]
        other = replace(row, options={**row.options, "dst_port": "8472"})
        outside.ovsdb.show(ports={row.name: other})
        await agent.reconciler.converge()
        assert tunnels(outside) == {"192.0.2.2": row}


async def test_no_port_is_deleted_before_the_world_is_complete(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.reconciler.converge()
        agent.world._complete = False
        agent.reconciler.apply(Removed("key", host()))
        await agent.reconciler.converge()
        assert tunnels(outside).keys() == {"192.0.2.2"}
        agent.world.set_complete()
        await agent.reconciler.converge()
        assert tunnels(outside) == {}


async def test_a_tunnel_port_deleted_by_hand_comes_back(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, network(), endpoint(2, host=PEER), host())
        agent.sup.supervise("ports", agent.reconciler.run_ports())
        agent.sup.supervise("ovsdb", agent.reconciler.run_ovsdb())
        await eventually(lambda: "nw_dst=10.1.0.2 " in flows_of(outside))
        outside.ovsdb.show(ports={})
        await eventually(lambda: "192.0.2.2" in tunnels(outside))
        await eventually(lambda: "nw_dst=10.1.0.2 " in flows_of(outside))


async def test_a_tunnel_port_with_another_number_is_followed(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, network(), endpoint(2, host=PEER), host())
        agent.sup.supervise("ports", agent.reconciler.run_ports())
        agent.sup.supervise("ovsdb", agent.reconciler.run_ovsdb())
        await eventually(lambda: "nw_dst=10.1.0.2 " in flows_of(outside))
        row = tunnels(outside)["192.0.2.2"]
        outside.ovsdb.show(ports={row.name: replace(row, ofport=77)})
        await eventually(lambda: "output:77" in flows_of(outside))


async def test_one_bad_tunnel_stops_no_other(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(outside) as agent:
        tell(agent, host("a", "192.0.2.1"), host("b", "192.0.2.2"), host("c", "192.0.2.3"))
        outside.ovsdb.given["vxif192022"] = -1
        await agent.reconciler.converge()
        assert vteps(agent).keys() == {"a", "c"}
        row = outside.ovsdb.ports()["vxif192022"]
        broken = {**outside.ovsdb.ports(), row.name: replace(row, ofport=-1, error="in use")}
        outside.ovsdb.show(ports=broken)
        for _ in range(3):
            await agent.reconciler.converge()
        assert [r.error for r in caplog.records if r.message == "tunnel port"] == ["in use"]  # type: ignore[attr-defined]


async def test_one_refused_tunnel_stops_no_other(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, *(host(f"h{n}", f"192.0.2.{n}") for n in range(5, 8)))
        add = outside.ovsdb.add_port

        async def refusing(bridge: str, spec: PortSpec, replaces: Iterable[str] = ()) -> None:
            if spec.name == "vxif192026":
                raise SwitchRefused("constraint")
            await add(bridge, spec, replaces)

        outside.ovsdb.add_port = refusing  # type: ignore[method-assign]
        with pytest.raises(SwitchRefused, match="constraint"):
            await agent.reconciler.converge()
        assert vteps(agent).keys() == {"h5", "h7"}


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
            await agent.reconciler.converge()
        assert "192.0.2.2" in tunnels(outside)
        absent = "uplink card eth1 is out of use: not on the bridge"
        assert absent in agent.progress.standing.errors
        outside.ovsdb.add_port = add  # type: ignore[method-assign]
        outside.links.there["eth1"] = None
        await agent.reconciler.converge()
        row = replace(outside.ovsdb.ports()["eth1"], link_state="up")
        outside.ovsdb.show(ports={**outside.ovsdb.ports(), "eth1": row})
        await agent.reconciler.converge()
        assert not [e for e in agent.progress.standing.errors if e.startswith("uplink")]


async def test_an_outage_of_the_database_is_waited_out(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.failing["row"] = SwitchUnavailable("no answer")
        agent.sup.supervise("ports", agent.reconciler.run_ports())
        tell(agent, host())
        await outside.faults.until("row", 3)
        outside.faults.failing.clear()
        await eventually(lambda: "192.0.2.2" in tunnels(outside))


async def test_a_second_port_to_one_address_goes(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.reconciler.converge()
        row = tunnels(outside)["192.0.2.2"]
        rows = [row, replace(row, name="zz"), replace(row, name="yy", options={})]
        outside.ovsdb.show(ports={r.name: r for r in rows})
        await agent.reconciler.converge()
        assert outside.ovsdb.ports().keys() == {row.name}


async def test_a_tunnel_port_of_somebody_else_is_left_alone(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.reconciler.converge()
        row = tunnels(outside)["192.0.2.2"]
        foreign = replace(row, name="vxlan0", external_ids={}, options={"remote_ip": "192.0.2.50"})
        outside.ovsdb.show(ports={row.name: row, "vxlan0": foreign})
        agent.reconciler.apply(Removed("key", host()))
        await agent.reconciler.converge()
        assert outside.ovsdb.ports().keys() == {"vxlan0"}


async def test_a_bridge_that_is_gone_is_made_again_with_all_it_held(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, network(), host())
        agent.sup.supervise("ports", agent.reconciler.run_ports())
        agent.sup.supervise("ovsdb", agent.reconciler.run_ovsdb())
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
