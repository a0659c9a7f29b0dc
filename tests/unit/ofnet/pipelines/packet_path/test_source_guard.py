"""The source guard: what a pod may send, and what ends at its port."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from ofnet.openflow import oxm
from ofnet.openflow.actions import PORT_CONTROLLER
from ofnet.pipelines.packet_path.source_guard import DHCP6_SERVER, DHCP_SERVER, ROUTER_ADVERT
from ofnet.world import ArpMode, Bridge, FwdMode
from tests.unit.ofnet.pipelines.scene import (
    ANN,
    BOB,
    advert,
    arp,
    ip,
    ip6,
    solicit,
    v6,
    world,
)
from tests.unit.ofnet.walk import Packet, send
from tests.unit.ofnet.worlds import ip_of

LINK_LOCAL = IPv6Address("fe80::1")
NOBODY6 = IPv6Address(0)
UDP = {"ip_proto": oxm.PROTO_UDP, "udp_dst": 68}
ICMP6 = {"ip_proto": oxm.PROTO_ICMP6}
SERVES_DHCP = ip(ANN, BOB, **UDP, udp_src=DHCP_SERVER)
SERVES_DHCP6 = ip6(ANN, BOB, **UDP, udp_src=DHCP6_SERVER)
ROUTES = ip6(ANN, BOB, **ICMP6, icmpv6_type=ROUTER_ADVERT)

everywhere = pytest.mark.parametrize(
    ("mode", "bridge"), [(mode, bridge) for mode in FwdMode for bridge in Bridge]
)
both_bridges = pytest.mark.parametrize("bridge", Bridge)


def passes(mode: FwdMode, bridge: Bridge, packet: Packet, **more: Any) -> bool:
    """Return whether a packet leaves the switch by a port, with the guard on by default."""
    of = world(mode, vxlan=bridge is Bridge.VXLAN, **{"guard": True, **more})
    return any(port != PORT_CONTROLLER for port, _ in send(of, bridge, packet))


@everywhere
def test_a_pod_sends_from_its_own_addresses(mode: FwdMode, bridge: Bridge) -> None:
    assert passes(mode, bridge, ip(ANN, BOB))
    assert passes(mode, bridge, ip6(ANN, BOB))
    assert passes(mode, bridge, ip(ANN, BOB, **UDP, udp_src=68))


@everywhere
@pytest.mark.parametrize(
    "packet",
    [
        ip(ANN, BOB, ipv4_src=BOB.ip),
        ip(ANN, BOB, ipv4_src=IPv4Address("192.0.2.1")),
        ip(ANN, BOB, eth_src=BOB.mac),
        ip6(ANN, BOB, ipv6_src=v6(2)),
        ip6(ANN, BOB, eth_src=BOB.mac),
        SERVES_DHCP,
        SERVES_DHCP6,
        ROUTES,
    ],
    ids=str,
)
def test_spoofed_packets_and_dhcp_offers_are_dropped(
    mode: FwdMode, bridge: Bridge, packet: Packet
) -> None:
    assert not passes(mode, bridge, packet)
    assert passes(mode, bridge, packet, guard=False), "it is the guard that ends it"


def test_other_protocols_end() -> None:
    spanning_tree = {"in_port": ANN.ofport, "eth_src": ANN.mac, "eth_dst": BOB.mac}
    assert not passes(FwdMode.BRIDGE, Bridge.VLAN, spanning_tree)
    assert passes(FwdMode.BRIDGE, Bridge.VLAN, spanning_tree, guard=False)


@everywhere
def test_without_an_ipv6_address_there_is_no_ipv6(mode: FwdMode, bridge: Bridge) -> None:
    of = world(mode, vxlan=bridge is Bridge.VXLAN, guard=True)
    plain = replace(of, local={**of.local, ANN.key: replace(ANN, ip6=None)})
    assert send(plain, bridge, ip(ANN, BOB))
    assert not send(plain, bridge, ip6(ANN, BOB))
    assert not send(plain, bridge, ip6(ANN, BOB, ipv6_src=LINK_LOCAL))


@everywhere
def test_without_an_ipv4_address_there_is_no_ipv4(mode: FwdMode, bridge: Bridge) -> None:
    of = world(mode, vxlan=bridge is Bridge.VXLAN, guard=True)
    plain = replace(of, local={**of.local, ANN.key: replace(ANN, ip=None)})
    assert send(plain, bridge, ip6(ANN, BOB))
    assert not send(plain, bridge, ip(ANN, BOB))
    assert not send(plain, bridge, ip(ANN, BOB, ipv4_src=IPv4Address(0)))


@both_bridges
@pytest.mark.parametrize(
    ("packet", "may"),
    [
        (solicit(ANN, v6(2)), True),
        (solicit(ANN, v6(2), ipv6_src=LINK_LOCAL), True),
        (solicit(ANN, v6(1), ipv6_src=NOBODY6), True),
        (advert(ANN, v6(1)), True),
        (advert(ANN, v6(1), ipv6_src=LINK_LOCAL), True),
        (advert(ANN, LINK_LOCAL, ipv6_src=LINK_LOCAL), True),
        (advert(ANN, v6(2)), False),
        (advert(ANN, v6(2), ipv6_src=LINK_LOCAL), False),
        (advert(ANN, v6(1), eth_src=BOB.mac), False),
        (advert(ANN, v6(1), ipv6_src=v6(2)), False),
    ],
    ids=str,
)
def test_bridged_neighbours_advertise_their_own_addresses_alone(
    bridge: Bridge, packet: Packet, *, may: bool
) -> None:
    assert passes(FwdMode.BRIDGE, bridge, packet) is may


@both_bridges
@pytest.mark.parametrize(
    ("packet", "may"),
    [
        (arp(ANN, ip_of(BOB)), True),
        (arp(ANN, ip_of(BOB), arp_op=2), True),
        (arp(ANN, ip_of(ANN), arp_spa=IPv4Address(0)), True),
        (arp(ANN, ip_of(BOB), arp_spa=ip_of(BOB)), False),
        (arp(ANN, ip_of(BOB), arp_sha=BOB.mac), False),
        (arp(ANN, ip_of(BOB), eth_src=BOB.mac), False),
        (arp(ANN, ip_of(ANN), arp_op=2, arp_spa=ip_of(BOB)), False),
    ],
    ids=str,
)
def test_flooded_arp_is_in_the_pods_own_name(bridge: Bridge, packet: Packet, *, may: bool) -> None:
    assert passes(FwdMode.BRIDGE, bridge, packet, arp_mode=ArpMode.FLOOD) is may


@both_bridges
def test_answers_are_the_switchs_where_arp_is_not_flooded(bridge: Bridge) -> None:
    assert not passes(FwdMode.BRIDGE, bridge, arp(ANN, ip_of(BOB), arp_op=2, arp_spa=ip_of(BOB)))


@everywhere
def test_dns_is_intercepted_and_may_be_returned(mode: FwdMode, bridge: Bridge) -> None:
    of = world(mode, vxlan=bridge is Bridge.VXLAN, guard=True)
    query = ip(ANN, BOB, ip_proto=oxm.PROTO_UDP, udp_src=40000, udp_dst=53)
    assert [port for port, _ in send(of, bridge, query)] == [PORT_CONTROLLER]
    returned = send(of, bridge, {**query, "vlan_vid": 4093})
    assert returned
    assert PORT_CONTROLLER not in {port for port, _ in returned}
