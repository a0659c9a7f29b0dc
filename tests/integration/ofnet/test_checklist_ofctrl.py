"""The forms of flows that the original's tests of its OpenFlow library go through.

Each goes to a real switch as ours packs it, and is compared, as a whole line, with what the switch
prints; nothing else may be in the switch. No pipeline of ours has all of these forms, so tables
declare everything here.
"""

from collections.abc import AsyncIterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Unpack

import pytest

from ofnet.changes import ObjectKind
from ofnet.diff import FlowStamp
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import Action, Instructions, Output, PopVlan, SetField, tag
from ofnet.openflow.fields import Bits, Flags
from ofnet.openflow.match import Match, MatchFields
from ofnet.tables import Table, TableId
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import Dialled, dialled

pytestmark = pytest.mark.ovs

EVERYTHING = Table(
    id=TableId.INPUT,
    matches=frozenset(oxm.FIELDS),
    actions=frozenset(oxm.FIELDS) | {"output", "push_vlan", "pop_vlan"},
    writes=(1 << 64) - 1,
    next=frozenset(TableId),
)
SYN, ACK = 0x02, 0x10
IPV4: MatchFields = {"eth_type": oxm.ETH_IPV4}
TCP: MatchFields = {**IPV4, "ip_proto": oxm.PROTO_TCP}


@pytest.fixture(autouse=True)
def tables_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any flow be built."""
    monkeypatch.setattr("ofnet.flows.TABLES", dict.fromkeys(TableId, EVERYTHING))


@pytest.fixture
async def bridge(ovs_module: OvsHost) -> AsyncIterator[Dialled]:
    async with dialled(ovs_module) as bridge:
        yield bridge


def matching(kind: MatchFields, **more: Unpack[MatchFields]) -> Match:
    """Return a match of a kind of packets."""
    fields: MatchFields = {**kind, **more}
    return Match(**fields)


def flow(match: Match, *actions: Action, to: int | None = None, table: int = 0) -> Flow:
    """Return a flow of priority 100."""
    return Flow(ObjectKind.PIPELINE, TableId(table), 100, match, Instructions(actions, goto=to))


async def printed(bridge: Dialled, *flows: Flow) -> list[str]:
    """Return what the switch has after it took flows."""
    await bridge.switch.apply(flows, [])
    return bridge.flows()


async def left(bridge: Dialled, *flows: Flow) -> list[str]:
    """Return what the switch has after flows are deleted."""
    await bridge.switch.apply([], stamps(flows))
    return bridge.flows()


def stamps(flows: Sequence[Flow]) -> list[FlowStamp]:
    return [FlowStamp(each.table, each.cookie) for each in flows]


async def test_connect(bridge: Dialled) -> None:
    """A switch that has our address connects; within a limit, or the fixture fails."""
    assert bridge.switch.connected
    assert bridge.flows() == []


async def test_table_create_delete(bridge: Dialled) -> None:
    """Every table there is takes flows, and gives them back."""
    flows = [flow(Match(), table=table) for table in TableId if table]
    assert await printed(bridge, *flows) == sorted(
        f"table={table:d}, priority=100 actions=drop" for table in TableId if table
    )
    assert await left(bridge, *flows) == []


async def test_create_delete_flow(bridge: Dialled) -> None:
    mac = "02:01:01:01:01:01"
    flows = [
        flow(Match(in_port=1), *tag(1), to=1),
        flow(Match(vlan_vid=1, eth_dst=mac), PopVlan(), Output(1), table=1),
        flow(matching(IPV4, ipv4_dst=IPv4Address("10.10.10.10")), Output(1), table=1),
        flow(matching(TCP, tcp_dst=80, tcp_flags=Flags(SYN, SYN)), Output(1), table=1),
    ]
    assert await printed(bridge, *flows) == sorted(
        [
            "priority=100,in_port=1 actions=push_vlan:0x8100,set_field:4097->vlan_vid,goto_table:1",
            f"table=1, priority=100,dl_vlan=1,dl_dst={mac} actions=pop_vlan,output:1",
            "table=1, priority=100,ip,nw_dst=10.10.10.10 actions=output:1",
            "table=1, priority=100,tcp,tp_dst=80,tcp_flags=+syn actions=output:1",
        ]
    )
    first, *others = flows
    assert await left(bridge, *others) == [str(first)]
    assert await left(bridge, first) == []


async def test_deleting_one_port_s_flow_leaves_the_other_s(bridge: Dialled) -> None:
    """The original's tests look for parts of lines, to which port 14 is port 1 as well."""
    one, fourteen = flow(Match(in_port=1), to=1), flow(Match(in_port=14), to=1)
    assert await printed(bridge, one, fourteen) == sorted([str(one), str(fourteen)])
    assert await left(bridge, one) == ["priority=100,in_port=14 actions=goto_table:1"]


async def test_set_unset_dscp(bridge: Dialled) -> None:
    match = matching(IPV4, in_port=1, ip_dscp=46)
    marking = flow(match, SetField("ip_dscp", 23), *tag(1), to=1)
    plain = flow(match, *tag(1), to=1)
    head = "priority=100,ip,in_port=1,nw_tos=184 actions="
    tail = "push_vlan:0x8100,set_field:4097->vlan_vid,goto_table:1"
    assert await printed(bridge, marking) == [f"{head}set_field:23->ip_dscp,{tail}"]
    assert await printed(bridge, plain) == [f"{head}{tail}"]
    assert await left(bridge, plain) == []


def then(*actions: Action, marks: Bits | None = None) -> Instructions:
    """Return the instructions of the original's tests: all go on to table 1."""
    return Instructions(actions, marks, 1)


UDP: MatchFields = {**IPV4, "ip_proto": oxm.PROTO_UDP}
TCP6: MatchFields = {"eth_type": oxm.ETH_IPV6, "ip_proto": oxm.PROTO_TCP}
FORMS = {
    "MatchSetMetadata": (
        Match(in_port=1, metadata=Bits(0x1100, 0x1100)),
        then(marks=Bits(0x8800, 0x8800)),
        "metadata=0x1100/0x1100,in_port=1",
        "write_metadata:0x8800/0x8800",
    ),
    "MatchSetTunnelId": (
        Match(in_port=1, tunnel_id=10),
        then(SetField("tunnel_id", 20)),
        "tun_id=0xa,in_port=1",
        "set_field:0x14->tun_id",
    ),
    "MatchSetIpFields": (
        matching(
            TCP,
            in_port=1,
            ipv4_src=IPv4Network("10.1.1.0/24"),
            ipv4_dst=IPv4Network("10.2.1.0/24"),
        ),
        then(
            SetField("ipv4_dst", IPv4Address("20.2.1.1")),
            SetField("ipv4_src", IPv4Address("20.1.1.1")),
        ),
        "tcp,in_port=1,nw_src=10.1.1.0/24,nw_dst=10.2.1.0/24",
        "set_field:20.2.1.1->ip_dst,set_field:20.1.1.1->ip_src",
    ),
    "MatchIpv6Fields": (
        matching(
            TCP6,
            in_port=1,
            ipv6_src=IPv6Network("2016:616::/100"),
            ipv6_dst=IPv6Network("2016:617::/100"),
            ip_dscp=23,
        ),
        then(SetField("ip_dscp", 46)),
        "tcp6,in_port=1,ipv6_src=2016:616::/100,ipv6_dst=2016:617::/100,nw_tos=92",
        "set_field:46->ip_dscp",
    ),
    "MatchSetTcpFields": (
        matching(TCP, in_port=1, tcp_src=8000, tcp_dst=9000, tcp_flags=Flags(SYN | ACK, SYN | ACK)),
        then(SetField("tcp_dst", 5000), SetField("tcp_src", 4000)),
        "tcp,in_port=1,tp_src=8000,tp_dst=9000,tcp_flags=+syn+ack",
        "set_field:5000->tcp_dst,set_field:4000->tcp_src",
    ),
    "MatchSetUdpFields": (
        matching(UDP, in_port=1, udp_src=8000, udp_dst=9000),
        then(SetField("udp_dst", 5000), SetField("udp_src", 4000)),
        "udp,in_port=1,tp_src=8000,tp_dst=9000",
        "set_field:5000->udp_dst,set_field:4000->udp_src",
    ),
}


@pytest.mark.parametrize("form", FORMS)
async def test_match_and_set(bridge: Dialled, form: str) -> None:
    match, instructions, matched, done = FORMS[form]
    one = Flow(ObjectKind.PIPELINE, TableId.INPUT, 100, match, instructions)
    assert await printed(bridge, one) == [f"priority=100,{matched} actions={done},goto_table:1"]
    assert await left(bridge, one) == []
