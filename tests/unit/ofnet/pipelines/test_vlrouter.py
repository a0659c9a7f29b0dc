"""vlan networks, routed: every host is the router between its pods and the VLANs outside."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network

import pytest

from ofnet.changes import ObjectKind
from ofnet.openflow.actions import PORT_CONTROLLER, PORT_IN_PORT, OutputFirst
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, LocalEndpoint, Router, Rule, Uplink, World
from tests.unit.ofnet.pipelines.scene import (
    ANN,
    BOB,
    EVE,
    FAR,
    PEER_MAC,
    UPLINK,
    arp,
    arrival,
    deny_all,
    ip,
    ip6,
    v6,
    world,
)
from tests.unit.ofnet.walk import Packet, flows_of, send
from tests.unit.ofnet.worlds import NET, address

SECOND = Uplink(ofport=10, mac="52:54:00:00:00:03")
VLAN = 1


def routed(*rules: Rule) -> World:
    return world(FwdMode.ROUTING, rules=rules, vxlan=False)


def sent(packet: Packet, of: World | None = None) -> list[tuple[int, Packet]]:
    return send(of or routed(), Bridge.VLAN, packet)


def delivered(packet: Packet, to: LocalEndpoint) -> list[tuple[int, Packet]]:
    """Return how a packet reaches a pod: from the router, without a tag."""
    untagged = {name: value for name, value in packet.items() if name != "vlan_vid"}
    return [(to.ofport, {**untagged, "eth_src": ROUTER_MAC, "eth_dst": to.mac})]


@pytest.mark.parametrize("to", [BOB, EVE])
def test_pods_of_this_host_are_routed_whatever_their_networks(to: LocalEndpoint) -> None:
    for packet in (ip(ANN, to, eth_dst=ROUTER_MAC), ip6(ANN, to, eth_dst=ROUTER_MAC)):
        assert sent(packet) == delivered(packet, to)


@pytest.mark.parametrize("family", ["4", "6"])
def test_a_pod_elsewhere_is_reached_through_its_host_on_its_vlan(family: str) -> None:
    packet = ip(ANN, FAR) if family == "4" else ip6(ANN, FAR)
    expected = {"eth_src": UPLINK.mac, "eth_dst": PEER_MAC, "vlan_vid": VLAN}
    assert sent(packet) == [(UPLINK.ofport, {**packet, **expected})]


@pytest.mark.parametrize("tag", [{}, {"vlan_vid": VLAN}], ids=str)
def test_a_packet_of_an_unknown_source_arrives_untagged_without_policy(tag: Packet) -> None:
    plain = arrival(UPLINK.ofport, BOB, **tag)
    ends6 = {"eth_type": 0x86DD, "ipv6_src": v6(99), "ipv6_dst": BOB.ip6}
    for packet in (plain, {**plain, **ends6}):
        assert sent(packet, routed(deny_all(8))) == delivered(packet, BOB)


def test_rules_hold_for_what_pods_send() -> None:
    for packet in (ip(ANN, BOB), ip6(ANN, BOB), ip(ANN, FAR), ip6(ANN, FAR)):
        assert not sent(packet, routed(deny_all(8)))
        assert sent(packet)


@pytest.mark.parametrize(
    "packet",
    [
        ip(ANN, BOB, ipv4_dst=address(99)),
        arrival(UPLINK.ofport, FAR, ipv4_dst=address(99)),
        arrival(77, BOB),
    ],
    ids=str,
)
def test_unknown_destinations_and_ports_are_dropped(packet: Packet) -> None:
    assert not sent(packet)


def test_every_card_of_a_bond_is_a_way_in_and_the_first_that_works_the_way_out() -> None:
    of = replace(routed(), uplinks=(UPLINK, SECOND))
    outward = [flow for flow in flows_of(of, Bridge.VLAN) if flow.owner is ObjectKind.REMOTE]
    last = {flow.instructions.actions[-1] for flow in outward if flow.table == TableId.IP}
    assert last == {OutputFirst((UPLINK.ofport, SECOND.ofport))}
    for card in (UPLINK, SECOND):
        packet = arrival(card.ofport, BOB, vlan_vid=VLAN)
        assert sent(packet, of) == delivered(packet, BOB)


@pytest.mark.parametrize("uplinks", [(UPLINK,), (UPLINK, SECOND)])
def test_what_comes_in_for_a_pod_elsewhere_does_not_go_out_again(uplinks: tuple[Uplink]) -> None:
    of = replace(routed(), uplinks=uplinks)
    for card in uplinks:
        assert {port for port, _ in sent(arrival(card.ofport, FAR), of)} <= {card.ofport}


@pytest.mark.parametrize("lack", ["uplinks", "peer_macs"])
def test_without_a_way_out_a_pod_elsewhere_is_out_of_reach(lack: str) -> None:
    of = replace(routed(), uplinks=()) if lack == "uplinks" else replace(routed(), peer_macs={})
    assert not sent(ip(ANN, FAR), of)
    assert sent(ip(ANN, BOB), of)


def test_a_network_without_a_vlan_sends_untagged() -> None:
    of = routed()
    plain = replace(of, networks={**of.networks, NET: replace(of.networks[NET], vlan=0)})
    [(port, packet)] = sent(ip(ANN, FAR), plain)
    assert (port, "vlan_vid" in packet) == (UPLINK.ofport, False)


def test_the_routers_own_questions_do_not_come_up() -> None:
    """A request of the router goes to table 7, which drops ARP."""
    assert not sent(arp(ANN, address(99), eth_src=ROUTER_MAC))


OWN6 = IPv6Address("fe80::402:32ff:fe01:101")
OWN, PEER = IPv4Address("50.1.1.1"), IPv4Address("50.1.1.2")
ROUTER = Router(
    ofport=80,
    ip6=OWN6,
    mac="06:02:32:01:01:01",
    ip=OWN,
    peer=PEER,
    peer_mac="52:54:00:00:00:0c",
)
THIRD_MAC = "52:54:00:00:00:0d"
OUTSIDE = IPv4Address("60.1.1.7")
OUTSIDE6 = IPv6Address("2001:db8:9::7")


def speaking(routes: dict[str, str] | None = None, *, uplinks: tuple[Uplink, ...]) -> World:
    learned = {ip_network(prefix): mac for prefix, mac in (routes or {}).items()}
    return replace(routed(), router=ROUTER, routes=learned, uplinks=uplinks)


def by(mac: str, packet: Packet, port: int = UPLINK.ofport) -> list[tuple[int, Packet]]:
    """Return how a packet leaves: from the uplink to a next hop, without a tag."""
    return [(port, {**packet, "eth_src": UPLINK.mac, "eth_dst": mac})]


def from_router(to: IPv4Address, **more: object) -> Packet:
    packet = arrival(ROUTER.ofport, BOB, ipv4_src=ROUTER.ip, ipv4_dst=to)
    return {**packet, "eth_src": ROUTER.mac, "eth_dst": ROUTER_MAC, **more}


CARDS = pytest.mark.parametrize("uplinks", [(UPLINK,), (UPLINK, SECOND)], ids=["one", "bond"])


@CARDS
def test_the_host_reaches_its_peer_and_the_peer_the_host(uplinks: tuple[Uplink, ...]) -> None:
    of = speaking(uplinks=uplinks)
    packet = from_router(PEER)
    assert sent(packet, of) == by("52:54:00:00:00:0c", packet)
    for card in uplinks:
        for tagged in ({}, {"vlan_vid": 1}):
            answer = arrival(card.ofport, BOB, ipv4_dst=ROUTER.ip, **tagged)
            untagged = {name: value for name, value in answer.items() if name != "vlan_vid"}
            to_host = {"eth_src": ROUTER_MAC, "eth_dst": ROUTER.mac}
            assert sent(answer, of) == [(ROUTER.ofport, {**untagged, **to_host})]


def test_a_peer_without_a_mac_is_out_of_reach() -> None:
    of = replace(speaking(uplinks=(UPLINK,)), router=replace(ROUTER, peer_mac=None))
    assert not sent(from_router(PEER), of)


def test_the_host_and_its_peer_resolve_each_other() -> None:
    of = speaking(uplinks=(UPLINK,))
    asked = arp(BOB, PEER, in_port=ROUTER.ofport, eth_src=ROUTER.mac, arp_spa=OWN)
    [(port, answer)] = sent(asked, of)
    assert (port, answer["arp_op"], answer["arp_sha"]) == (PORT_IN_PORT, 2, ROUTER_MAC)
    sought = arp(BOB, OWN, in_port=UPLINK.ofport, arp_spa=PEER)
    [(port, answer)] = sent(sought, of)
    assert (port, answer["arp_op"], answer["arp_sha"]) == (PORT_IN_PORT, 2, UPLINK.mac)


BY_IPV6 = Router(
    ofport=80,
    ip6=OWN6,
    mac="06:02:32:01:01:01",
    global6=IPv6Address("2001:db8:50::1"),
    peer=IPv6Address("2001:db8:50::2"),
    peer_mac="52:54:00:00:00:0c",
)


@CARDS
def test_the_host_reaches_its_peer_by_ipv6_and_the_peer_the_host(
    uplinks: tuple[Uplink, ...],
) -> None:
    of = replace(speaking(uplinks=uplinks), router=BY_IPV6)
    ends = {"eth_type": 0x86DD, "ipv6_src": BY_IPV6.global6, "ipv6_dst": BY_IPV6.peer}
    packet = {**from_router(OUTSIDE), **ends}
    assert sent(packet, of) == by("52:54:00:00:00:0c", packet)
    assert not sent(packet, replace(of, router=replace(BY_IPV6, peer_mac=None)))
    back = {"eth_type": 0x86DD, "ipv6_src": BY_IPV6.peer, "ipv6_dst": BY_IPV6.global6}
    for card in uplinks:
        for tagged in ({}, {"vlan_vid": 1}):
            answer = {**arrival(card.ofport, BOB, **tagged), **back}
            untagged = {name: value for name, value in answer.items() if name != "vlan_vid"}
            to_host = {"eth_src": ROUTER_MAC, "eth_dst": BY_IPV6.mac}
            assert sent(answer, of) == [(BY_IPV6.ofport, {**untagged, **to_host})]


def test_the_host_and_its_peer_by_ipv6_resolve_each_other() -> None:
    of = replace(speaking(uplinks=(UPLINK,)), router=BY_IPV6)
    asked = {**solicited(BY_IPV6.ofport, BY_IPV6.peer), "eth_src": BY_IPV6.mac}
    [(port, answer)] = sent(asked, of)
    assert (port, answer["icmpv6_type"], answer["nd_tll"]) == (PORT_IN_PORT, 136, ROUTER_MAC)
    assert not sent(solicited(BY_IPV6.ofport, OUTSIDE6), of), "nobody else"
    for own in (BY_IPV6.global6, OWN6):
        [(port, answer)] = sent(solicited(UPLINK.ofport, own), of)
        assert (port, answer["nd_tll"], answer["ipv6_src"]) == (PORT_IN_PORT, UPLINK.mac, own)
    owned = [flow for flow in flows_of(of, Bridge.VLAN) if flow.owner is ObjectKind.ROUTER]
    assert not any("arp" in str(flow) for flow in owned), "it has no address of IPv4"


def solicited(ofport: int, target: object) -> Packet:
    nd = {"ip_proto": 58, "icmpv6_type": 135, "nd_target": target}
    return {**arrival(ofport, BOB), "eth_type": 0x86DD, "ipv6_src": v6(98), **nd}


def test_a_session_by_ipv4_may_have_a_global_address_of_ipv6() -> None:
    of = replace(
        speaking(uplinks=(UPLINK,)), router=replace(ROUTER, global6=IPv6Address("2001:db8:50::1"))
    )
    [(port, answer)] = sent(solicited(UPLINK.ofport, BY_IPV6.global6), of)
    assert (port, answer["nd_tll"]) == (PORT_IN_PORT, UPLINK.mac)


@CARDS
def test_pods_reach_learned_prefixes(uplinks: tuple[Uplink, ...]) -> None:
    of = speaking({"60.1.1.0/24": THIRD_MAC}, uplinks=uplinks)
    packet = ip(ANN, BOB, ipv4_dst=OUTSIDE, eth_dst=ROUTER_MAC)
    assert sent(packet, of) == by(THIRD_MAC, packet)
    assert not sent(packet, speaking(uplinks=uplinks))
    assert not sent(packet, replace(of, uplinks=()))


def test_the_longer_prefix_wins() -> None:
    """Also above the default route, for remote pods."""
    macs = {f"60.1.1.0/{length}": f"52:54:00:00:01:{length:02x}" for length in range(24, 30)}
    routes = {"0.0.0.0/0": THIRD_MAC, **macs, "60.1.1.7/32": "52:54:00:00:01:20"}
    packet = ip(ANN, BOB, ipv4_dst=OUTSIDE)
    for prefix in reversed(routes):
        assert sent(packet, speaking(routes, uplinks=(UPLINK,))) == by(routes[prefix], packet)
        routes = {other: mac for other, mac in routes.items() if other != prefix}
    of = speaking({"0.0.0.0/0": THIRD_MAC, "10.1.0.0/16": THIRD_MAC}, uplinks=(UPLINK,))
    assert sent(ip(ANN, BOB), of) == delivered(ip(ANN, BOB), BOB)
    [(_, elsewhere)] = sent(ip(ANN, FAR), of)
    assert elsewhere["eth_dst"] == PEER_MAC


@CARDS
def test_the_router_and_its_neighbours_resolve_each_other_by_nd(
    uplinks: tuple[Uplink, ...],
) -> None:
    of = speaking(uplinks=uplinks)
    request: Packet = {
        "eth_type": 0x86DD,
        "ip_proto": 58,
        "icmpv6_type": 135,
        "eth_src": THIRD_MAC,
        "eth_dst": "33:33:ff:01:01:01",
        "nd_target": OWN6,
        "ipv6_src": IPv6Address("fe80::2"),
        "ipv6_dst": IPv6Address("ff02::1:ff01:101"),
    }
    for card in uplinks:
        asked = {**request, "in_port": card.ofport}
        [(port, answer)] = sent(asked, of)
        assert (port, answer["icmpv6_type"], answer["nd_tll"]) == (PORT_IN_PORT, 136, UPLINK.mac)
        assert (answer["ipv6_src"], answer["eth_dst"]) == (OWN6, THIRD_MAC)
        assert not sent({**asked, "nd_target": v6(1)}, of)
        [(port, _)] = sent({**asked, "icmpv6_type": 136}, of)
        assert port == PORT_CONTROLLER
    pod = {**request, "in_port": ANN.ofport, "eth_src": ANN.mac, "ipv6_src": ANN.ip6}
    [(_, answer)] = sent({**pod, "nd_target": BOB.ip6}, of)
    assert answer["nd_tll"] == ROUTER_MAC, "pods learn the router's MAC as before"


def test_without_an_ipv6_next_hop_there_is_no_nd() -> None:
    of = replace(speaking(uplinks=(UPLINK,)), router=replace(ROUTER, ip6=None))
    owned = [flow for flow in flows_of(of, Bridge.VLAN) if flow.owner is ObjectKind.ROUTER]
    assert not any("icmp6" in str(flow) for flow in owned)


@CARDS
def test_pods_reach_learned_ipv6_prefixes(uplinks: tuple[Uplink, ...]) -> None:
    packet = ip6(ANN, BOB, ipv6_dst=OUTSIDE6, eth_dst=ROUTER_MAC)
    for prefix in ("2001:db8:9::/64", "2001:db8:8::/47", "::/0"):
        of = speaking({prefix: THIRD_MAC}, uplinks=uplinks)
        assert sent(packet, of) == by(THIRD_MAC, packet)
        for card in uplinks:
            outside = {**arrival(card.ofport, BOB), **packet, "in_port": card.ofport}
            assert {port for port, _ in sent(outside, of)} <= {card.ofport}
        assert not sent(packet, replace(of, uplinks=()))
    assert not sent(packet, speaking(uplinks=uplinks))


def test_the_longer_ipv6_prefix_wins_at_every_length() -> None:
    macs = {
        str(IPv6Network((OUTSIDE6, length), strict=False)): f"52:54:00:00:02:{length:02x}"
        for length in range(129)
    }
    assert len(macs) == 129
    packet = ip6(ANN, BOB, ipv6_dst=OUTSIDE6)
    for prefix in reversed(macs):
        [(_, out)] = sent(packet, speaking(macs, uplinks=(UPLINK,)))
        assert out["eth_dst"] == macs[prefix]
        macs = {other: mac for other, mac in macs.items() if other != prefix}


def test_ipv6_pods_win_over_every_prefix_they_are_in() -> None:
    assert FAR.ip6 is not None
    assert BOB.ip6 is not None
    for length in range(128):
        routes = {
            str(IPv6Network((pod, length), strict=False)): THIRD_MAC for pod in (FAR.ip6, BOB.ip6)
        }
        of = speaking(routes, uplinks=(UPLINK,))
        assert sent(ip6(ANN, BOB), of) == delivered(ip6(ANN, BOB), BOB)
        [(_, elsewhere)] = sent(ip6(ANN, FAR), of)
        assert elsewhere["eth_dst"] == PEER_MAC


def test_a_route_to_a_pod_elsewhere_is_taken() -> None:
    of = speaking({f"{FAR.ip}/32": THIRD_MAC}, uplinks=(UPLINK,))
    assert sent(ip(ANN, FAR), of) == by(THIRD_MAC, ip(ANN, FAR))


@CARDS
def test_this_host_does_not_route_for_the_physical_network(uplinks: tuple[Uplink, ...]) -> None:
    routes = {f"{OUTSIDE}/32": THIRD_MAC, "0.0.0.0/0": THIRD_MAC}
    of = speaking(routes, uplinks=uplinks)
    for card in uplinks:
        packet = arrival(card.ofport, BOB, ipv4_dst=OUTSIDE)
        assert {port for port, _ in sent(packet, of)} <= {card.ofport}


def test_the_priorities_of_routes_are_those_of_the_recordings_for_hosts() -> None:
    of = speaking({"20.20.20.20/32": THIRD_MAC, "60.1.1.0/24": THIRD_MAC}, uplinks=(UPLINK,))
    lines = [str(flow) for flow in flows_of(of, Bridge.VLAN) if flow.owner is ObjectKind.ROUTE]
    way = f"set_field:{UPLINK.mac}->eth_src,set_field:{THIRD_MAC}->eth_dst,output:{UPLINK.ofport}"
    assert f"table=7, priority=101,ip,nw_dst=20.20.20.20 actions={way}" in lines
    assert f"table=7, priority=44,ip,nw_dst=60.1.1.0/24 actions={way}" in lines
