"""What a pod sends to a management port of the cluster is dropped on its host, in every mode."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_network

import pytest

from core.ids import EndpointKey
from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.world import AccessPort, Bridge, FwdMode, ManagementPort, World
from tests.unit.ofnet.pipelines.scene import ANN, FAR, arrival, ip, ip6, world
from tests.unit.ofnet.walk import Packet, Sent, send
from tests.unit.ofnet.worlds import HOST_PORT, ip_of

HOST = IPv4Address("192.0.2.10")
HOST6 = IPv6Address("2001:db8:ff::10")
STORE = IPv4Network("192.0.2.128/25")
OUTSIDE = IPv4Address("198.51.100.1")
PORTS = (ManagementPort(oxm.PROTO_TCP, 9999), ManagementPort(oxm.PROTO_UDP, 4789))
GATEWAY_MAC = "52:54:00:00:00:09"
PIPELINES = [(bridge, mode) for bridge in Bridge for mode in FwdMode]
in_every_mode = pytest.mark.parametrize(("bridge", "mode"), PIPELINES)
ROUTE = {ip_network("0.0.0.0/0"): GATEWAY_MAC}
"""Sends what is for addresses outside into the physical network, where vlan networks are routed."""


def guarded(bridge: Bridge, mode: FwdMode) -> World:
    """Return a World that knows of a host's addresses and of the network of the store."""
    known = (ip_network(HOST), ip_network(HOST6), STORE)
    plain = world(mode, guard=True, vxlan=bridge is Bridge.VXLAN)
    return replace(
        plain,
        routes=ROUTE if bridge is Bridge.VLAN else {},
        management={str(address): address for address in known},
        management_ports={f"{port.protocol}/{port.port}": port for port in PORTS},
    )


def tcp(to: IPv4Address, port: int, **more: object) -> Packet:
    onward = {"eth_dst": GATEWAY_MAC, "ipv4_dst": to, "ip_proto": oxm.PROTO_TCP}
    return {**ip(ANN, FAR), **onward, "tcp_src": 40000, "tcp_dst": port, **more}


def udp(to: IPv4Address, port: int) -> Packet:
    onward = {"eth_dst": GATEWAY_MAC, "ipv4_dst": to, "ip_proto": oxm.PROTO_UDP}
    return {**ip(ANN, FAR), **onward, "udp_src": 40000, "udp_dst": port}


@in_every_mode
def test_a_management_port_is_out_of_reach(bridge: Bridge, mode: FwdMode) -> None:
    there = guarded(bridge, mode)
    open_there = replace(there, management_ports={})
    for address in (HOST, STORE[7]):
        for packet in (tcp(address, 9999), udp(address, 4789)):
            assert send(open_there, bridge, packet), "without the guard it leaves"
            assert send(there, bridge, packet) == []


@in_every_mode
def test_other_ports_and_addresses_are_reached_as_before(bridge: Bridge, mode: FwdMode) -> None:
    there = guarded(bridge, mode)
    before = replace(there, management={}, management_ports={})
    for packet in (
        tcp(HOST, 80),
        udp(HOST, 9999),
        tcp(HOST, 4789),
        tcp(OUTSIDE, 9999),
        udp(OUTSIDE, 4789),
        {**ip(ANN, FAR), "ip_proto": oxm.PROTO_TCP, "tcp_src": 1, "tcp_dst": 9999},
    ):
        sent = left(send(there, bridge, packet))
        assert sent
        assert sent == left(send(before, bridge, packet))


@in_every_mode
def test_ipv6_is_guarded_too(bridge: Bridge, mode: FwdMode) -> None:
    there = guarded(bridge, mode)
    onward = {"eth_dst": GATEWAY_MAC, "ipv6_dst": HOST6, "ip_proto": oxm.PROTO_TCP}
    packet = {**ip6(ANN, FAR), **onward, "tcp_src": 40000, "tcp_dst": 9999}
    assert send(there, bridge, packet) == []


@pytest.mark.parametrize("mode", list(FwdMode))
def test_the_interface_to_the_host_is_no_way_around(mode: FwdMode) -> None:
    access = AccessPort(ofport=201, mac="02:02:ac:13:00:c9", ip=IPv4Address("172.19.0.201"))
    key = EndpointKey("access")
    there = replace(guarded(Bridge.VXLAN, mode), access={key: access})
    own = {"in_port": access.ofport, "eth_src": access.mac, "ipv4_src": access.ip}
    address = ip_network(HOST_PORT.address)
    there = replace(there, management={**there.management, str(address): address})
    for to in (HOST, HOST_PORT.address):
        assert send(there, Bridge.VXLAN, tcp(to, 9999, **own)) == []
        assert [port for port, _ in send(there, Bridge.VXLAN, tcp(to, 80, **own))] == [
            HOST_PORT.ofport
        ]


@in_every_mode
def test_the_hosts_own_address_on_an_infra_network(bridge: Bridge, mode: FwdMode) -> None:
    """Pods reach it there, at other ports; hosts reach each other, at all."""
    there = guarded(bridge, mode)
    far = replace(FAR, of_host=True)
    near = replace(ANN, of_host=True)
    packet = {**ip(ANN, FAR), "ip_proto": oxm.PROTO_TCP, "tcp_src": 1, "tcp_dst": 9999}
    from_pod = replace(there, remote={far.key: far})
    assert send(from_pod, bridge, packet) == []
    assert send(from_pod, bridge, {**packet, "tcp_dst": 80})
    from_host = replace(from_pod, local={**there.local, near.key: near})
    assert send(from_host, bridge, packet)


@in_every_mode
def test_the_receiving_host_judges_too(bridge: Bridge, mode: FwdMode) -> None:
    """A host that is late lets a pod's packet to another host's interface pass."""
    there = guarded(bridge, mode)
    ann = replace(ANN, of_host=True)
    there = replace(there, local={ANN.key: ann})
    port = 2 if bridge is Bridge.VXLAN else 9
    ways: Packet = {"tunnel_id": 10001} if bridge is Bridge.VXLAN else {"vlan_vid": 1}
    packet = arrival(
        port, ANN, ipv4_src=FAR.ip, ip_proto=oxm.PROTO_TCP, tcp_src=1, tcp_dst=9999, **ways
    )
    assert send(there, bridge, packet) == []
    assert send(there, bridge, {**packet, "tcp_dst": 80})
    far = replace(FAR, of_host=True)
    assert send(replace(there, remote={far.key: far}), bridge, packet), "a host asks a host"


def test_a_pod_may_have_an_address_of_a_host_in_its_own_vrf() -> None:
    far = ip_network(ip_of(FAR))
    there = guarded(Bridge.VXLAN, FwdMode.ROUTING)
    there = replace(there, management={str(far): far})
    packet = {**ip(ANN, FAR), "ip_proto": oxm.PROTO_TCP, "tcp_src": 1, "tcp_dst": 9999}
    assert send(there, Bridge.VXLAN, packet)


@in_every_mode
def test_a_thousand_hosts_cost_a_thousand_flows(bridge: Bridge, mode: FwdMode) -> None:
    there = guarded(bridge, mode)
    desired = Desired(bridge)
    desired.update(there, EVERYTHING)
    before = len(desired.flows)
    hosts = {str(n): IPv4Network(int(IPv4Address("192.0.2.0")) + 1024 + n) for n in range(1000)}
    desired.update(
        replace(there, management={**there.management, **hosts}),
        Changes.of(ObjectKind.MANAGEMENT, hosts),
    )
    assert len(desired.flows) - before == 1000


def left(sent: list[Sent]) -> list[tuple[int, object]]:
    """Return ports and packets, without the metadata, which no one outside sees."""
    return [(port, {k: v for k, v in p.items() if k != "metadata"}) for port, p in sent]
