"""Flows of services in all four pipelines: where packets go, and under which name they come."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from ofnet.openflow import oxm
from ofnet.openflow.actions import PORT_CONTROLLER, PORT_IN_PORT, PORT_NORMAL
from ofnet.pipelines.service_nat import service_mac
from ofnet.tables import Mode
from ofnet.world import ArpMode, Bridge, FwdMode, LocalEndpoint, World
from tests.unit.ofnet.pipelines.scene import ANN, BOB, EVE, FAR, UPLINK, arp, deny_all, world
from tests.unit.ofnet.serving import HTTP, UDP, VIP, Site, having, service, talk
from tests.unit.ofnet.walk import Packet

TUNNEL = 2
BRIDGE_OF = {
    Mode.VLAN: (Bridge.VLAN, FwdMode.BRIDGE),
    Mode.VXLAN: (Bridge.VXLAN, FwdMode.BRIDGE),
    Mode.VLROUTER: (Bridge.VLAN, FwdMode.ROUTING),
    Mode.VROUTER: (Bridge.VXLAN, FwdMode.ROUTING),
}
MODES = pytest.mark.parametrize("mode", Mode)


def scene(mode: Mode, *providers: IPv4Address, **more: object) -> Site:
    bridge, fwd_mode = BRIDGE_OF[mode]
    before = world(fwd_mode, vxlan=bridge is Bridge.VXLAN, **more)  # type: ignore[arg-type] # rules
    return Site(bridge, having(before, service(*providers)))


def back(mode: Mode, sender: LocalEndpoint, port: int) -> Packet:
    """Return a provider's answer to Ann, on its own host or as it comes from another one."""
    answer = talk(sender, ANN.ip, 40000, source_port=port, eth_dst=ANN.mac)
    if sender is BOB:
        return answer
    if mode in {Mode.VXLAN, Mode.VROUTER}:
        return {**answer, "in_port": TUNNEL, "tunnel_id": 10001}
    return {**answer, "in_port": UPLINK.ofport, "vlan_vid": 1}


@MODES
def test_packets_for_a_service_go_to_the_controller(mode: Mode) -> None:
    site = scene(mode, BOB.ip)
    for port in (HTTP, UDP):
        [(where, _)] = site.send(talk(ANN, VIP, port.port, protocol=port.protocol))
        assert where == PORT_CONTROLLER


@MODES
def test_what_is_for_no_port_ends_in_the_switch(mode: Mode) -> None:
    site = scene(mode, BOB.ip)
    for protocol in (oxm.PROTO_TCP, oxm.PROTO_UDP):
        assert site.send(talk(ANN, VIP, 81, protocol=protocol)) == []


@MODES
def test_without_providers_there_is_nothing(mode: Mode) -> None:
    assert scene(mode).lines(3, 6) == set()
    assert not any("arp_tpa=10.254.0.10" in line for line in scene(mode).lines(10))


@MODES
def test_flows_of_a_client_here_and_there(mode: Mode) -> None:
    """A pair for each port, and the same for the next packets; nothing comes up any more."""
    site = scene(mode, BOB.ip)
    site.asks(ANN)
    [(port, packet)] = site.send(talk(ANN, VIP, 80))
    assert (port, packet["ipv4_dst"], packet["tcp_dst"]) == (out(mode, BOB), BOB.ip, 8080)
    assert packet["ipv4_src"] == ANN.ip
    assert packet["eth_dst"] == BOB.mac
    [(port, packet)] = site.send(back(mode, BOB, 8080))
    assert (port, packet["ipv4_src"], packet["tcp_src"]) == (out(mode, ANN), VIP, 80)
    [(_, packet)] = site.send(talk(ANN, VIP, 5601, protocol=oxm.PROTO_UDP))
    assert (packet["ipv4_dst"], packet["udp_dst"]) == (BOB.ip, 9600)


def out(mode: Mode, pod: LocalEndpoint) -> int:
    return PORT_NORMAL if mode is Mode.VLAN else pod.ofport


@MODES
def test_a_provider_elsewhere(mode: Mode) -> None:
    site = scene(mode, FAR.ip)
    site.asks(ANN)
    [(port, packet)] = site.send(talk(ANN, VIP, 80))
    ways = {Mode.VLAN: PORT_NORMAL, Mode.VLROUTER: UPLINK.ofport}
    assert port == ways.get(mode, TUNNEL)
    assert (packet["ipv4_dst"], packet["tcp_dst"]) == (FAR.ip, 8080)
    answer = back(mode, replace(BOB, ip=FAR.ip, mac=FAR.mac), 8080)
    [(port, packet)] = site.send(answer)
    assert (port, packet["ipv4_src"], packet["tcp_src"]) == (out(mode, ANN), VIP, 80)


@MODES
def test_other_ports_and_other_pods_are_left_alone(mode: Mode) -> None:
    site = scene(mode, BOB.ip)
    site.asks(ANN)
    [(_, packet)] = site.send(back(mode, BOB, 22))
    assert (packet["ipv4_src"], packet["tcp_src"]) == (BOB.ip, 22)
    [(_, packet)] = site.send(talk(BOB, FAR.ip, 40000, source_port=8080, eth_dst=FAR.mac))
    assert packet["ipv4_src"] == BOB.ip


@MODES
def test_policies_see_the_provider(mode: Mode) -> None:
    site = scene(mode, BOB.ip, rules=(deny_all(BOB.group_id),))
    site.asks(ANN)
    assert site.send(talk(ANN, VIP, 80)) == []
    site = scene(mode, BOB.ip, rules=(deny_all(ANN.group_id),))
    site.asks(ANN)
    assert site.send(back(mode, BOB, 8080)) == []


@MODES
def test_a_client_that_is_its_own_provider_hears_from_the_service(mode: Mode) -> None:
    site = scene(mode, ANN.ip)
    site.asks(ANN)
    [(port, asked)] = site.send(talk(ANN, VIP, 80))
    assert port == PORT_IN_PORT
    assert (asked["ipv4_src"], asked["tcp_src"]) == (VIP, 40000)
    assert (asked["ipv4_dst"], asked["tcp_dst"]) == (ANN.ip, 8080)
    assert (asked["eth_src"], asked["eth_dst"]) == (service_mac(VIP), ANN.mac)
    assert "vlan_vid" not in asked
    [(port, answer)] = site.send(talk(ANN, VIP, 40000, source_port=8080))
    assert port == PORT_IN_PORT
    assert (answer["ipv4_src"], answer["tcp_src"]) == (VIP, 80)
    assert (answer["ipv4_dst"], answer["tcp_dst"]) == (ANN.ip, 40000)
    assert (answer["eth_src"], answer["eth_dst"]) == (service_mac(VIP), ANN.mac)
    assert "vlan_vid" not in answer


@MODES
def test_a_provider_on_the_clients_network_is_sent_to_by_its_mac(mode: Mode) -> None:
    site = scene(mode, BOB.ip)
    site.asks(ANN)
    assert any(f"set_field:{BOB.mac}->eth_dst" in line for line in site.lines(3))


@MODES
def test_a_provider_on_another_network_is_not(mode: Mode) -> None:
    site = scene(mode, EVE.ip)
    site.asks(ANN)
    assert site.provider(ANN) == EVE.ip
    assert not any("eth_dst" in line for line in site.lines(3))


@MODES
@pytest.mark.parametrize("arp_mode", ArpMode)
def test_a_service_has_a_mac_address(mode: Mode, arp_mode: ArpMode) -> None:
    site = scene(mode, BOB.ip, arp_mode=arp_mode)
    sent = site.send(arp(ANN, VIP))
    if BRIDGE_OF[mode][1] is FwdMode.BRIDGE and arp_mode is ArpMode.FLOOD:
        assert not any("arp_tpa=10.254.0.10" in line for line in site.lines(10))
        return
    [(port, answer)] = sent
    assert (port, answer["arp_sha"]) == (PORT_IN_PORT, "02:02:0a:fe:00:0a")
    assert (answer["arp_spa"], answer["arp_tpa"]) == (VIP, ANN.ip)


@MODES
def test_a_service_of_all_tenants(mode: Mode) -> None:
    bridge, fwd_mode = BRIDGE_OF[mode]
    before: World = world(fwd_mode, vxlan=bridge is Bridge.VXLAN)
    site = Site(bridge, having(before, service(BOB.ip, vrf=0)))
    [(where, _)] = site.send(talk(ANN, VIP, 80))
    assert where == PORT_CONTROLLER
    [(where, _)] = site.send(arp(ANN, VIP))
    assert where == PORT_IN_PORT
    site.asks(ANN)
    [(where, packet)] = site.send(talk(ANN, VIP, 80))
    assert (where, packet["ipv4_dst"]) == (out(mode, BOB), BOB.ip)
