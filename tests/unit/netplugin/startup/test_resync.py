"""The order of a start: what is waited for, and that absence means gone only when all is read."""

import pytest

from core import keys
from core.errors import SwitchRefused
from core.tasks import background
from netplugin.kernel.links.pod_links import PodLink
from netplugin.ovsdb import PortSpec
from netplugin.startup.context import AgentTiming
from netplugin.startup.resync import _wait_for_flows
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort
from ofnet.world import Bridge
from tests.unit.netplugin.agent import (
    Agent,
    Outside,
    eventually,
    request,
    running,
    stays,
)
from tests.unit.netplugin.records import PEER, endpoint, host, key
from tests.unit.netplugin.starts import GLOBAL
from tests.unit.netplugin.startup.resync import resync_of, starting, stored


async def ran_before(outside: Outside) -> Agent:
    """Let an agent make two pods, a tunnel and the host's port, and die."""
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, GLOBAL)
        await agent.host_access.converge()
        await agent.pods.add(request("c1"))
        await agent.pods.add(request("c2"))
        agent.learn("k", host())
        agent.learn("k", endpoint(9, host=PEER))
        await agent.ports.converge()
        await agent.reconciler.flush()
        await outside.faults.quiet()
        await agent.ports.converge()
        await agent.reconciler.flush()
    return agent


async def test_a_restart_changes_no_flow(outside: Outside) -> None:
    await ran_before(outside)
    before = {b: dict(switch.table) for b, switch in outside.switches.items()}
    rows, links = dict(outside.ovsdb.ports()), dict(outside.links.there)
    outside.faults.reached.clear()
    store = await stored(host(), endpoint(9, host=PEER), *outside.master.endpoints.values())
    async with starting(outside, store) as agent:
        await resync_of(agent)
        assert {b: s.table for b, s in outside.switches.items()} == before
        assert (dict(outside.ovsdb.ports()), dict(outside.links.there)) == (rows, links)
        changed = {step for step, times in outside.faults.reached.items() if times}
        checked = {"bridge", "own link", "neighbours", "routes", "routing", "rules", "chains"}
        assert changed == checked, "these are only checked"


async def test_nothing_goes_before_all_has_been_read(outside: Outside) -> None:
    await ran_before(outside)
    before = {b: dict(switch.table) for b, switch in outside.switches.items()}
    store = await stored(host(), endpoint(9, host=PEER), *outside.master.endpoints.values())
    store.faults.reachable.clear()
    async with starting(outside, store) as agent, background("resync", resync_of(agent)) as task:
        await stays(lambda: not agent.world.complete)
        assert {b: s.table for b, s in outside.switches.items()} == before
        store.faults.reachable.set()
        await eventually(task.done)
        assert {b: s.table for b, s in outside.switches.items()} == before


async def test_what_went_while_the_agent_was_away_goes_now(outside: Outside) -> None:
    await ran_before(outside)
    gone = outside.master.endpoints.pop(key("c2"))
    store = await stored(outside.master.endpoints[key("c1")])
    async with starting(outside, store) as agent:
        await resync_of(agent)
        text = "\n".join(str(f) for f in outside.switches[Bridge.VXLAN].table.values())
        assert "nw_dst=10.1.0.1 " in text
        assert f"nw_dst={gone.ip_address} " not in text, "cut off until its runtime deletes it"
        assert "nw_dst=10.1.0.9 " not in text
        left = {"vvport1", "vvport2", "contivh0", "contivv0"}
        await eventually(lambda: outside.ovsdb.ports().keys() == left)
        assert outside.links.there.keys() == left


async def test_rows_and_links_no_journal_knows_are_swept(outside: Outside) -> None:
    await ran_before(outside)
    for name in ("vvport7", "vvport8"):
        outside.links.there[name] = PodLink(
            host_name=name, ifname="eth0", netns_path=f"/run/netns/{name}", mtu=1450
        )
    outside.links.there["eth0"] = None
    for name in ("vvport8", "vvport9"):
        spec = PortSpec(name=name, ofport_request=port_names.number_of(name))
        await outside.ovsdb.add_port(Bridge.VXLAN, spec)
    store = await stored(*outside.master.endpoints.values())
    async with starting(outside, store) as agent:
        outside.faults.stop("unlink")
        await resync_of(agent)
        # nobody gets the number of a port that is on its way out
        result = await agent.pods.add(request("c3"))
        assert result.host_ifname not in {"vvport7", "vvport8", "vvport9"}
        outside.faults.stopped["unlink"].set()
        ours = {"vvport1", "vvport2", result.host_ifname, "contivh0", "contivv0"}
        await eventually(lambda: outside.links.there.keys() == {*ours, "eth0"})
        await eventually(lambda: outside.ovsdb.ports().keys() == ours)


async def test_a_lost_database_is_filled_again(outside: Outside) -> None:
    await ran_before(outside)
    rows = {name: row.external_ids for name, row in outside.ovsdb.ports().items()}
    outside.ovsdb.show(ports={})
    store = await stored(host(), endpoint(9, host=PEER), *outside.master.endpoints.values())
    async with starting(outside, store) as agent:
        await resync_of(agent)
        await eventually(
            lambda: {n: r.external_ids for n, r in outside.ovsdb.ports().items()} == rows
        )


async def test_a_tunnel_that_cannot_be_made_does_not_stop_the_start(outside: Outside) -> None:
    store = await stored(host())
    outside.faults.failing["row"] = SwitchRefused("constraint")
    async with starting(outside, store) as agent:
        await resync_of(agent)
        outside.faults.failing.clear()
        await eventually(lambda: any(map(port_names.is_vtep, outside.ovsdb.ports())))


async def test_a_start_ends_when_the_flows_are_there(outside: Outside) -> None:
    store = await stored()
    gate = outside.faults.stop(f"flows {Bridge.VXLAN}")
    async with starting(outside, store) as agent, background("resync", resync_of(agent)) as task:
        await outside.faults.until(f"flows {Bridge.VXLAN}")
        await stays(lambda: not task.done())
        gate.set()
        await eventually(task.done)
        assert outside.switches[Bridge.VXLAN].table


async def test_a_switch_that_is_not_there_yet_is_waited_for(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    outside.timing = AgentTiming(switch_wait=0.01)
    for switch in outside.switches.values():
        switch.go(online=False)
    store = await stored()
    async with starting(outside, store) as agent, background("resync", resync_of(agent)) as task:
        await eventually(lambda: "is ovs-vswitchd running?" in caplog.text)
        for switch in outside.switches.values():
            switch.go(online=True)
        await eventually(task.done)
        assert all(switch.table for switch in outside.switches.values())


async def test_refused_flows_do_not_stop_the_start(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(outside) as agent:
        outside.faults.failing[f"flows {Bridge.VXLAN}"] = SwitchRefused("table full")
        agent.world.endpoints.put_port(key("c1"), LocalPort(record=endpoint(), ofport=1))
        await _wait_for_flows(agent.dataplane, 10.0)
        assert "flows refused" in caplog.text
