"""What an ADD makes, what it waits for, and how it fails."""

import asyncio
import itertools
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface

import pytest

from core import keys
from core.errors import Exhausted, NotFound, SwitchUnavailable
from netplugin.pods.registry.journal_entry import EntryState
from netplugin.world.bridges import port_names
from ofnet.world import Bridge, FwdMode
from state.records import Encap, GlobalRecord
from state.watch import SyncedTo
from tests.unit.netplugin.agent import (
    NOTHING_LEFT,
    Outside,
    eventually,
    left_nothing,
    request,
    running,
)
from tests.unit.netplugin.fakes import Inside
from tests.unit.netplugin.pods.handler import STEPS, failure_of
from tests.unit.netplugin.records import PEER, endpoint, key, network, nid_of

pytestmark = pytest.mark.usefixtures("hurried")
FLOWS = f"flows {Bridge.VXLAN}"


async def test_an_add_makes_all_there_is_to_a_pod(outside: Outside) -> None:
    async with running(outside) as agent:
        result = await agent.pods.add(request())
        name = result.host_ifname
        assert result.ipv4 == IPv4Interface("10.1.0.1/16")
        assert (str(result.gateway), result.mtu) == ("10.1.255.254", 1450)
        inside = outside.links.inside["/run/netns/c1", "eth0"]
        assert inside == Inside(result.mac, [result.ipv4], [IPv4Address("10.1.255.254")])
        row = outside.ovsdb.ports()[name]
        assert (row.ofport, row.tag) == (port_names.number_of(name), 1)
        assert row.external_ids[port_names.ENDPOINT_ID] == key("c1")
        assert outside.journal.entries[key("c1")].state is EntryState.PRESENT
        assert agent.world.endpoints.port(key("c1")) is not None
        assert len(agent.traces()[4]) >= 3  # type: ignore[arg-type]

        await agent.pods.delete(request())
        await left_nothing(agent)


async def test_the_link_is_made_while_netmaster_is_asked(outside: Outside) -> None:
    async with running(outside) as agent, asyncio.TaskGroup() as calls:
        granted = outside.faults.stop("create")
        calls.create_task(agent.pods.add(request()))
        await eventually(lambda: bool(outside.links.there))
        assert not outside.links.inside
        granted.set()


async def test_the_link_of_a_network_that_is_not_known_waits_for_its_mtu(outside: Outside) -> None:
    outside.master.networks.add(nid_of("n2"))
    async with running(outside) as agent, asyncio.TaskGroup() as calls:
        granted = outside.faults.stop("create")
        calls.create_task(agent.pods.add(request(network="n2")))
        await outside.faults.until("create")
        await outside.faults.quiet()
        assert not outside.links.there
        agent.learn("k", network("n2", tag=9))
        granted.set()


async def test_an_add_fails_if_its_network_is_recreated_on_the_other_bridge(
    outside: Outside,
) -> None:
    async with running(outside) as agent:
        granted = outside.faults.stop("create")
        async with asyncio.TaskGroup() as calls:
            call = calls.create_task(failure_of(agent))
            await eventually(lambda: bool(outside.links.there))
            agent.learn("k", replace(network(), encap=Encap.VLAN))
            granted.set()
        assert "was recreated meanwhile" in str(call.result())
        # the flows of the network itself are on the other bridge now
        assert agent.traces()[:4] == NOTHING_LEFT[:4]


@pytest.mark.parametrize(("pod", "name"), [("web-1", "web-1"), ("", "c1")])
async def test_an_endpoint_goes_by_the_name_of_its_pod(
    outside: Outside, pod: str, name: str
) -> None:
    async with running(outside) as agent:
        for _ in range(2):
            await agent.pods.add(replace(request(), pod_name=pod))
            assert outside.master.endpoints.pop(key("c1")).common_name == name


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(STEPS, 2)))
async def test_of_two_failures_the_first_is_told(outside: Outside, first: str, second: str) -> None:
    async with running(outside) as agent:
        outside.faults.reached.clear()
        gates = {step: outside.faults.stop(step) for step in (first, second)}
        outside.faults.failing |= {first: SwitchUnavailable("first")}
        outside.faults.failing |= {second: SwitchUnavailable("second")}
        async with asyncio.TaskGroup() as calls:
            call = calls.create_task(failure_of(agent))
            reached = outside.faults.reached
            await eventually(lambda: bool(reached[first] or reached[second]))
            await outside.faults.quiet()
            together = bool(reached[first] and reached[second])
            gates[first].set()
            await outside.faults.quiet()
            gates[second].set()
        if together:
            assert str(call.result()) == "first"
        outside.faults.failing.clear()
        await left_nothing(agent)


async def test_a_port_that_gets_another_number_fails(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.ovsdb.given["vvport1"] = 51
        with pytest.raises(SwitchUnavailable, match="number 51 instead of 1"):
            await agent.pods.add(request())
        await left_nothing(agent)
        assert (await agent.pods.add(request())).host_ifname == "vvport2"


async def test_a_port_that_gets_no_number_fails_in_time(outside: Outside) -> None:
    outside.ovsdb.port_ready = 0.05
    async with running(outside) as agent:
        outside.ovsdb.given["vvport1"] = -1
        with pytest.raises(SwitchUnavailable, match="not ready"):
            await agent.pods.add(request())
        await left_nothing(agent)


async def test_a_network_the_store_does_not_tell_of_fails_in_time(outside: Outside) -> None:
    outside.master.networks.add(nid_of("n2"))
    async with running(outside) as agent:
        with pytest.raises(NotFound, match=r"n2\.default"):
            await agent.pods.add(request(network="n2"))
        await left_nothing(agent)


async def test_a_network_may_come_after_netmasters_answer(outside: Outside) -> None:
    outside.master.networks.add(nid_of("n2"))
    async with running(outside) as agent:
        asked = asyncio.gather(agent.pods.add(request(network="n2")))
        await outside.faults.until("create")
        await outside.faults.quiet()
        agent.learn("k", network("n2", tag=9))
        (result,) = await asked
        assert outside.ovsdb.ports()[result.host_ifname].tag == 9


async def test_a_port_has_the_tag_that_its_network_has_by_then(outside: Outside) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("create")
        asked = asyncio.gather(agent.pods.add(request()))
        await outside.faults.until("create")
        agent.learn("k", network(tag=7))
        gate.set()
        (result,) = await asked
        assert outside.ovsdb.ports()[result.host_ifname].tag == 7


async def test_a_pod_waits_for_its_policies(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.master.revisions = {keys.RULES: 7}
        adding = asyncio.gather(agent.pods.add(request()))
        await outside.faults.until("create")
        await outside.faults.quiet()
        assert not agent.world.take(Bridge.VXLAN)[0].local
        agent.records.apply(SyncedTo(keys.RULES, 7))
        (result,) = await adding
        assert result.endpoint_id == "c1"


async def test_a_pod_waits_for_all_older_ones(outside: Outside) -> None:
    """Of two new pods that do not know each other's group nobody could judge what they say."""
    async with running(outside) as agent:
        outside.master.revisions = {keys.ENDPOINTS: 7}
        adding = asyncio.gather(agent.pods.add(request()))
        await outside.faults.until("create")
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 6))
        await outside.faults.quiet()
        assert not agent.world.take(Bridge.VXLAN)[0].local
        agent.learn(f"{keys.ENDPOINTS}2", endpoint(2, host=PEER))
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 7))
        await adding
        known = agent.world.take(Bridge.VXLAN)[0]
        assert (len(known.local), len(known.remote)) == (1, 1)


async def test_without_its_policies_a_pod_is_refused(outside: Outside) -> None:
    outside.set_timing(policies_known=0.05)
    async with running(outside) as agent:
        outside.master.revisions = {keys.RULES: 7}
        with pytest.raises(SwitchUnavailable, match="policies are not in force"):
            await agent.pods.add(request())
        await left_nothing(agent)


async def test_a_pod_of_a_vlan_network_is_on_the_other_bridge(outside: Outside) -> None:
    async with running(outside, (network(tag=100, encap=Encap.VLAN),)) as agent:
        result = await agent.pods.add(request())
        (row,) = outside.ovsdb.ports().values()
        assert (row.name, row.bridge, row.tag) == (result.host_ifname, Bridge.VLAN, 100)
        assert result.mtu == 1500
        assert agent.world.take(Bridge.VLAN)[0].local.keys() == {key("c1")}
        await agent.pods.delete(request())
        await left_nothing(agent)


@pytest.mark.parametrize("known", [True, False])
async def test_where_a_switch_delivers_unasked_flows_come_before_the_port(
    outside: Outside, known: bool
) -> None:
    vlan = network(tag=100, encap=Encap.VLAN)
    async with running(outside, (vlan,) if known else ()) as agent:
        agent.world.put(
            GlobalRecord(infra_type="", fwd_mode=FwdMode.BRIDGE, arp_mode="", pvt_subnet="")
        )
        await agent.reconciler.flush()
        flows = outside.faults.stop(f"flows {Bridge.VLAN}")
        adding = asyncio.gather(agent.pods.add(request()))
        await outside.faults.until("create")
        agent.world.put(vlan)
        agent.records.apply(SyncedTo(keys.NETWORKS, 1))
        await outside.faults.quiet()
        assert not outside.faults.reached["row"]
        flows.set()
        await adding
        assert outside.faults.reached.get("row") == 1


async def test_a_network_without_a_vrf_id_is_refused(outside: Outside) -> None:
    others = tuple(network("n", f"t{number}") for number in range(255))
    async with running(outside, (*others, network())) as agent:
        with pytest.raises(Exhausted, match="VRF"):
            await agent.pods.add(request())
        await left_nothing(agent)
