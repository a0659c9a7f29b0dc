"""Ports of endpoints that are there: whoever changes them, they become as they should be again."""

import asyncio
from dataclasses import replace

import pytest

from core.errors import (
    SwitchRefused,
)
from netplugin.cni.net_config import BandwidthLimit
from netplugin.pods.pod_ports import RECLAIMED
from netplugin.pods.registry.journal_entry import EntryState
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort
from ofnet.world import Bridge
from state.records import Encap
from tests.bed.waiting import WITHIN
from tests.unit.netplugin.agent import (
    Agent,
    Outside,
    eventually,
    in_group,
    left_nothing,
    request,
    row_of,
    running,
)
from tests.unit.netplugin.records import HOST, asking, endpoint, group, key, network
from tests.unit.netplugin.worlds import four_of

pytestmark = pytest.mark.usefixtures("hurried")


async def test_a_row_deleted_by_hand_comes_back(outside: Outside) -> None:
    async with running(outside) as agent:
        result = await agent.pods.add(request())
        await agent.pods.add(request("c2"))
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        await eventually(lambda: not agent.registry._locks)
        before = agent.traces()
        outside.ovsdb.lose(result.host_ifname)
        await eventually(lambda: agent.traces() == before)
        row = outside.ovsdb.ports()[result.host_ifname]
        assert (row.ofport, row.tag) == (1, 1)
        assert row.external_ids[port_names.ENDPOINT_ID] == key("c1")


async def test_rows_missing_at_start_come_back(outside: Outside) -> None:
    async with running(outside) as agent:
        names = {(await agent.pods.add(request(f"c{n}"))).host_ifname for n in range(3)}
        base, before = agent.base, agent.traces()
    outside.ovsdb.show(ports={})
    async with running(outside) as agent:
        agent.base = base
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        await eventually(lambda: outside.ovsdb.ports().keys() == names)
        await eventually(lambda: agent.traces() == before)


async def test_a_refused_row_is_tried_again(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        outside.faults.failing["row"] = SwitchRefused("no bridge")
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        outside.ovsdb.show(ports={})
        await outside.faults.until("row", 3)
        (error,) = agent.progress.standing.errors
        assert error == f"ports of pods not in sync: port of {key('c1')} not recreated: no bridge"
        outside.faults.failing.clear()
        await eventually(lambda: "vvport1" in outside.ovsdb.ports())
        await eventually(lambda: not agent.progress.standing.errors)


async def test_looking_at_rows_does_not_wait_for_calls(outside: Outside) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("row")
        added = asyncio.gather(agent.pods.add(request()))
        await eventually(lambda: key("c1") in outside.journal.entries)
        await eventually(lambda: outside.journal.entries[key("c1")].state is EntryState.PRESENT)
        await eventually(lambda: "vvport1" in outside.links.there)
        async with asyncio.timeout(WITHIN):
            await agent.pod_ports.converge()
        assert outside.faults.reached["row"] == 1
        gate.set()
        await added


async def test_nothing_is_swept_before_the_world_is_complete(outside: Outside) -> None:
    async with running(outside) as agent:
        await outside.ovsdb.add_port(Bridge.VXLAN, row_of("vvport9"))
        agent.world._complete = False
        await agent.pod_ports.converge()
        assert agent.teardown.ports() == set()
        agent.world._complete = True
        await agent.pod_ports.converge()
        assert agent.teardown.ports() == {9}


async def test_no_row_is_made_for_a_link_that_is_gone(outside: Outside) -> None:
    # after a reboot the pods are gone; their DELs are still to come
    async with running(outside) as agent:
        await agent.pods.add(request())
        outside.links.there.clear()
        outside.ovsdb.show(ports={})
        await agent.pod_ports.converge()
        assert outside.ovsdb.ports() == {}
        await agent.pods.delete(request())
        await left_nothing(agent)


async def test_a_changed_number_is_followed(outside: Outside) -> None:
    async with running(outside) as agent:
        result = await agent.pods.add(request())
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        row = outside.ovsdb.ports()[result.host_ifname]
        outside.ovsdb.show(ports={row.name: replace(row, ofport=77)})
        await eventually(lambda: ofport_of(agent) == 77)


def ofport_of(agent: Agent) -> int | None:
    port = agent.world.endpoints.port(key("c1"))
    return None if port is None else port.ofport


async def test_a_port_on_the_bridge_that_is_not_ours_is_left_alone(outside: Outside) -> None:
    async with running(outside) as agent:
        await outside.ovsdb.add_port(Bridge.VXLAN, row_of("vvport9"))
        row = outside.ovsdb.ports()["vvport9"]
        foreign = {
            "tap0": replace(row, name="tap0"),
            "vvport9x": replace(row, name="vvport9x"),
            "vvport8": replace(row, name="vvport8", bridge="br-other"),
        }
        outside.ovsdb.show(ports=foreign)
        await agent.pod_ports.converge()
        await outside.faults.quiet()
        assert outside.ovsdb.ports().keys() == foreign.keys()


async def test_an_endpoint_without_a_record_stays_cut_off(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        base = agent.base
    outside.master.endpoints.clear()
    async with running(outside) as agent:
        assert agent.pod_ports.publish() == {key("c1"): RECLAIMED}
        assert agent.world.endpoints.port(key("c1")) is None
        assert {k for s in outside.switches.values() for k in s.table} == base
        assert outside.links.there.keys() == {"vvport1"}
        await agent.pods.delete(request())
        agent.base = base
        await left_nothing(agent)


async def test_the_record_of_an_add_in_progress_is_the_newest(outside: Outside) -> None:
    # an old record of the same pod may still be what the store has told
    async with running(outside) as agent:
        agent.learn("k", endpoint(9, container="c1"))
        gate = outside.faults.stop("inside")
        added = asyncio.gather(agent.pods.add(request()))
        await outside.faults.until("inside")
        await eventually(lambda: agent.world.endpoints.port(key("c1")) is not None)
        await agent.pod_ports.converge()
        gate.set()
        (result,) = await added
        port = agent.world.endpoints.port(key("c1"))
        assert port == LocalPort(record=outside.master.endpoints[key("c1")], ofport=1, number=1)
        assert str(four_of(result)) == port.record.ip_address
        assert port.record.homing_host == HOST


# -- what a group gives its ports -----------------------------------------------------------------


def limits(agent: Agent, name: str = "vvport1") -> tuple[int, int]:
    row = agent.outside.ovsdb.ports()[name]
    return row.policing_rate, row.policing_burst


async def test_a_pod_of_a_group_has_its_limits_from_the_start(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn("g", group(bandwidth="10 mbps", burst=2000))
        await agent.pods.add(in_group(request(), "web"))
        await agent.pods.add(request("c2"))
        assert limits(agent) == (10485, 2000)
        assert limits(agent, "vvport2") == (0, 0)
        assert not outside.faults.reached["policing"]


async def test_a_pod_has_the_stricter_of_its_groups_limit_and_its_own(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn("g", group(bandwidth="10 mbps", burst=2000))
        await agent.pods.add(asking(in_group(request(), "web"), limit=BandwidthLimit(1000, 100)))
        await agent.pods.add(
            asking(in_group(request("c2"), "web"), limit=BandwidthLimit(90_000, 9))
        )
        await agent.pods.add(asking(request("c3"), limit=BandwidthLimit(5, 1)))
        assert limits(agent) == (1000, 100)
        assert limits(agent, "vvport2") == (10485, 2000)
        assert limits(agent, "vvport3") == (5, 1)


def metered(agent: Agent, container: str = "c1") -> tuple[int, int]:
    port = agent.world.endpoints.port(key(container))
    assert port is not None
    return port.rate, port.burst


async def test_in_the_userspace_datapath_flows_keep_the_limits(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn("g", group(bandwidth="10 mbps", burst=2000))
        await agent.pods.add(in_group(request(), "web"))
        await agent.pods.add(request("c2"))
        assert metered(agent) == (10485, 2000)
        assert metered(agent, "c2") == (0, 0)
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        agent.learn("g", group(bandwidth="20 mbps", burst=3000))
        await eventually(lambda: metered(agent) == (20971, 3000))


async def test_a_change_of_the_group_reaches_running_pods(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn("g", group(bandwidth="10 mbps", burst=2000))
        await agent.pods.add(in_group(request(), "web"))
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        agent.learn("g", group(bandwidth="20 mbps", burst=3000))
        await eventually(lambda: limits(agent) == (20971, 3000))
        await outside.faults.quiet()  # what OVSDB has told since has been looked at
        agent.learn("g", group())
        await eventually(lambda: limits(agent) == (0, 0))
        assert outside.faults.reached["row"] == 1


async def test_limits_changed_by_hand_are_corrected(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn("g", group(bandwidth="10 mbps", burst=2000))
        await agent.pods.add(in_group(request(), "web"))
        await agent.pods.add(request("c2"))
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        outside.ovsdb.police("vvport1", 0, 0)
        outside.ovsdb.police("vvport2", 7, 7)
        await eventually(lambda: limits(agent) == (10485, 2000))
        await eventually(lambda: limits(agent, "vvport2") == (0, 0))


async def test_a_group_that_is_heard_of_during_the_add_limits_its_pod(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        gate = outside.faults.stop("journal present")
        added = asyncio.gather(agent.pods.add(in_group(request(), "web")))
        await outside.faults.until("journal present")
        await eventually(lambda: "vvport1" in outside.ovsdb.ports())
        agent.learn("g", group(bandwidth="10 mbps", burst=2000))
        await eventually(lambda: limits(agent) == (10485, 2000))
        gate.set()
        await added
        assert limits(agent) == (10485, 2000)


async def test_a_port_that_cannot_be_limited_is_tried_again(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn("g", group())
        await agent.pods.add(in_group(request(), "web"))
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        outside.faults.failing["policing"] = SwitchRefused("constraint")
        agent.learn("g", group(bandwidth="1g"))
        await outside.faults.until("policing", 3)
        assert limits(agent) == (0, 0)
        outside.faults.failing.clear()
        await eventually(lambda: limits(agent) == (1_073_741, 0))


async def test_a_port_made_again_has_its_limits_at_once(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn("g", group(bandwidth="10 mbps", burst=2000))
        await agent.pods.add(in_group(request(), "web"))
        outside.ovsdb.lose("vvport1")
        await agent.pod_ports.converge()
        assert limits(agent) == (10485, 2000)
        assert not outside.faults.reached["policing"]


async def test_a_pod_is_on_the_vlan_of_its_own_group(outside: Outside) -> None:
    async with running(outside, (network(encap=Encap.VLAN, tag=100),)) as agent:
        agent.learn("g", group(tag=700))
        await agent.pods.add(in_group(request(), "web"))
        await agent.pods.add(request("c2"))
        assert [row.tag for row in outside.ovsdb.ports().values()] == [700, 100]


async def test_a_group_heard_of_with_the_grant_gives_its_pod_the_vlan(outside: Outside) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("create")
        added = asyncio.gather(agent.pods.add(in_group(request(), "web")))
        await outside.faults.until("create")
        agent.learn("g", group(tag=700))
        gate.set()
        (result,) = await added
        assert outside.ovsdb.ports()[result.host_ifname].tag == 700
