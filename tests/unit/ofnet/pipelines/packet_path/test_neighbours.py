"""ARP and ND: which requests the switch answers, and which it leaves to the agent."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from ofnet.openflow import oxm
from ofnet.openflow.actions import PORT_CONTROLLER, PORT_IN_PORT
from ofnet.openflow.packets import SOLICITED_OVERRIDE
from ofnet.pipelines.packet_path.neighbours import TARGET_LINK_LAYER
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.world import ArpMode, Bridge, FwdMode, World
from tests.unit.ofnet.pipelines.scene import (
    ANN,
    BOB,
    EVE,
    FAR,
    GATEWAY6,
    UPLINK,
    Endpoint,
    arp,
    solicit,
    v6,
    world,
)
from tests.unit.ofnet.walk import Packet, flows_of, send
from tests.unit.ofnet.worlds import address, ip_of

UNKNOWN = address(99)
GATEWAY = IPv4Address("10.1.255.254")
BRIDGED = FwdMode.BRIDGE
ROUTED = FwdMode.ROUTING
NOBODY4, NOBODY6 = IPv4Address(0), IPv6Address(0)


def of(mode: FwdMode, bridge: Bridge, **more: Any) -> World:
    return world(mode, vxlan=bridge is Bridge.VXLAN, **more)


def answer(mode: FwdMode, bridge: Bridge, question: Packet, **more: Any) -> Packet | None:
    """Return the answer to a request; nothing may go to another port."""
    sent = send(of(mode, bridge, **more), bridge, question)
    assert len(sent) <= 1
    if not sent:
        return None
    port, packet = sent[0]
    assert port == PORT_IN_PORT
    return packet


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("wanted", [BOB, FAR])
@pytest.mark.parametrize("guard", [False, True])
def test_a_bridged_pod_learns_the_others_own_addresses(
    bridge: Bridge, wanted: Endpoint, *, guard: bool
) -> None:
    got = answer(BRIDGED, bridge, arp(ANN, ip_of(wanted)), guard=guard)
    assert got == arp(ANN, ip_of(wanted)) | {
        "arp_op": 2,
        "eth_src": wanted.mac,
        "eth_dst": ANN.mac,
        "arp_sha": wanted.mac,
        "arp_spa": wanted.ip,
        "arp_tha": ANN.mac,
        "arp_tpa": ANN.ip,
    }


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("wanted", [BOB.ip, FAR.ip, EVE.ip, GATEWAY])
@pytest.mark.parametrize("guard", [False, True])
def test_a_routed_pod_learns_the_routers_address(
    bridge: Bridge, wanted: IPv4Address, *, guard: bool
) -> None:
    got = answer(ROUTED, bridge, arp(ANN, wanted), guard=guard)
    assert got is not None
    assert (got["arp_op"], got["arp_sha"], got["arp_spa"]) == (2, ROUTER_MAC, wanted)
    assert (got["arp_tha"], got["arp_tpa"], got["eth_dst"]) == (ANN.mac, ANN.ip, ANN.mac)


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("wanted", [v6(2), v6(3), v6(4), GATEWAY6])
def test_a_routed_pod_learns_it_for_ipv6_too(bridge: Bridge, wanted: IPv6Address) -> None:
    got = answer(ROUTED, bridge, solicit(ANN, wanted))
    assert got is not None
    assert got["icmpv6_type"] == oxm.ND_ADVERT
    assert (got["nd_tll"], got["nd_options_type"]) == (ROUTER_MAC, TARGET_LINK_LAYER)
    assert (got["eth_src"], got["eth_dst"]) == (ROUTER_MAC, ANN.mac)
    assert (got["ipv6_src"], got["ipv6_dst"], got["nd_target"]) == (wanted, ANN.ip6, wanted)
    assert got["nd_reserved"] == SOLICITED_OVERRIDE


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("mode", FwdMode)
@pytest.mark.parametrize("probe", [{"arp_spa": NOBODY4, "arp_tpa": BOB.ip}, {"arp_tpa": ANN.ip}])
def test_probes_and_announcements_are_not_answered(
    mode: FwdMode, bridge: Bridge, probe: dict[str, Any]
) -> None:
    assert not send(of(mode, bridge), bridge, arp(ANN, UNKNOWN, **probe))


@pytest.mark.parametrize("bridge", Bridge)
def test_nor_are_probes_for_duplicates_of_ipv6_addresses(bridge: Bridge) -> None:
    assert answer(ROUTED, bridge, solicit(ANN, v6(2), ipv6_src=NOBODY6)) is None


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("mode", FwdMode)
def test_an_unknown_address_is_left_to_the_agent(mode: FwdMode, bridge: Bridge) -> None:
    sent = send(of(mode, bridge), bridge, arp(ANN, UNKNOWN))
    assert [port for port, _ in sent] == [PORT_CONTROLLER]


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("mode", FwdMode)
@pytest.mark.parametrize("lie", [{"arp_spa": BOB.ip}, {"arp_sha": BOB.mac}, {"eth_src": BOB.mac}])
def test_a_spoofed_request_is_not_answered_by_the_switch(
    mode: FwdMode, bridge: Bridge, lie: dict[str, Any]
) -> None:
    sent = send(of(mode, bridge, guard=True), bridge, arp(ANN, ip_of(FAR), **lie))
    assert [port for port, _ in sent] == [PORT_CONTROLLER]


@pytest.mark.parametrize("mode", FwdMode)
def test_who_is_outside_hears_of_the_pods_of_this_host_alone(mode: FwdMode) -> None:
    def asked(wanted: IPv4Address) -> list[tuple[int, Packet]]:
        outside = replace(ANN, ofport=UPLINK.ofport, mac="52:54:00:00:00:99", ip=address(200))
        question = arp(outside, wanted, vlan_vid=1)
        return send(of(mode, Bridge.VLAN), Bridge.VLAN, question)

    [(port, got)] = asked(ip_of(BOB))
    assert (port, got["vlan_vid"]) == (PORT_IN_PORT, 1)
    assert got["arp_sha"] == (BOB.mac if mode is BRIDGED else UPLINK.mac)
    assert [port for port, _ in asked(ip_of(FAR))] == [PORT_CONTROLLER]


@pytest.mark.parametrize("bridge", Bridge)
def test_where_arp_is_flooded_it_is_not_answered(bridge: Bridge) -> None:
    sent = send(of(BRIDGED, bridge, arp_mode=ArpMode.FLOOD), bridge, arp(ANN, ip_of(BOB)))
    assert sent
    assert all(packet["arp_op"] == 1 for _, packet in sent)
    assert not {port for port, _ in sent} & {PORT_IN_PORT, PORT_CONTROLLER}


def test_another_tenants_address_is_unknown() -> None:
    before = of(ROUTED, Bridge.VXLAN)
    foreign = replace(before.networks[EVE.network], vrf=2)
    apart = replace(before, networks={**before.networks, foreign.id: foreign})
    sent = send(apart, Bridge.VXLAN, arp(ANN, ip_of(EVE)))
    assert [port for port, _ in sent] == [PORT_CONTROLLER]


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("wanted", [v6(2), v6(3), v6(4), GATEWAY6])
def test_without_the_nd_extension_the_agent_gets_the_answer_to_complete(
    bridge: Bridge, wanted: IPv6Address
) -> None:
    made = answer(ROUTED, bridge, solicit(ANN, wanted))
    assert made is not None
    site = replace(of(ROUTED, bridge), nd_extension=False)
    ((port, begun),) = send(site, bridge, solicit(ANN, wanted))
    assert port == PORT_CONTROLLER
    left = {name: begun[name] for name in begun if name not in EXTENSION}
    assert left == {name: made[name] for name in made if name not in EXTENSION}
    assert begun["icmpv6_type"] == oxm.ND_SOLICIT
    assert made["nd_tll"] == begun["eth_src"], "the agent knows the MAC address by the sender"
    probe = solicit(ANN, wanted, ipv6_src=NOBODY6)
    assert send(site, bridge, probe) == [], "probes for duplicates stay unanswered"


EXTENSION = {"nd_options_type", "nd_reserved", "nd_tll", "icmpv6_type"}


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("mode", FwdMode)
def test_no_flow_needs_the_extension_then(mode: FwdMode, bridge: Bridge) -> None:
    with_it = {flow.key: flow for flow in flows_of(of(mode, bridge), bridge)}
    without = flows_of(replace(of(mode, bridge), nd_extension=False), bridge)
    assert len(without) == len(with_it)
    assert all(EXTENSION.isdisjoint(flow.instructions.names) for flow in without)
    others = [flow for flow in with_it.values() if EXTENSION.isdisjoint(flow.instructions.names)]
    assert set(others) <= set(without), "no other flow changes"
