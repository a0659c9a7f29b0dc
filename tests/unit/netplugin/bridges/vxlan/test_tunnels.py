"""Each peer has a tunnel port, whatever was there; one that cannot be made stops no other."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

import pytest

from core.errors import SwitchRefused
from core.ids import HostLabel
from core.retry import Pace
from netplugin.bridges.vxlan.tunnels import vtep_options
from netplugin.ovsdb import PortSpec
from netplugin.world.bridges import port_names
from ofnet.world import TUNNEL_SOURCES4, Bridge
from state.watch import Removed
from tests.unit.netplugin.agent import Agent, Outside, eventually, running
from tests.unit.netplugin.bridges.reconciler import flows_of, tell, tunnels
from tests.unit.netplugin.records import HOST, PEER, endpoint, host, network


def vteps(agent: Agent) -> dict[HostLabel, tuple[str, int]]:
    agent.world.vxlan.alter_everything()
    world, changes = agent.world.take(Bridge.VXLAN)
    assert changes
    return {label: (str(vtep.ip), vtep.ofport) for label, vtep in world.vteps.items()}


async def test_each_peer_has_a_tunnel_port(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host(HOST, "192.0.2.1"), host(), host("h3", "192.0.2.3"))
        await agent.ports.converge()
        rows = tunnels(outside)
        assert rows.keys() == {"192.0.2.2", "192.0.2.3"}
        row = rows["192.0.2.2"]
        assert (row.name, row.type, row.tag) == ("vxif192022", "vxlan", 0)
        assert row.options == vtep_options(IPv4Address("192.0.2.2"), 4789)
        assert row.external_ids == {port_names.VTEP_HOST_ID: PEER}
        assert row.ofport is not None
        assert row.ofport >= port_names.FIRST_VTEP
        assert vteps(agent)[PEER] == ("192.0.2.2", row.ofport)


async def test_tunnels_of_ipv6_and_a_host_without_the_family(outside: Outside) -> None:
    async with running(outside) as agent:
        both = replace(host("h4", "192.0.2.4"), vtep_ip6="fd77::4")
        tell(agent, host(HOST, "fd77::1"), host(PEER, "fd77::2"), host("h3", "192.0.2.3"), both)
        await agent.ports.converge()
        rows = tunnels(outside)
        assert rows.keys() == {"fd77::2", "fd77::4"}
        assert rows["fd77::2"].options == vtep_options(IPv6Address("fd77::2"), 4789)
        assert all(len(row.name) <= 15 and port_names.is_vtep(row.name) for row in rows.values())
        assert vteps(agent).keys() == {PEER, "h4"}
        world, _ = agent.world.take(Bridge.VXLAN)
        sources = {label: vtep.source for label, vtep in world.vteps.items()}
        assert sources[HostLabel("h4")] == IPv4Address("192.0.2.4")
        assert sources[PEER] in TUNNEL_SOURCES4
        (fault,) = agent.progress.faults("tunnels")
        assert fault.startswith("no tunnel to h3: one of the two has tunnels by IPv4 alone")
        tell(agent, replace(host(HOST, "192.0.2.1"), vtep_ip6="fd77::1"))
        await agent.ports.converge()
        assert tunnels(outside).keys() == {"fd77::2", "192.0.2.3", "192.0.2.4"}
        assert agent.progress.faults("tunnels") == []


async def test_a_host_without_a_tunnel_end_of_its_own_has_no_port(outside: Outside) -> None:
    async with running(outside) as agent:
        # a host that was given another label is its own peer for a while
        tell(agent, host(HOST, "192.0.2.1"), host("old-label", "192.0.2.1"), host("h3", ""))
        await agent.ports.converge()
        assert tunnels(outside) == {}


async def test_two_records_with_one_address_share_a_port(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host(), host("new-label"), host("h3", "192.0.2.3"))
        await agent.ports.converge()
        assert len(tunnels(outside)) == 2
        found = vteps(agent)
        assert found[PEER] == found[HostLabel("new-label")]
        name = tunnels(outside)["192.0.2.2"].name
        agent.records.apply(Removed("key", host()))
        await agent.ports.converge()
        assert tunnels(outside)["192.0.2.2"].name == name, "the other one goes on using it"
        assert vteps(agent).keys() == {"new-label", "h3"}


async def test_a_peer_that_moves_gets_another_port(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.ports.converge()
        old = vteps(agent)[PEER]
        tell(agent, host(vtep_ip="192.0.2.9"))
        await agent.ports.converge()
        assert tunnels(outside).keys() == {"192.0.2.9"}
        new = vteps(agent)[PEER]
        assert new[0] == "192.0.2.9"
        assert new[1] != old[1]


async def test_a_port_of_other_settings_is_made_anew_in_its_place(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.ports.converge()
        row = tunnels(outside)["192.0.2.2"]
        other = replace(row, options={**row.options, "dst_port": "8472"})
        outside.ovsdb.show(ports={row.name: other})
        await agent.ports.converge()
        assert tunnels(outside) == {"192.0.2.2": row}


async def test_a_port_that_the_original_made_is_used_as_it_is(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        made = PortSpec(
            name="vxif192022",
            type="vxlan",
            ofport_request=3,
            options=vtep_options(IPv4Address("192.0.2.2"), 4789),
        )
        await outside.ovsdb.add_port(Bridge.VXLAN, made)
        before = dict(outside.ovsdb.ports(Bridge.VXLAN))
        await agent.ports.converge()
        assert dict(outside.ovsdb.ports(Bridge.VXLAN)) == before
        assert vteps(agent)[PEER] == ("192.0.2.2", 3)


async def test_no_port_is_deleted_before_the_world_is_complete(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.ports.converge()
        agent.world._complete = False
        agent.records.apply(Removed("key", host()))
        await agent.ports.converge()
        assert tunnels(outside).keys() == {"192.0.2.2"}
        agent.world.set_complete()
        await agent.ports.converge()
        assert tunnels(outside) == {}


async def test_a_tunnel_port_deleted_by_hand_comes_back(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, network(), endpoint(2, host=PEER), host())
        agent.sup.supervise("ports", agent.ports.run())
        await eventually(lambda: "nw_dst=10.1.0.2 " in flows_of(outside))
        outside.ovsdb.show(ports={})
        await eventually(lambda: "192.0.2.2" in tunnels(outside))
        await eventually(lambda: "nw_dst=10.1.0.2 " in flows_of(outside))


async def test_the_log_tells_a_deleted_port_from_a_new_one(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    deleted = "somebody deleted a tunnel port, added again"
    async with running(outside) as agent:
        tell(agent, host())
        await agent.ports.converge()
        assert deleted not in caplog.messages
        await outside.ovsdb.delete_port(Bridge.VXLAN, tunnels(outside)["192.0.2.2"].name)
        await agent.ports.converge()
        assert caplog.messages.count(deleted) == 1
        tell(agent, host(vtep_ip="192.0.2.9"))
        await agent.ports.converge()
        tell(agent, host())
        await agent.ports.converge()
        assert caplog.messages.count(deleted) == 1, "the agent itself had removed it"


async def test_a_port_that_is_gone_before_it_was_seen_is_made_again(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        for _ in range(2):
            await agent.ports.converge()  # which leaves a port
            outside.ovsdb.show(ports={})
        await agent.ports.converge()
        assert "192.0.2.2" in tunnels(outside)


async def test_a_pods_port_is_no_reason_to_look_at_all_peers(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0

    def counted(remote: IPv4Address, vxlan_port: int) -> dict[str, str]:
        nonlocal looked
        looked += 1
        return vtep_options(remote, vxlan_port)

    monkeypatch.setattr("netplugin.bridges.vxlan.tunnels.vtep_options", counted)
    async with running(outside) as agent:
        tell(agent, *(host(f"h{n}", f"192.0.2.{n}") for n in range(5, 8)))
        for _ in range(2):
            await agent.ports.converge()
        looked = 0
        await outside.ovsdb.add_port(Bridge.VXLAN, PortSpec(name="vvport1", ofport_request=1))
        await agent.ports.converge()
        assert looked == 0
        tell(agent, host("h9", "192.0.2.9"))
        await agent.ports.converge()
        assert looked == 4
        assert len(tunnels(outside)) == 4


async def test_a_tunnel_port_with_another_number_is_followed(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, network(), endpoint(2, host=PEER), host())
        agent.sup.supervise("ports", agent.ports.run())
        await eventually(lambda: "nw_dst=10.1.0.2 " in flows_of(outside))
        row = tunnels(outside)["192.0.2.2"]
        outside.ovsdb.show(ports={row.name: replace(row, ofport=77)})
        await eventually(lambda: "output:77" in flows_of(outside))


async def test_one_bad_tunnel_stops_no_other(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    outside.timing = replace(outside.timing, tunnels=Pace(60.0, 60.0))
    async with running(outside) as agent:
        tell(agent, host("a", "192.0.2.1"), host("b", "192.0.2.2"), host("c", "192.0.2.3"))
        outside.ovsdb.given["vxif192022"] = -1
        await agent.ports.converge()
        assert vteps(agent).keys() == {"a", "c"}
        row = outside.ovsdb.ports()["vxif192022"]
        broken = {**outside.ovsdb.ports(), row.name: replace(row, ofport=-1, error="in use")}
        outside.ovsdb.show(ports=broken)
        for _ in range(3):
            await agent.ports.converge()
        outside.ovsdb.show(ports={**broken, row.name: replace(row, ofport=40)})
        with caplog.at_level(logging.INFO):
            for _ in range(3):
                await agent.ports.converge()
        assert [r.error for r in caplog.records if r.message == "tunnel port error"] == ["in use"]  # type: ignore[attr-defined]
        recovered = [r.levelname for r in caplog.records if r.message == "tunnel port recovered"]
        assert recovered == ["INFO"]


async def test_a_tunnel_port_that_the_switch_could_not_add_is_tried_again(outside: Outside) -> None:
    """Nothing changes meanwhile: "File exists" passes by itself."""
    outside.timing = replace(outside.timing, tunnels=Pace(0.001, 60.0))
    async with running(outside) as agent:
        tell(agent, host(), host("h3", "192.0.2.3"))
        outside.ovsdb.given["vxif192022"] = -1
        agent.sup.supervise("ports", agent.ports.run())
        await eventually(lambda: vteps(agent).keys() == {"h3"})
        assert f"no tunnel to {PEER}: its port is not ready" in agent.progress.standing.errors
        del outside.ovsdb.given["vxif192022"]
        await eventually(lambda: vteps(agent).keys() == {PEER, "h3"})
        assert agent.progress.standing.errors == ()


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
            await agent.ports.converge()
        assert vteps(agent).keys() == {"h5", "h7"}


async def test_a_second_port_to_one_address_goes(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.ports.converge()
        row = tunnels(outside)["192.0.2.2"]
        rows = [row, replace(row, name="zz"), replace(row, name="yy", options={})]
        outside.ovsdb.show(ports={r.name: r for r in rows})
        await agent.ports.converge()
        assert outside.ovsdb.ports().keys() == {row.name}


async def test_a_tunnel_port_of_somebody_else_is_left_alone(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, host())
        await agent.ports.converge()
        row = tunnels(outside)["192.0.2.2"]
        foreign = replace(row, name="vxlan0", external_ids={}, options={"remote_ip": "192.0.2.50"})
        outside.ovsdb.show(ports={row.name: row, "vxlan0": foreign})
        agent.records.apply(Removed("key", host()))
        await agent.ports.converge()
        assert outside.ovsdb.ports().keys() == {"vxlan0"}
