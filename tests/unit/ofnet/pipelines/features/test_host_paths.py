"""A host and its own pods: past policy go its own packets and their answers, and nothing else.

What it forwards has tests of its own (`test_host_forwarding`).
"""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import NamedTuple

import pytest

from ofnet.openflow import oxm
from ofnet.openflow.actions import ConntrackClear
from ofnet.openflow.fields import (
    CT_ESTABLISHED,
    CT_INVALID,
    CT_NEW,
    CT_RELATED,
    CT_REPLY,
    CT_TRACKED,
)
from ofnet.pipelines.packet_path import stages
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.tables import TableId
from ofnet.world import (
    Bridge,
    FwdMode,
    HostPort,
    LocalEndpoint,
    Rule,
    World,
    tunnel_source6,
)
from tests.unit.ofnet.pipelines import scene
from tests.unit.ofnet.pipelines.scene import ANN, BOB, EVE
from tests.unit.ofnet.walk import Packet, flows_of, send, tracked, walk
from tests.unit.ofnet.worlds import HOST_PORT, ip_of

Address = IPv4Address | IPv6Address

HOST, HOST6 = IPv4Address("192.168.77.1"), IPv6Address("fd77::1")
OUTSIDE, OUTSIDE6 = IPv4Address("192.0.2.1"), IPv6Address("2001:db8:ff::1")
PORT = replace(HOST_PORT, sources=frozenset({HOST, HOST6}))
ANSWER = CT_TRACKED | CT_ESTABLISHED | CT_REPLY
DENIED = tuple(
    Rule(id=f"{way}{group}", priority=1, allow=False, **{way: group})  # type: ignore[arg-type]
    for way in ("src_group", "dst_group")
    for group in (7, 8)
)
in_all_modes = pytest.mark.parametrize(
    ("mode", "bridge"), [(mode, bridge) for mode in FwdMode for bridge in Bridge], ids=str
)


def world(mode: FwdMode, bridge: Bridge, port: HostPort = PORT) -> World:
    """Return the World of a bridge; the rules deny all, and the host has routes to all but Eve."""
    made = scene.world(mode, rules=DENIED, guard=True, vxlan=bridge is Bridge.VXLAN)
    pods = [replace(pod, routed=frozenset(stages.addresses(pod))) for pod in (ANN, BOB)]
    return replace(made, host_port=port, local={pod.key: pod for pod in (*pods, EVE)})


def of_host(to: Address, source: Address = HOST) -> Packet:
    return {
        "in_port": PORT.ofport,
        "eth_src": PORT.mac,
        "eth_dst": ROUTER_MAC,
        **stages.from_address(source),
        **stages.to_address(to),
    }


def of_ann(to: IPv4Address | IPv6Address, tracked_as: int) -> Packet:
    packet = {"in_port": ANN.ofport, "eth_src": ANN.mac, "eth_dst": ROUTER_MAC}
    if isinstance(to, IPv4Address):
        ends = {"eth_type": oxm.ETH_IPV4, "ipv4_src": ip_of(ANN), "ipv4_dst": to}
    else:
        ends = {"eth_type": oxm.ETH_IPV6, "ipv6_src": ANN.ip6, "ipv6_dst": to}
    return {**packet, **ends, "tracked_as": tracked_as}


@in_all_modes
def test_the_host_reaches_a_pod_whatever_the_rules_are(mode: FwdMode, bridge: Bridge) -> None:
    ((port, packet),) = send(world(mode, bridge), bridge, of_host(ip_of(ANN)))
    assert (port, packet["eth_dst"], packet["ipv4_dst"]) == (ANN.ofport, ANN.mac, ANN.ip)
    assert packet["ipv4_src"] == HOST


@in_all_modes
@pytest.mark.parametrize("to", [HOST, HOST6, OUTSIDE], ids=str)
def test_answers_go_to_the_host_as_they_are(
    mode: FwdMode, bridge: Bridge, to: IPv4Address | IPv6Address
) -> None:
    """Those to the outside too: the host forwards connections that keep their source."""
    ((port, packet),) = send(world(mode, bridge), bridge, of_ann(to, ANSWER))
    assert (port, packet["eth_dst"]) == (PORT.ofport, PORT.mac)
    assert packet.get("ipv4_src", ANN.ip) == ANN.ip
    assert "vlan_vid" not in packet


@in_all_modes
@pytest.mark.parametrize(
    "state", [CT_NEW, CT_ESTABLISHED, CT_INVALID, CT_REPLY | CT_INVALID], ids=str
)
def test_what_a_pod_begins_meets_the_rules(mode: FwdMode, bridge: Bridge, state: int) -> None:
    assert send(world(mode, bridge), bridge, of_ann(HOST, CT_TRACKED | state)) == []


@in_all_modes
def test_answers_to_the_clusters_management_are_answers_too(mode: FwdMode, bridge: Bridge) -> None:
    made = replace(world(mode, bridge), management={"m": IPv4Network((OUTSIDE, 32))})
    ((port, _),) = send(made, bridge, of_ann(OUTSIDE, ANSWER))
    assert port == PORT.ofport


@in_all_modes
def test_answers_to_other_pods_are_not_looked_up(mode: FwdMode, bridge: Bridge) -> None:
    assert send(world(mode, bridge), bridge, of_ann(ip_of(BOB), ANSWER)) == []


@in_all_modes
def test_a_pod_without_the_route_is_not_answered_for(mode: FwdMode, bridge: Bridge) -> None:
    made = world(mode, bridge)
    assert send(made, bridge, of_host(ip_of(EVE))) == []
    answer = {**of_ann(HOST, ANSWER), "in_port": EVE.ofport, "eth_src": EVE.mac, "ipv4_src": EVE.ip}
    assert PORT.ofport not in [
        port for port, packet in send(made, bridge, answer) if packet["ipv4_src"] == EVE.ip
    ]


@in_all_modes
def test_the_host_carries_no_pods_packet_back(mode: FwdMode, bridge: Bridge) -> None:
    private = IPv4Address("172.19.0.3")
    assert send(world(mode, bridge), bridge, of_host(ip_of(ANN), private)) == []
    assert send(world(mode, bridge), bridge, of_host(ip_of(ANN), PORT.address)) == [], (
        "stands for pods"
    )


@in_all_modes
def test_the_host_may_use_any_of_its_addresses(mode: FwdMode, bridge: Bridge) -> None:
    other = IPv4Address("192.0.2.77")
    port = replace(PORT, others=frozenset({other, PORT.address}))
    made = world(mode, bridge, port)
    ((out, _),) = send(made, bridge, of_host(ip_of(ANN), other))
    assert out == ANN.ofport
    query = {
        **of_host(ip_of(ANN), other),
        "ip_proto": oxm.PROTO_UDP,
        "udp_src": 40000,
        "udp_dst": 53,
    }
    ((out, _),) = send(made, bridge, query)
    assert out == ANN.ofport, "its DNS is not taken for a pod's"
    assert send(made, bridge, of_host(ip_of(ANN), PORT.address)) == [], "stands for pods"


@in_all_modes
@pytest.mark.parametrize("state", [CT_NEW, CT_ESTABLISHED, CT_RELATED, CT_INVALID], ids=str)
def test_how_the_hosts_firewall_tracked_a_packet_says_nothing(
    mode: FwdMode, bridge: Bridge, state: int
) -> None:
    """On the kernel's datapath it comes with that, in a zone of the host's."""
    flows = flows_of(replace(world(mode, bridge), rules={}), bridge)
    for source in (HOST, OUTSIDE, PORT.address):
        for to in (ip_of(ANN), ip_of(scene.FAR)):
            sent = of_host(to, source)
            known = {**sent, "ct_state": CT_TRACKED | state}
            assert tracked(flows, known) == tracked(flows, sent)
            assert walk(flows, known) == walk(flows, sent)


@in_all_modes
def test_what_comes_by_a_hosts_interface_on_an_infra_network_is_untracked(
    mode: FwdMode, bridge: Bridge
) -> None:
    """It comes as the host's firewall tracked it too; what pods send does not."""
    made = world(mode, bridge)
    own = replace(ANN, of_host=True, dscp=10)
    flows = flows_of(replace(made, local={**made.local, ANN.key: own}), bridge)

    def entries(pod: LocalEndpoint) -> list[bool]:
        entered = (one for one in flows if one.table is TableId.VLAN)
        of_port = (one for one in entered if dict(one.match.fields).get("in_port") == pod.ofport)
        return [ConntrackClear() in one.instructions.actions for one in of_port]

    assert entries(own) == [True] * 3, "by each of its flows"
    assert set(entries(BOB)) == {False}


@pytest.mark.parametrize("mode", list(FwdMode))
def test_before_the_hosts_addresses_are_known_there_is_no_way(mode: FwdMode) -> None:
    early = world(mode, Bridge.VXLAN, replace(PORT, sources=frozenset()))
    assert send(early, Bridge.VXLAN, of_host(ip_of(ANN))) == []


def test_the_gateway_of_a_bridged_vxlan_network_answers() -> None:
    """By it a pod answers the host; a pod that has the address answers itself."""
    made = world(FwdMode.BRIDGE, Bridge.VXLAN)
    gateway = made.networks[ANN.network].gateway
    assert gateway is not None
    ((_, packet),) = send(made, Bridge.VXLAN, scene.arp(ANN, gateway))
    assert packet["arp_sha"] == ROUTER_MAC
    lost = {**of_ann(OUTSIDE, CT_TRACKED | CT_NEW), "in_port": EVE.ofport, "eth_src": EVE.mac}
    assert send(made, Bridge.VXLAN, {**lost, "ipv4_src": EVE.ip}) == [], "it is no router"


VTEP = next(iter(world(FwdMode.ROUTING, Bridge.VXLAN).vteps.values()))
ROUTED = world(FwdMode.ROUTING, Bridge.VXLAN)
VNI = ROUTED.networks[ANN.network].vni
FAR6 = scene.FAR.ip6
of_vxlan = pytest.mark.parametrize("mode", list(FwdMode))
in_both_families = pytest.mark.parametrize("version", [4, 6])


class Ends(NamedTuple):
    """The addresses of one family: this host's, the other host's, Ann's, and the far pod's."""

    here: Address
    there: Address
    ann: Address
    far: Address


assert ANN.ip6 is not None
assert FAR6 is not None
ENDS = {
    4: Ends(HOST, VTEP.ip, ip_of(ANN), ip_of(scene.FAR)),
    6: Ends(tunnel_source6(HOST), tunnel_source6(VTEP.source), ANN.ip6, FAR6),
}


def joined(mode: FwdMode, bridge: Bridge = Bridge.VXLAN) -> World:
    """Return the World of a host that reaches pods of other hosts by both families."""
    return world(mode, bridge, replace(PORT, sources=PORT.sources | {ENDS[6].here}))


def by_tunnel(source: Address, to: Address, tracked_as: int = CT_TRACKED | CT_NEW) -> Packet:
    return {
        "in_port": VTEP.ofport,
        "tunnel_id": VNI,
        "eth_src": PORT.mac,
        "eth_dst": ROUTER_MAC,
        **stages.from_address(source),
        **stages.to_address(to),
        "tracked_as": tracked_as,
    }


@of_vxlan
@in_both_families
def test_the_host_reaches_pods_of_other_hosts_by_their_tunnel(mode: FwdMode, version: int) -> None:
    ends = ENDS[version]
    ((port, packet),) = send(joined(mode), Bridge.VXLAN, of_host(ends.far, ends.here))
    assert (port, packet["tunnel_id"]) == (VTEP.ofport, VNI)
    assert ends.here in packet.values()
    routed = joined(FwdMode.ROUTING, Bridge.VLAN)
    assert send(routed, Bridge.VLAN, of_host(ends.far, ends.here)) == []


@of_vxlan
@in_both_families
def test_another_host_reaches_pods_here_under_its_tunnels_address(
    mode: FwdMode, version: int
) -> None:
    made, ends = joined(mode), ENDS[version]
    mac = ROUTER_MAC if mode is FwdMode.ROUTING else ANN.mac
    sent = {**by_tunnel(ends.there, ends.ann), "eth_dst": mac}
    assert send(made, Bridge.VXLAN, sent) == [], "the rules judge it: it may have forwarded that"
    made = replace(made, rules={})
    ((port, packet),) = send(made, Bridge.VXLAN, sent)
    assert (port, packet["eth_dst"]) == (ANN.ofport, ANN.mac)
    assert ends.there in packet.values()
    assert "vlan_vid" not in packet
    outside = OUTSIDE if version == 4 else OUTSIDE6
    assert send(made, Bridge.VXLAN, by_tunnel(ends.there, outside)) == [], "pods alone"
    assert send(made, Bridge.VXLAN, by_tunnel(outside, ends.ann)) == [], "under that address alone"


@of_vxlan
@in_both_families
def test_answers_to_another_host_leave_by_its_tunnel(mode: FwdMode, version: int) -> None:
    made, ends = joined(mode), ENDS[version]
    ((port, packet),) = send(made, Bridge.VXLAN, of_ann(ends.there, ANSWER))
    assert "vlan_vid" not in packet
    assert (port, packet["tunnel_id"]) == (VTEP.ofport, VNI)
    assert ends.there in packet.values()
    assert send(made, Bridge.VXLAN, of_ann(ends.there, CT_TRACKED | CT_NEW)) == []


@of_vxlan
@in_both_families
def test_answers_of_other_hosts_pods_reach_this_host(mode: FwdMode, version: int) -> None:
    made, ends = joined(mode), ENDS[version]
    ((port, packet),) = send(made, Bridge.VXLAN, by_tunnel(ends.far, ends.here, ANSWER))
    assert (port, packet["eth_dst"]) == (PORT.ofport, PORT.mac)
    assert "vlan_vid" not in packet
    assert send(made, Bridge.VXLAN, by_tunnel(ends.far, ends.here)) == [], "nothing else does"


def test_the_gateway_of_ipv6_on_a_bridged_vxlan_network_answers() -> None:
    made = world(FwdMode.BRIDGE, Bridge.VXLAN)
    gateway = made.networks[ANN.network].gateway6
    assert gateway is not None
    ((_, packet),) = send(made, Bridge.VXLAN, scene.solicit(ANN, gateway))
    assert packet["nd_tll"] == ROUTER_MAC
