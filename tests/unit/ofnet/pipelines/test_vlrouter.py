"""vlan networks, routed: every host is the router between its pods and the VLANs outside."""

from dataclasses import replace

import pytest

from ofnet.actions import OutputFirst
from ofnet.changes import Kind
from ofnet.pipelines.stages import ROUTER_MAC
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, LocalEndpoint, Rule, Uplink, World
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
def test_what_nobody_known_sends_reaches_its_pod_without_a_tag_and_unjudged(tag: Packet) -> None:
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
def test_what_nobody_has_and_what_nobody_sent_ends(packet: Packet) -> None:
    assert not sent(packet)


def test_every_card_of_a_bond_is_a_way_in_and_the_first_that_works_the_way_out() -> None:
    of = replace(routed(), uplinks=(UPLINK, SECOND))
    outward = [flow for flow in flows_of(of, Bridge.VLAN) if flow.owner is Kind.REMOTE]
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
    """What the router asks goes on to table 7, which has no way for ARP."""
    assert not sent(arp(ANN, address(99), eth_src=ROUTER_MAC))
