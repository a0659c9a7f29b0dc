"""vxlan networks, bridged: a frame goes where its MAC is, or everywhere in its network."""

from dataclasses import replace

import pytest

from core.ids import HostLabel
from ofnet.world import ArpMode, Bridge, FwdMode, Rule, World
from tests.unit.ofnet.pipelines.scene import (
    ANN,
    BOB,
    EVE,
    FAR,
    TUNNEL,
    arp,
    arrival,
    deny_all,
    ip,
    ip6,
    world,
)
from tests.unit.ofnet.walk import Packet, send
from tests.unit.ofnet.worlds import ip_of, vtep

BROADCAST = "ff:ff:ff:ff:ff:ff"
VNI, OTHER_VNI = 10001, 10002
THIRD = HostLabel("third")


def bridged(*rules: Rule) -> World:
    return world(FwdMode.BRIDGE, rules=rules)


def sent(packet: Packet, of: World | None = None) -> list[tuple[int, Packet]]:
    return send(of or bridged(), Bridge.VXLAN, packet)


@pytest.mark.parametrize("packet", [ip(ANN, BOB), ip6(ANN, BOB)], ids=str)
def test_a_frame_for_a_pod_here_arrives_as_it_was_sent(packet: Packet) -> None:
    assert sent(packet) == [(BOB.ofport, packet)]


@pytest.mark.parametrize("packet", [ip(ANN, FAR), ip6(ANN, FAR)], ids=str)
def test_a_frame_for_a_pod_elsewhere_goes_into_the_tunnel(packet: Packet) -> None:
    assert sent(packet) == [(TUNNEL, {**packet, "tunnel_id": VNI})]


def test_a_packet_of_an_unknown_source_from_a_tunnel_arrives_untagged_without_policy() -> None:
    packet = arrival(TUNNEL, BOB, tunnel_id=VNI)
    assert sent(packet, bridged(deny_all(8))) == [(BOB.ofport, packet)]


def test_a_frame_for_everybody_goes_to_all_of_its_network() -> None:
    packet = ip(ANN, BOB, eth_dst=BROADCAST)
    of = replace(bridged(), vteps={**bridged().vteps, THIRD: vtep(THIRD, ofport=3)})
    # the switch itself does not send a frame back by the port it came from
    assert sent(packet, of) == [
        (ANN.ofport, packet),
        (BOB.ofport, packet),
        (TUNNEL, {**packet, "tunnel_id": VNI}),
        (3, {**packet, "tunnel_id": VNI}),
    ]


def test_so_does_a_frame_for_an_unknown_address() -> None:
    ports = [port for port, _ in sent(ip(ANN, BOB, eth_dst="02:02:0a:01:09:09"))]
    assert ports == [ANN.ofport, BOB.ofport, TUNNEL]


def test_what_a_tunnel_brings_for_everybody_enters_no_tunnel() -> None:
    packet = arrival(TUNNEL, BOB, tunnel_id=VNI, eth_dst=BROADCAST)
    assert sent(packet) == [(ANN.ofport, packet), (BOB.ofport, packet)]


def test_networks_are_apart() -> None:
    assert BOB.ofport not in {port for port, _ in sent(ip(EVE, BOB))}
    assert [port for port, _ in sent(arrival(TUNNEL, BOB, tunnel_id=OTHER_VNI))] == [EVE.ofport]
    assert not sent(arrival(TUNNEL, BOB, tunnel_id=OTHER_VNI + 1))


def test_what_comes_from_no_pod_and_no_tunnel_ends() -> None:
    assert not sent(arrival(77, BOB))


def test_flooded_arp_reaches_everybody() -> None:
    question = arp(ANN, ip_of(BOB))
    ports = {port for port, _ in sent(question, replace(bridged(), arp_mode=ArpMode.FLOOD))}
    assert ports == {ANN.ofport, BOB.ofport, TUNNEL}


def test_without_a_tunnel_a_pod_elsewhere_is_out_of_reach() -> None:
    ports = {port for port, _ in sent(ip(ANN, FAR), replace(bridged(), vteps={}))}
    assert ports == {ANN.ofport, BOB.ofport}
