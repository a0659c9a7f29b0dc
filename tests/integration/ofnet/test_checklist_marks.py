"""The original's tests of DSCP, policy, and of what is brought up to the agent, as whole lines.

DSCP is shown in all four modes; the original left routed vlan networks out.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest

from core.ids import EndpointKey
from ofnet.world import ArpMode, Bridge, FwdMode, LocalEndpoint, Rule, Uplink, Vtep
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import dialled, running_agent
from tests.integration.ofnet.three_hosts import NET, HostBridge, empty, host_name, line

pytestmark = pytest.mark.ovs

MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]
IN_VRF = "metadata=0x100000000/0xff00000000"
MARK = "write_metadata:0x100000000/0xff00000000"
TAG = "push_vlan:0x8100,set_field:4097->vlan_vid"
MARKED = LocalEndpoint(
    key=EndpointKey("marked"),
    network=NET.id,
    ofport=14,
    mac="02:02:0B:0B:02:02",
    ip=IPv4Address("11.11.2.2"),
    ip6=IPv6Address("2017::2:2"),
    dscp=10,
)
JUDGED = LocalEndpoint(
    key=EndpointKey("judged"),
    network=NET.id,
    ofport=12,
    mac="02:02:0a:02:02:02",
    ip=IPv4Address("10.2.2.2"),
    group_id=100,
)
RULES = (
    Rule(
        id="tcpRule",
        priority=100,
        allow=True,
        src_group=100,
        dst_group=200,
        source=IPv4Network("10.10.10.10/24", strict=False),
        destination=IPv4Network("10.1.1.1/24", strict=False),
        protocol=6,
        src_port=200,
        dst_port=100,
    ),
    Rule(
        id="udpRule",
        priority=100,
        allow=False,
        src_group=300,
        dst_group=400,
        source=IPv4Network("20.20.20.20/24", strict=False),
        destination=IPv4Network("20.2.2.2/24", strict=False),
        protocol=17,
        src_port=400,
        dst_port=300,
    ),
)


@pytest.fixture(params=MODES, ids=lambda mode: f"{mode[0].name}-{mode[1]}")
def mode(request: pytest.FixtureRequest) -> tuple[Bridge, FwdMode]:
    found: tuple[Bridge, FwdMode] = request.param
    return found


@pytest.fixture
async def node(ovs_module: OvsHost, mode: tuple[Bridge, FwdMode]) -> AsyncIterator[HostBridge]:
    """Run one host's bridge with the network alone."""
    kind, fwd_mode = mode
    world = replace(empty(1, fwd_mode), vteps={})
    async with (
        dialled(ovs_module) as bridge,
        running_agent(bridge, world, bridge_name=kind) as agent,
    ):
        yield HostBridge(1, bridge, agent)


def of(fwd_mode: FwdMode) -> list[tuple[Bridge, FwdMode]]:
    """Return the modes of either bridge."""
    return [mode for mode in MODES if mode[1] is fwd_mode]


async def has(node: HostBridge, *pods: LocalEndpoint, rules: tuple[Rule, ...] = ()) -> None:
    """Let the host have these pods and rules, and no others."""
    local, ruled = {pod.key: pod for pod in pods}, {rule.id: rule for rule in rules}
    await node.becomes(replace(node.agent.world, local=local, rules=ruled))


async def test_port_dscp_flow(node: HostBridge, mode: tuple[Bridge, FwdMode]) -> None:
    """The mark comes, changes, goes, comes back, and ends with its pod."""
    before = node.routes()
    tag = (TAG,) if mode == (Bridge.VXLAN, FwdMode.BRIDGE) else ()
    port = line(1, 10, "in_port=14", *tag, MARK, "goto_table:3")
    for dscp in (10, 20, 0, 30):
        await has(node, replace(MARKED, dscp=dscp))
        act = (f"set_field:{dscp}->ip_dscp", *tag, MARK, "goto_table:3")
        marking = {line(1, 100, f"{family},in_port=14", *act) for family in ("ip", "ipv6")}
        entry = {found for found in node.routes() - before if found.startswith("table=1,")}
        assert entry == ({port} | marking if dscp else {port})
    await has(node)
    assert node.routes() == before


@pytest.mark.parametrize("mode", of(FwdMode.ROUTING), indirect=True)
async def test_policy_add_delete(node: HostBridge) -> None:
    before = node.routes()
    allowed = "metadata=0x640190/0x7ffffffe,nw_src=10.10.10.0/24,nw_dst=10.1.1.0/24"
    denied = "metadata=0x12c0320/0x7ffffffe,nw_src=20.20.20.0/24,nw_dst=20.2.2.0/24"
    await has(node, JUDGED, rules=RULES)
    tables = tuple(f"table={table}," for table in (1, 4, 5))
    assert {found for found in node.routes() - before if found.startswith(tables)} == {
        line(1, 10, "in_port=12", "write_metadata:0x100640000/0xff7fff0000", "goto_table:3"),
        line(4, 100, f"ip,{IN_VRF},nw_dst=10.2.2.2", "write_metadata:0xc8/0xfffe", "goto_table:5"),
        line(5, 110, f"tcp,{allowed},tp_src=200,tp_dst=100", "goto_table:6"),
        line(5, 110, f"udp,{denied},tp_src=400,tp_dst=300", "drop"),
    }
    await has(node, JUDGED)
    assert not [found for found in node.routes() - before if found.startswith("table=5,")]
    await has(node)
    assert node.routes() == before


@pytest.mark.parametrize("mode", of(FwdMode.BRIDGE), indirect=True)
async def test_arp_redirect_flow_entry(node: HostBridge) -> None:
    """ARP comes up until it is to be flooded, and again when it is not any more."""
    redirect = line(0, 100, "arp,arp_op=1", "CONTROLLER:65535")
    before = node.bridge.flows()
    assert redirect in before
    await node.becomes(replace(node.agent.world, arp_mode=ArpMode.FLOOD))
    assert not [found for found in node.bridge.flows() if "arp" in found]
    await node.becomes(replace(node.agent.world, arp_mode=ArpMode.PROXY))
    assert node.bridge.flows() == before


async def test_dns_flows(node: HostBridge, mode: tuple[Bridge, FwdMode]) -> None:
    """Pods' requests come up; what comes from other hosts does not, as long as there is a way."""
    kind, _ = mode
    pods = "udp,dl_src=02:02:00:00:00:00/ff:ff:00:00:00:00,tp_dst=53"
    returned = pods.replace("udp,", "udp,dl_vlan=4093,")
    intercepted = {
        line(0, 100, pods, "CONTROLLER:65535"),
        line(0, 101, returned, "pop_vlan", "goto_table:1"),
    }
    assert dns(node) == intercepted
    before, bare = node.agent.world, node.routes()
    if kind is Bridge.VXLAN:
        tunnel = Vtep(host=host_name(2), ip=IPv4Address("10.10.10.2"), ofport=101)
        await node.becomes(replace(before, vteps={tunnel.host: tunnel}))
        ways = [101]
    else:
        links = [Uplink(ofport=port, mac="52:54:00:00:00:0a") for port in (101, 102)]
        await node.becomes(replace(before, uplinks=tuple(links)))
        ways = [101, 102]
    exempt = {line(0, 102, f"udp,in_port={port},tp_dst=53", "goto_table:1") for port in ways}
    assert dns(node) == intercepted | exempt
    await node.becomes(before)
    assert node.routes() == bare


def dns(node: HostBridge) -> set[str]:
    return {found for found in node.routes() if "tp_dst=53" in found}
