"""BGP of a host: its interface, its session, its routes, and what is said when there is none."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)

import pytest
from os_ken.lib.packet import bgp as packets

from core import keys
from core.tasks import background, supervisor
from netplugin.bgp.host_bgp import BgpTiming
from netplugin.bgp.router_port import router_interface
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.ovsdb import PortSpec
from netplugin.startup.context import AgentTiming
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort, peering_of
from ofnet.bgp.timing import SessionTiming
from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow.packets import parse_arp
from ofnet.world import Bridge, Router, Uplink, World
from state.records import BgpRecord, Encap, GlobalRecord
from state.watch import Removed
from tests.unit.bgp_router import ROUTER
from tests.unit.netplugin.agent import Agent, Outside, build_agent, eventually, running
from tests.unit.netplugin.fakes import Inside
from tests.unit.netplugin.records import HOST, PEER, endpoint, key, network
from tests.unit.ofnet import frames

RECORD = BgpRecord(
    hostname=HOST,
    router_ip="50.1.1.1/24",
    as_number="65002",
    neighbor_as="65000",
    neighbor=ROUTER,
)
UPLINK = Uplink(ofport=30, mac="52:54:00:00:00:0a")
MAC = "06:02:32:01:01:01"
PEER_MAC, THIRD_MAC = "02:02:0a:01:00:c8", "02:02:0a:01:00:c9"
"""As `frames.arp` has them of pods 200 and 201."""
NET = "60.1.1.0/24"
THIRD = "50.1.1.9"
NET6, HOP6 = "2001:db8:1::/48", "fe80::9"
QUICK = BgpTiming(arp_interval=0.001, session=SessionTiming(first_pause=0.001))


@pytest.fixture(autouse=True)
def hurried(outside: Outside) -> None:
    outside.timing = AgentTiming(bgp=QUICK)


def learn(agent: Agent, record: BgpRecord = RECORD) -> None:
    agent.learn(keys.bgp(record.hostname), record)


def forget(agent: Agent, record: BgpRecord = RECORD) -> None:
    agent.records.apply(Removed(keys.bgp(record.hostname), record))


@asynccontextmanager
async def speaking(outside: Outside) -> AsyncIterator[Agent]:
    """Have an agent look after BGP, on a host with an uplink."""
    async with running(outside, (network(encap=Encap.VLAN, tag=5),)) as agent:
        agent.world.vlan.set_uplinks([UPLINK])
        async with background("BGP", agent.bgp.run()):
            yield agent


@asynccontextmanager
async def established(outside: Outside, *, ipv6: bool = False) -> AsyncIterator[Agent]:
    """Have a session with a peer that answers questions for it."""
    async with speaking(outside) as agent:
        learn(agent)
        await asked(outside, ROUTER)
        answer(outside, 200, ROUTER)
        await outside.router.greet(ipv6=ipv6)
        yield agent


def questions(outside: Outside) -> set[str]:
    """Return the addresses that were asked for."""
    parsed = map(parse_arp, outside.switches[Bridge.VLAN].packets)
    return {str(arp.target_ip) for arp in parsed if arp is not None}


async def asked(outside: Outside, address: str) -> None:
    """Wait until an address is asked for beyond the uplink, from now on."""
    outside.switches[Bridge.VLAN].packets.clear()
    await eventually(lambda: address in questions(outside))


OWN6 = IPv6Address("fe80::402:32ff:fe01:101")


async def solicited(outside: Outside, address: str, source: IPv6Address | None = OWN6) -> None:
    """Wait until an IPv6 address is asked for, from the host's own one."""
    wanted = IPv6Address(address).packed

    def asks(frame: bytes) -> bool:
        sender, target = frame[22:38], frame[62:78]
        return target == wanted and IPv6Address(sender) == source

    sent = outside.switches[Bridge.VLAN].packets
    await eventually(lambda: any(map(asks, sent)))


def answer(outside: Outside, machine: int, address: str) -> None:
    """Have a machine say that an address is its."""
    own = IPv4Address(address).packed
    frame = frames.arp(machine, IPv4Address("50.1.1.1").packed, operation=2, sender_ip=own)
    outside.switches[Bridge.VLAN].hear(UPLINK.ofport, frame)


def world_of(agent: Agent) -> World:
    return agent.bgp._agent.world


def routes(agent: Agent) -> dict[str, str]:
    return {str(prefix): mac for prefix, mac in world_of(agent).routes.items()}


def flows(outside: Outside, kind: ObjectKind) -> list[Flow]:
    table = outside.switches[Bridge.VLAN].table.values()
    return [flow for flow in table if isinstance(flow, Flow) and flow.owner is kind]


def errors(agent: Agent) -> list[str]:
    return [error for error in agent.progress.standing.errors if "BGP" in error]


async def test_a_host_with_a_peer_has_an_interface(outside: Outside) -> None:
    async with speaking(outside) as agent:
        learn(agent)
        await eventually(lambda: world_of(agent).router is not None)
        row = outside.ovsdb.ports(Bridge.VLAN)[port_names.ROUTER_PORT]
        assert (row.type, row.tag, row.ofport) == ("internal", 1, port_names.ROUTER_OFPORT)
        assert row.external_ids == {"endpoint-id": "hostinb01"}
        address = IPv4Interface("50.1.1.1/24")
        assert outside.links.own[port_names.ROUTER_PORT] == Inside(MAC, [address], [])
        assert outside.links.routes[port_names.ROUTER_PORT] == [
            HostRoute(subnet=IPv4Network("50.1.1.0/24"), source=IPv4Address("50.1.1.1"))
        ]
        assert world_of(agent).router == Router(
            ofport=port_names.ROUTER_OFPORT,
            mac=MAC,
            ip=address.ip,
            ip6=IPv6Address("fe80::402:32ff:fe01:101"),
            peer=IPv4Address(ROUTER),
        )
        await eventually(lambda: bool(flows(outside, ObjectKind.ROUTER)))


async def test_a_session_whose_module_cannot_be_read_begins_later(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host without a free file descriptor, or in the middle of an upgrade."""
    async with speaking(outside) as agent:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "ofnet.bgp.speaker", None)
            learn(agent)
            await eventually(lambda: "cannot be loaded" in str(errors(agent)))
            assert agent.bgp.speaker is None
        await eventually(lambda: agent.bgp.speaker is not None)
        await eventually(lambda: errors(agent) == [])


async def test_other_hosts_peers_are_theirs(outside: Outside) -> None:
    async with speaking(outside) as agent:
        learn(agent, replace(RECORD, hostname=PEER, neighbor="nonsense"))
        await agent.bgp.converge()
        assert port_names.ROUTER_PORT not in outside.ovsdb.ports()
        assert agent.bgp.report() == {}
        assert agent.progress.standing.errors == ()


async def test_nobody_is_dialled_before_it_is_known_where_it_is(outside: Outside) -> None:
    async with speaking(outside) as agent:
        learn(agent)
        await asked(outside, ROUTER)
        assert outside.router.dialled == 0
        answer(outside, 200, ROUTER)
        await outside.router.greet()
        ways = partial(flows, outside, ObjectKind.ROUTE)
        await eventually(lambda: any(f"nw_dst={ROUTER} " in str(flow) for flow in ways()))
        (way,) = ways()
        assert PEER_MAC in str(way)


async def test_the_peer_is_told_of_pods_ipv4_addresses(outside: Outside) -> None:
    async with established(outside) as agent:
        one = replace(endpoint(1), ipv6_address="2001:db8::11")
        await agent.reconciler.put_port(key("c1"), LocalPort(record=one, ofport=1))
        said = await outside.router.hear(packets.BGPUpdate)
        while not said.nlri:
            said = await outside.router.hear(packets.BGPUpdate)
        assert [(route.addr, route.length) for route in said.nlri] == [("10.1.0.1", 32)]
        await agent.reconciler.remove_port(key("c1"))
        gone = await outside.router.hear(packets.BGPUpdate)
        assert [route.addr for route in gone.withdrawn_routes] == ["10.1.0.1"]


async def test_the_peer_is_told_of_pods_ipv6_addresses(outside: Outside) -> None:
    async with established(outside, ipv6=True) as agent:
        one = replace(endpoint(1), ipv6_address="2001:db8::11")
        await agent.reconciler.put_port(key("c1"), LocalPort(record=one, ofport=1))
        reach = (await outside.router.hear_attribute(14)).pathattr_map[14]
        assert [(route.addr, route.length) for route in reach.nlri] == [("2001:db8::11", 128)]
        assert reach.next_hop == "fe80::402:32ff:fe01:101"
        await agent.reconciler.remove_port(key("c1"))
        gone = (await outside.router.hear_attribute(15)).pathattr_map[15]
        assert [route.addr for route in gone.withdrawn_routes] == ["2001:db8::11"]


async def test_ipv6_routes_wait_for_their_next_hop(outside: Outside) -> None:
    async with established(outside, ipv6=True) as agent:
        outside.router.announce6(NET6, hop=HOP6)
        await solicited(outside, HOP6)
        assert routes(agent) == {}
        outside.switches[Bridge.VLAN].hear(
            UPLINK.ofport, frames.advertisement(THIRD_MAC, IPv6Address(HOP6))
        )
        await eventually(lambda: routes(agent) == {NET6: THIRD_MAC})
        await eventually(lambda: any(NET6 in str(one) for one in flows(outside, ObjectKind.ROUTE)))
        outside.router.withdraw6(NET6)
        await eventually(lambda: routes(agent) == {})


async def test_the_peer_is_told_of_pods_that_are_there_already(outside: Outside) -> None:
    async with speaking(outside) as agent:
        await agent.reconciler.put_port(key("c1"), LocalPort(record=endpoint(1), ofport=1))
        learn(agent)
        await asked(outside, ROUTER)
        answer(outside, 200, ROUTER)
        await outside.router.greet()
        said = await outside.router.hear(packets.BGPUpdate)
        assert [route.addr for route in said.nlri] == ["10.1.0.1"]


BY_IPV6 = replace(
    RECORD, neighbor="", router_ipv6="2001:db8:50::1/64", neighbor_ipv6="2001:db8:50::2"
)
ALONE = replace(BY_IPV6, router_ip="")


@pytest.mark.parametrize("record", [BY_IPV6, ALONE], ids=["both", "ipv6 alone"])
async def test_a_session_by_ipv6(outside: Outside, record: BgpRecord) -> None:
    async with speaking(outside) as agent:
        one = replace(endpoint(1), ipv6_address="2001:db8::11")
        await agent.reconciler.put_port(key("c1"), LocalPort(record=one, ofport=1))
        learn(agent, record)
        await eventually(lambda: world_of(agent).router is not None)
        router = world_of(agent).router
        assert router is not None
        await solicited(outside, record.neighbor_ipv6, source=router.ip6)
        assert outside.router.dialled == 0, "nobody knows yet where the peer is"
        told(outside, PEER_MAC, record.neighbor_ipv6)
        await outside.router.greet(ipv6=True, extended=True)
        for _ in range(2):
            update = await outside.router.hear(packets.BGPUpdate)
            assert 14 in update.pathattr_map, "both families have IPv6 next hops"
        way = f"ipv6_dst={record.neighbor_ipv6} "
        await eventually(lambda: any(way in str(one) for one in flows(outside, ObjectKind.ROUTE)))
        outside.router.announce_by6(NET, hop=HOP6)
        await solicited(outside, HOP6, source=router.ip6)
        told(outside, THIRD_MAC, HOP6)
        await eventually(lambda: routes(agent) == {NET: THIRD_MAC})
        held = outside.links.own[port_names.ROUTER_PORT]
        own = [IPv4Interface(record.router_ip)] if record.router_ip else []
        assert held.addresses == [*own, IPv6Interface(record.router_ipv6)]
        subnets = [one.subnet for one in outside.links.routes[port_names.ROUTER_PORT]]
        assert subnets == [one.network for one in held.addresses]
        report = agent.bgp.report()
        assert report is not None
        assert report["peers"][0]["Config"]["NeighborAddress"] == record.neighbor_ipv6
        forget(agent, record)
        await eventually(lambda: not flows(outside, ObjectKind.ROUTER))


async def test_a_host_without_ipv6_says_so(outside: Outside) -> None:
    outside.links.without_ipv6.add(port_names.ROUTER_PORT)
    async with speaking(outside) as agent:
        learn(agent, BY_IPV6)
        wanted = "link inb01 has no IPv6, by which this host speaks BGP: sysctl net.ipv6"
        await eventually(lambda: any(wanted in error for error in errors(agent)))
        assert outside.router.dialled == 0


def told(outside: Outside, mac: str, address: str) -> None:
    """Have a machine say by ND that an address is its."""
    frame = frames.advertisement(mac, IPv6Address(address))
    outside.switches[Bridge.VLAN].hear(UPLINK.ofport, frame)


async def test_routes_come_and_go(outside: Outside) -> None:
    async with established(outside) as agent:
        outside.router.announce(NET)
        await eventually(lambda: routes(agent) == {NET: PEER_MAC})
        await eventually(lambda: any(NET in str(one) for one in flows(outside, ObjectKind.ROUTE)))
        outside.router.withdraw(NET)
        await eventually(lambda: routes(agent) == {})
        await eventually(
            lambda: not any(NET in str(one) for one in flows(outside, ObjectKind.ROUTE))
        )


async def test_many_routes_are_taken_over_together(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with established(outside) as agent:
        looks: list[int] = []
        take_over = agent.world.vlan.set_routes

        def counted(told: Mapping[IPv4Network | IPv6Network, str]) -> None:
            looks.append(len(told))
            take_over(told)

        monkeypatch.setattr(agent.world.vlan, "set_routes", counted)
        nets = [f"60.{number >> 8}.{number & 255}.0/24" for number in range(1000)]
        for net in nets:
            outside.router.announce(net)
        await eventually(lambda: routes(agent).keys() == set(nets), seconds=30)
    assert len(looks) < len(nets) / 4


async def test_a_route_waits_for_its_next_hop(outside: Outside) -> None:
    async with established(outside) as agent:
        outside.router.announce(NET, hop=THIRD)
        await asked(outside, THIRD)
        assert routes(agent) == {}
        answer(outside, 201, THIRD)
        await eventually(lambda: routes(agent) == {NET: THIRD_MAC})


async def test_another_next_hop_takes_the_place_of_the_first(outside: Outside) -> None:
    async with established(outside) as agent:
        outside.router.announce(NET)
        await eventually(lambda: routes(agent) == {NET: PEER_MAC})
        outside.router.announce(NET, hop=THIRD)
        await asked(outside, THIRD)
        answer(outside, 201, THIRD)
        await eventually(lambda: routes(agent) == {NET: THIRD_MAC})


async def test_a_next_hop_elsewhere_is_not_asked_for(outside: Outside) -> None:
    async with established(outside) as agent:
        outside.router.announce("61.0.0.0/8", hop="9.9.9.9")
        outside.router.announce(NET)
        await eventually(lambda: routes(agent) == {NET: PEER_MAC})
        report = agent.bgp.report()
        assert report is not None
        assert report["dsts"] == [NET, "61.0.0.0/8"]
        assert "9.9.9.9" not in questions(outside)


async def test_a_peer_that_changes_its_card_is_followed(outside: Outside) -> None:
    async with established(outside) as agent:
        outside.router.announce(NET)
        await eventually(lambda: routes(agent) == {NET: PEER_MAC})
        answer(outside, 201, ROUTER)
        await eventually(lambda: routes(agent) == {NET: THIRD_MAC})


async def test_routes_go_with_the_session_and_it_is_said(outside: Outside) -> None:
    async with established(outside) as agent:
        outside.router.announce(NET)
        await eventually(lambda: bool(routes(agent)))
        assert errors(agent) == []
        outside.router.down = True
        outside.router.hang_up()
        await eventually(lambda: routes(agent) == {})
        refused = [f"no BGP session with {ROUTER}: cannot connect: Connection refused"]
        await eventually(lambda: errors(agent) == refused)


async def test_a_peering_that_is_gone_leaves_nothing(outside: Outside) -> None:
    async with established(outside) as agent:
        outside.router.announce(NET)
        await eventually(lambda: bool(routes(agent)))
        forget(agent)
        end = await outside.router.hear(packets.BGPNotification)
        assert (end.error_code, end.error_subcode) == (6, 3)
        await eventually(lambda: port_names.ROUTER_PORT not in outside.ovsdb.ports())
        await eventually(lambda: not flows(outside, ObjectKind.ROUTER))
        await eventually(lambda: not flows(outside, ObjectKind.ROUTE))
        assert (agent.bgp.report(), errors(agent)) == ({}, [])


async def test_a_peering_that_changes_is_another_session(outside: Outside) -> None:
    async with established(outside) as agent:
        learn(agent, replace(RECORD, router_ip="50.1.1.7/24", as_number="65009"))
        said = await outside.router.hear(packets.BGPNotification)
        assert said.error_code == 6
        await asked(outside, ROUTER)
        answer(outside, 200, ROUTER)
        opened = await outside.router.greet()
        assert (opened.my_as, opened.bgp_identifier) == (65009, "50.1.1.7")
        own = outside.links.own[port_names.ROUTER_PORT]
        assert own == Inside("06:02:32:01:01:07", [IPv4Interface("50.1.1.7/24")], [])


async def test_bridged_hosts_say_that_they_cannot(outside: Outside) -> None:
    async with speaking(outside) as agent:
        bridged = GlobalRecord(infra_type="", fwd_mode="bridge", arp_mode="", pvt_subnet="")
        agent.learn(keys.GLOBAL_CONFIG, bridged)
        learn(agent)
        wanted = ["BGP needs forwarding mode routing, this cluster's is bridge"]
        await eventually(lambda: errors(agent) == wanted)
        assert port_names.ROUTER_PORT not in outside.ovsdb.ports()
        assert agent.bgp.report() is None
        forget(agent)
        await eventually(lambda: errors(agent) == [])


@pytest.mark.parametrize(
    "record",
    [
        replace(RECORD, router_ip="50.1.1.1/33"),
        replace(RECORD, as_number="many"),
        replace(RECORD, neighbor_as="0"),
        replace(RECORD, neighbor="60.1.1.1"),
    ],
)
async def test_what_makes_no_sense_is_said(outside: Outside, record: BgpRecord) -> None:
    async with speaking(outside) as agent:
        learn(agent, record)
        (error,) = agent.progress.standing.errors
        assert f"record of BGP of host {HOST}" in error
        learn(agent)
        assert agent.progress.standing.errors == ()


async def test_an_interface_of_that_name_that_is_somebody_elses_stays(outside: Outside) -> None:
    async with running(outside) as agent:
        foreign = PortSpec(name=port_names.ROUTER_PORT, type="internal")
        await outside.ovsdb.add_port(Bridge.VXLAN, foreign)
        async with background("BGP", agent.bgp.run()):
            learn(agent)
            await eventually(lambda: any("name is in use" in one for one in errors(agent)))
            forget(agent)
            await eventually(lambda: errors(agent) == [])
        assert outside.ovsdb.ports(Bridge.VXLAN)[port_names.ROUTER_PORT].external_ids == {}


async def test_routes_stay_over_a_restart_until_they_are_told_again(outside: Outside) -> None:
    async with established(outside) as agent:
        outside.router.announce(NET, "61.0.0.0/8")
        await eventually(lambda: len(routes(agent)) == 2)
        await eventually(lambda: len(flows(outside, ObjectKind.ROUTE)) == 3)
    there = flows(outside, ObjectKind.ROUTE)
    vlan = network(encap=Encap.VLAN, tag=5)
    async with running(outside, (vlan,), known=(RECORD,)) as agent:
        assert flows(outside, ObjectKind.ROUTE) == there
        assert world_of(agent).router is not None
        agent.world.vlan.set_uplinks([UPLINK])
        async with background("BGP", agent.bgp.run()):
            await asked(outside, ROUTER)
            answer(outside, 200, ROUTER)
            await outside.router.greet()
            outside.router.announce(NET)
            await eventually(lambda: routes(agent) == {NET: PEER_MAC})
            assert world_of(agent).learning
            outside.router.announce("62.0.0.0/8", hop=THIRD)
            outside.router.end_of_rib()
            await asked(outside, THIRD)
            assert world_of(agent).learning, "a next hop is not known yet"
            answer(outside, 201, THIRD)
            await eventually(lambda: not world_of(agent).learning)
            assert set(routes(agent)) == {NET, "62.0.0.0/8"}
            ways = partial(flows, outside, ObjectKind.ROUTE)
            await eventually(lambda: not any("61.0.0.0/8" in str(flow) for flow in ways()))
            assert len(ways()) == 3


async def test_nothing_is_removed_before_it_is_known_what_there_is(outside: Outside) -> None:
    async with supervisor() as sup:
        agent = await build_agent(outside, sup)
        await outside.ovsdb.add_port(Bridge.VLAN, router_interface(peering_of(RECORD)).spec())
        await agent.bgp.converge()
        assert port_names.ROUTER_PORT in outside.ovsdb.ports()
        agent.world.set_complete()
        await agent.bgp.converge()
        assert port_names.ROUTER_PORT not in outside.ovsdb.ports()


async def test_a_start_without_a_peer_keeps_no_routes(outside: Outside) -> None:
    async with established(outside) as agent:
        outside.router.announce(NET)
        await eventually(lambda: len(flows(outside, ObjectKind.ROUTE)) == 2)
        await eventually(lambda: bool(routes(agent)))
    async with running(outside) as agent:
        await eventually(lambda: not flows(outside, ObjectKind.ROUTE))
        async with background("BGP", agent.bgp.run()):
            await eventually(lambda: port_names.ROUTER_PORT not in outside.ovsdb.ports())


async def test_a_peer_that_does_not_come_back_is_not_waited_for_for_ever(outside: Outside) -> None:
    outside.timing = AgentTiming(bgp=replace(QUICK, restart_limit=0.01))
    async with speaking(outside) as agent:
        agent.world.vlan.set_learning(learning=True)
        learn(agent)
        await eventually(lambda: not world_of(agent).learning)
