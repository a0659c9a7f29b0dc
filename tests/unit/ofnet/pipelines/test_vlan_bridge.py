"""vlan networks, bridged: everything is the switch's normal work, but for what rules end."""

from dataclasses import replace

import pytest

from ofnet.openflow.actions import PORT_NORMAL
from ofnet.world import ArpMode, Bridge, FwdMode, Rule, Uplink, World
from tests.unit.ofnet.pipelines.scene import (
    ANN,
    BOB,
    EVE,
    FAR,
    UPLINK,
    arp,
    arrival,
    deny_all,
    ip,
    ip6,
    world,
)
from tests.unit.ofnet.walk import Packet, send
from tests.unit.ofnet.worlds import ip_of

SECOND = Uplink(ofport=10, mac="52:54:00:00:00:03")


def bridged(*rules: Rule) -> World:
    return world(FwdMode.BRIDGE, rules=rules, vxlan=False)


@pytest.mark.parametrize(
    "packet", [ip(ANN, BOB), ip(ANN, FAR), ip6(ANN, EVE), ip(ANN, BOB, in_port=77)], ids=str
)
def test_frames_take_their_normal_way_unchanged(packet: Packet) -> None:
    assert send(bridged(), Bridge.VLAN, packet) == [(PORT_NORMAL, packet)]


@pytest.mark.parametrize(
    "packet", [ip(ANN, BOB), ip6(ANN, BOB), ip(ANN, FAR), ip6(ANN, FAR)], ids=str
)
def test_rules_hold_for_groups_here_and_elsewhere(packet: Packet) -> None:
    assert not send(bridged(deny_all(8)), Bridge.VLAN, packet)


def test_rules_do_not_apply_to_unknown_sources() -> None:
    packet = arrival(UPLINK.ofport, BOB, vlan_vid=1)
    assert send(bridged(deny_all(8)), Bridge.VLAN, packet) == [(PORT_NORMAL, packet)]


def test_every_uplink_is_one() -> None:
    of = replace(bridged(deny_all(8)), uplinks=(UPLINK, SECOND))
    for uplink in (UPLINK, SECOND):
        query = arrival(uplink.ofport, BOB, eth_src="02:02:00:00:00:01", ip_proto=17, udp_dst=53)
        assert send(of, Bridge.VLAN, query) == [(PORT_NORMAL, query)], "it is not intercepted"


def test_flooded_arp_takes_its_normal_way() -> None:
    of = replace(bridged(), arp_mode=ArpMode.FLOOD)
    question = arp(ANN, ip_of(BOB))
    assert send(of, Bridge.VLAN, question) == [(PORT_NORMAL, question)]


def test_a_pods_dscp_is_written() -> None:
    of = bridged()
    marked = replace(of, local={**of.local, ANN.key: replace(ANN, dscp=26)})
    for packet in (ip(ANN, BOB), ip6(ANN, BOB)):
        assert send(marked, Bridge.VLAN, packet) == [(PORT_NORMAL, {**packet, "ip_dscp": 26})]
    assert "ip_dscp" not in send(marked, Bridge.VLAN, ip(BOB, ANN))[0][1]


def test_a_pod_whose_network_is_unknown_has_no_flows_of_its_own() -> None:
    of = replace(bridged(deny_all(8)), networks={})
    assert send(of, Bridge.VLAN, ip(ANN, BOB)), "its group is unknown"
