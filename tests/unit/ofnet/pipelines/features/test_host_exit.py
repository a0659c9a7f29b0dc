"""The way out of routed pods: to the host under private addresses, and back, in both families."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from ofnet.openflow import oxm
from ofnet.openflow.fields import FRAGMENT_ANY
from ofnet.world import (
    FORWARDED_SOURCE6,
    PRIVATE6,
    Bridge,
    FwdMode,
    LocalEndpoint,
    World,
    tunnel_source6,
)
from tests.unit.ofnet.pipelines.scene import ANN, BOB, EVE, OTHER, world
from tests.unit.ofnet.walk import Packet, flows_of, met, send, tracked
from tests.unit.ofnet.worlds import HOST_PORT, network

HOST, HOST6 = IPv4Address("192.168.77.1"), IPv6Address("fd77::1")
OUTSIDE, OUTSIDE6 = IPv4Address("203.0.113.7"), IPv6Address("2001:db8:113::7")
TUNNEL6 = tunnel_source6(HOST)
PORT = replace(HOST_PORT, sources=frozenset({HOST, HOST6, TUNNEL6}))
PORT4 = replace(HOST_PORT, sources=frozenset({HOST, HOST6}))
VXLAN = Bridge.VXLAN
Address = IPv4Address | IPv6Address


def routed(**more: Any) -> World:
    return replace(world(FwdMode.ROUTING, guard=True), host_port=PORT, **more)


def private(pod: LocalEndpoint, version: int) -> Address:
    address = pod.nat_ip if version == 4 else pod.nat_ip6
    assert address is not None
    return address


def own(pod: LocalEndpoint, version: int) -> Address:
    address = pod.ip if version == 4 else pod.ip6
    assert address is not None
    return address


def packet(in_port: int, source: Address, to: Address, **more: object) -> Packet:
    version = source.version
    return {
        "in_port": in_port,
        "eth_src": "02:02:ac:13:ff:fe" if in_port == PORT.ofport else ANN.mac,
        "eth_dst": "00:00:11:11:11:11",
        "eth_type": oxm.ETH_IPV4 if version == 4 else oxm.ETH_IPV6,
        f"ipv{version}_src": source,
        f"ipv{version}_dst": to,
        "ip_proto": oxm.PROTO_TCP,
        "tcp_dst": 80,
        "tcp_src": 4000,
        **more,
    }


@pytest.mark.parametrize("to", [HOST, OUTSIDE, HOST6, OUTSIDE6], ids=str)
def test_what_is_for_no_pod_leaves_under_a_private_address(to: Address) -> None:
    version = to.version
    ((port, left),) = send(routed(), VXLAN, packet(ANN.ofport, own(ANN, version), to))
    assert (port, left["eth_dst"]) == (PORT.ofport, PORT.mac)
    assert left[f"ipv{version}_src"] == private(ANN, version)
    assert left[f"ipv{version}_dst"] == to


@pytest.mark.parametrize("sender", [HOST, OUTSIDE, HOST6, OUTSIDE6], ids=str)
def test_answers_come_back_to_the_pods_own_address(sender: Address) -> None:
    version = sender.version
    ((port, got),) = send(routed(), VXLAN, packet(PORT.ofport, sender, private(ANN, version)))
    assert (port, got["eth_dst"]) == (ANN.ofport, ANN.mac)
    assert got[f"ipv{version}_dst"] == own(ANN, version)


def test_tenants_with_the_same_addresses_are_told_apart() -> None:
    twin = replace(EVE, ip=ANN.ip, ip6=ANN.ip6)
    pods = {pod.key: pod for pod in (ANN, twin)}
    networks = {**routed().networks, OTHER: network(OTHER, vrf=2, number=2)}
    both = routed(local=pods, networks=networks)
    for pod in (ANN, twin):
        sent = packet(pod.ofport, own(pod, 6), OUTSIDE6, eth_src=pod.mac)
        ((_, left),) = send(both, VXLAN, sent)
        assert left["ipv6_src"] == private(pod, 6)
        ((port, _),) = send(both, VXLAN, packet(PORT.ofport, OUTSIDE6, private(pod, 6)))
        assert port == pod.ofport


@pytest.mark.parametrize(
    "to",
    [
        *(private(BOB, 4), PORT.address, private(BOB, 6), TUNNEL6, FORWARDED_SOURCE6),
        *(IPv6Address("fe80::1"), IPv6Address("ff02::1"), IPv6Address("ff0e::1")),
    ],
    ids=str,
)
def test_what_is_no_pods_to_reach(to: Address) -> None:
    asked = routed(guard=False)
    assert send(asked, VXLAN, packet(ANN.ofport, own(ANN, to.version), to)) == []


@pytest.mark.parametrize("version", [4, 6])
def test_fragments_are_translated_as_whole_packets(version: int) -> None:
    to = OUTSIDE if version == 4 else OUTSIDE6
    flows = flows_of(routed(), VXLAN)
    part = {"ip_frag": FRAGMENT_ANY.value}
    sent = packet(ANN.ofport, own(ANN, version), to, **part)
    assert private(ANN, version) in {each.nat.address for each in tracked(flows, sent) if each.nat}
    back = packet(PORT.ofport, to, private(ANN, version), **part)
    assert own(ANN, version) in {each.nat.address for each in tracked(flows, back) if each.nat}


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_errors_about_what_pods_sent_go_to_the_agent(kind: int) -> None:
    error = {"ip_proto": oxm.PROTO_ICMP6, "icmpv6_type": kind}
    asked = packet(PORT.ofport, OUTSIDE6, private(ANN, 6), **error)
    assert "CONTROLLER:65535" in map(str, met(routed(), VXLAN, asked))


def test_the_host_redirects_no_pod() -> None:
    redirect = {"ip_proto": oxm.PROTO_ICMP6, "icmpv6_type": 137}
    sender = IPv6Address("fe80::2")
    assert send(routed(), VXLAN, packet(PORT.ofport, sender, private(ANN, 6), **redirect)) == []


def test_what_a_pod_sent_the_host_does_not_bring_back() -> None:
    asked = packet(PORT.ofport, private(BOB, 6), own(ANN, 6))
    assert send(routed(), VXLAN, asked) == []


def test_without_networks_of_ipv6_nothing_of_it_is_there() -> None:
    """The host may have an address of IPv6 for all that."""
    known = replace(world(FwdMode.ROUTING), host_port=PORT4)
    assert not PORT4.has_ipv6
    shown = [str(flow) for flow in flows_of(known, VXLAN)]
    assert not [one for one in shown if str(PRIVATE6.network_address)[:-2] in one]
    assert send(known, VXLAN, packet(ANN.ofport, own(ANN, 6), OUTSIDE6)) == []
