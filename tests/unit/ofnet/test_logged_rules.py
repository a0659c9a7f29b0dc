"""What a reported packet says: which rule, which ends."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

import pytest

from ofnet.agent import BridgeAgent
from ofnet.changes import Changes, ObjectKind
from ofnet.channel.wire import PacketIn
from ofnet.flows import Flow
from ofnet.logged_rules import LoggedEnd, LoggedPacket
from ofnet.openflow import oxm
from ofnet.openflow.actions import Report
from ofnet.openflow.fields import VRF
from ofnet.openflow.oxm import mac_bytes
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, Rule, World
from tests.unit.ofnet import frames
from tests.unit.ofnet.agent import running
from tests.unit.ofnet.fake_switch import FakeSwitch
from tests.unit.ofnet.worlds import NET, address, local, remote, world

DENY = Rule(id="deny", priority=1, allow=False, dst_group=8, protocol=6, dst_port=80, log=True)
ALLOW = Rule(id="allow", priority=2, allow=True, dst_group=8, log=True)
SILENT = Rule(id="silent", priority=3, allow=False, dst_group=9)
BASE = world(here=(local(1),), there=(remote(2, v6=True),))
WORLD = replace(BASE, rules={one.id: one for one in (DENY, ALLOW, SILENT)})
FRAME = frames.segment(local(1), str(address(2)), 80)
SOURCE = LoggedEnd(address=address(1), port=40000, endpoint=local(1).key, network=NET)
TARGET = LoggedEnd(address=address(2), port=80, endpoint=remote(2).key, network=NET)


def reporting(agent: BridgeAgent, table: TableId) -> list[Flow]:
    flows = (flow for flow in agent.desired.flows.values() if flow.table == table)
    return [flow for flow in flows if Report.name in flow.instructions.names]


def hearing(of: World, bridge: Bridge = Bridge.VXLAN) -> tuple[BridgeAgent, list[LoggedPacket]]:
    heard: list[LoggedPacket] = []
    return BridgeAgent(FakeSwitch(), bridge, of, notice=heard.append), heard


def tell(agent: BridgeAgent, flow: Flow, frame: bytes = FRAME, *, vrf: int = 1) -> None:
    agent.on_packet_in(PacketIn(flow.table, 101, None, frame, flow.cookie, VRF.put(vrf).value))


@pytest.mark.parametrize(("table", "rule"), [(TableId.POLICY, DENY), (TableId.POLICY_LOG, ALLOW)])
def test_a_packet_names_its_rule_and_its_ends(table: TableId, rule: Rule) -> None:
    agent, heard = hearing(WORLD)
    for flow in reporting(agent, table):
        tell(agent, flow)
    assert set(map(repr, heard)) == {
        repr(LoggedPacket(rule=rule, protocol=6, source=SOURCE, destination=TARGET))
    }
    assert agent.stats["PolicyPktLogged"] == len(heard)


def test_a_tag_is_passed_over_and_a_later_fragment_has_no_ports() -> None:
    agent, heard = hearing(WORLD)
    (flow, *_) = reporting(agent, TableId.POLICY)
    tagged = FRAME[:12] + b"\x81\x00\x00\x05" + FRAME[12:]
    later = FRAME[:20] + b"\x00\x10" + FRAME[22:]
    for frame in (tagged, later):
        tell(agent, flow, frame)
    assert [(one.source.port, one.destination.port) for one in heard] == [(40000, 80), (0, 0)]


def test_ipv6_is_read() -> None:
    agent, heard = hearing(WORLD)
    (flow, *_) = reporting(agent, TableId.POLICY)
    ends = IPv6Address("2001:db8::9").packed + IPv6Address("2001:db8::2").packed
    header = b"\x60\0\0\0\0\x08\x11\x40" + ends
    frame = mac_bytes(local(1).mac) * 2 + b"\x86\xdd" + header + b"\0\x35\x13\x88\0\x08\0\0"
    tell(agent, flow, frame)
    (found,) = heard
    assert (found.protocol, found.source) == (
        oxm.PROTO_UDP,
        LoggedEnd(address=IPv6Address("2001:db8::9"), port=53),
    )
    assert (found.destination.port, found.destination.endpoint) == (5000, remote(2).key)


def test_the_same_address_in_another_tenant_is_another_end() -> None:
    agent, heard = hearing(WORLD)
    (flow, *_) = reporting(agent, TableId.POLICY)
    tell(agent, flow, vrf=2)
    assert heard[0].source == LoggedEnd(address=IPv4Address(address(1)), port=40000)


def test_where_all_tenants_have_one_vrf_the_endpoint_is_found_all_the_same() -> None:
    other = replace(BASE.networks[NET], vrf=3)
    agent, heard = hearing(replace(WORLD, networks={NET: other}), Bridge.VLAN)
    assert WORLD.fwd_mode is FwdMode.ROUTING
    (flow, *_) = reporting(agent, TableId.POLICY)
    tell(agent, flow, vrf=1)
    assert heard[0].source == SOURCE


@pytest.mark.parametrize("frame", [b"", FRAME[:20], FRAME[:12] + b"\x08\x06" + bytes(28)])
def test_a_broken_frame_leads_to_nothing(frame: bytes) -> None:
    agent, heard = hearing(WORLD)
    (flow, *_) = reporting(agent, TableId.POLICY)
    tell(agent, flow, frame)
    assert (heard, agent.stats["PolicyPktInvalid-ERROR"]) == ([], 1)


async def test_a_rule_that_came_is_known_and_one_that_went_is_not() -> None:
    switch, heard = FakeSwitch(), list[LoggedPacket]()
    async with running(switch, BASE) as agent:
        agent._notice = heard.append
        await agent.update(WORLD, Changes.of(ObjectKind.RULE, WORLD.rules))
        (flow, *_) = reporting(agent, TableId.POLICY)
        tell(agent, flow)
        assert len(heard) == 1
        assert set(switch.held_meters.values()) == agent.desired.meters() != frozenset()
        await agent.update(BASE, Changes.of(ObjectKind.RULE, WORLD.rules))
        tell(agent, flow)
        assert len(heard) == 1


async def test_packets_are_counted_where_they_are_reported() -> None:
    switch = FakeSwitch()
    async with running(switch, WORLD) as agent:
        switch.counted = {flow.cookie: (3, 200) for flow in agent.desired.flows.values()}
        in_18 = len(reporting(agent, TableId.POLICY_LOG))
        found = await agent.logged_packets()
        assert found == {"deny": 3 * len(reporting(agent, TableId.POLICY)), "allow": 3 * in_18}
        # a packet that is allowed and reported counts for its rule once
        assert (await agent.hits(ObjectKind.RULE))["allow"].packets == 3 * 2
