"""Of a packet in fragments the first is judged; the others wait until it is there."""

from dataclasses import replace
from ipaddress import IPv4Network

import pytest

from ofnet.openflow import oxm
from ofnet.openflow.actions import Conntrack
from ofnet.pipelines.packet_path.fragments import ZONE
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, ManagementPort, Rule, World
from tests.unit.ofnet.pipelines.scene import ANN, BOB, deny_all, ip, ip6, world
from tests.unit.ofnet.walk import Packet, flows_of, send, tracked

FIRST, LATER = 1, 3
"""The bits of `ip_frag`."""

in_every_mode = pytest.mark.parametrize(
    ("bridge", "mode"), [(bridge, mode) for bridge in Bridge for mode in FwdMode]
)
of_each_family = pytest.mark.parametrize("packet", [ip(ANN, BOB), ip6(ANN, BOB)], ids=["4", "6"])
ALLOWED = Rule(
    id="allowed", priority=9, allow=True, dst_group=8, protocol=oxm.PROTO_UDP, dst_port=7000
)


def site(bridge: Bridge, mode: FwdMode, *rules: Rule) -> World:
    return world(mode, rules=rules, vxlan=bridge is Bridge.VXLAN)


def first(packet: Packet, port: int) -> Packet:
    return {
        **packet,
        "ip_frag": FIRST,
        "ip_proto": oxm.PROTO_UDP,
        "udp_src": 4000,
        "udp_dst": port,
    }


def later(packet: Packet) -> Packet:
    """Return a fragment as the switch sees it: ports 0; in IPv6, the protocol is hidden too."""
    proto = oxm.PROTO_UDP if packet["eth_type"] == oxm.ETH_IPV4 else 44
    return {**packet, "ip_frag": LATER, "ip_proto": proto, "udp_src": 0, "udp_dst": 0}


@in_every_mode
@of_each_family
def test_rules_are_about_the_first_fragment(bridge: Bridge, mode: FwdMode, packet: Packet) -> None:
    of = site(bridge, mode, deny_all(8), ALLOWED)
    assert send(of, bridge, first(packet, 7000))
    assert not send(of, bridge, first(packet, 7001))
    denied = Rule(id="web", priority=1, allow=False, dst_group=8, protocol=17, dst_port=7001)
    assert not send(site(bridge, mode, denied), bridge, first(packet, 7001))


@in_every_mode
@of_each_family
def test_later_ones_pass_rules_and_wait_where_the_first_has_passed_them(
    bridge: Bridge, mode: FwdMode, packet: Packet
) -> None:
    of = flows_of(site(bridge, mode, deny_all(8), ALLOWED), bridge)
    waiting = Conntrack(table=TableId.SRV_PROXY_SNAT, zone=ZONE)
    assert tracked(of, first(packet, 7000)) == [waiting]
    assert tracked(of, later(packet)) == [waiting]
    assert tracked(of, first(packet, 7001)) == []


@in_every_mode
@of_each_family
def test_whole_packets_do_not_wait(bridge: Bridge, mode: FwdMode, packet: Packet) -> None:
    assert tracked(flows_of(site(bridge, mode), bridge), packet) == []


@in_every_mode
@of_each_family
@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_a_first_fragment_too_short_for_its_ports_is_dropped(
    bridge: Bridge, mode: FwdMode, packet: Packet, proto: str
) -> None:
    number = {"tcp": oxm.PROTO_TCP, "udp": oxm.PROTO_UDP}[proto]
    short = {**packet, "ip_frag": FIRST, "ip_proto": number, f"{proto}_src": 0, f"{proto}_dst": 0}
    assert not send(site(bridge, mode), bridge, short)


def test_a_management_port_is_not_reached_by_fragments() -> None:
    of = site(Bridge.VXLAN, FwdMode.ROUTING)
    port = ManagementPort(protocol=17, port=4789)
    guarded = replace(
        of,
        management={"h": IPv4Network("192.168.77.2/32")},
        management_ports={"vxlan": port},
    )
    outward = {**ip(ANN, BOB), "ipv4_dst": IPv4Network("192.168.77.2/32").network_address}
    assert send(guarded, Bridge.VXLAN, first(outward, 4788))
    assert not send(guarded, Bridge.VXLAN, first(outward, 4789))
