"""Bridges, uplink and tunnel ports are what they should be, whoever changed them."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from core.errors import SwitchRefused, SwitchUnavailable
from netplugin.ovsdb import PortSpec
from netplugin.world.bridges.vrfs import stored_vrfs
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Outside, eventually, running
from tests.unit.netplugin.bridges.reconciler import tell, tunnels
from tests.unit.netplugin.records import host, network


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
