"""Packets that a trace begins with, and packets as JSON."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from core.errors import Invalid
from ofnet.openflow import oxm
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.trace import packets
from ofnet.trace.evaluator import PacketFields
from ofnet.trace.packets import Talk
from ofnet.world import AccessPort, FwdMode, Network
from tests.unit.ofnet.worlds import HOST_PORT, NET, address, local, mac, network, remote, world

ROUTED = world(here=(local(1),), there=(remote(2),))
BRIDGED = replace(ROUTED, fwd_mode=FwdMode.BRIDGE)
ELSEWHERE = IPv4Address("8.8.8.8")


def test_a_routed_endpoint_sends_to_the_router() -> None:
    packet = packets.from_endpoint(ROUTED, local(1), Talk(to=address(2)))
    assert packet is not None
    assert packet.fields == {
        "in_port": 101,
        "eth_src": mac(1),
        "eth_dst": ROUTER_MAC,
        "eth_type": oxm.ETH_IPV4,
        "ipv4_src": address(1),
        "ipv4_dst": address(2),
        "ip_proto": oxm.PROTO_ICMP,
        "icmp_type": 8,
        "icmp_code": 0,
    }


@pytest.mark.parametrize(("to", "wanted"), [(address(2), mac(2)), (ELSEWHERE, packets.NOBODY)])
def test_a_bridged_endpoint_sends_to_its_neighbour(to: IPv4Address, wanted: str) -> None:
    assert packets.neighbour_mac(BRIDGED, local(1), to) == wanted


def test_without_an_address_of_the_family_nothing_is_sent() -> None:
    assert packets.from_endpoint(ROUTED, local(1), Talk(to=IPv6Address("fd00::1"))) is None


def test_who_has_no_gateway_leaves_by_its_interface_to_the_host() -> None:
    lonely: Network = replace(network(), gateway=None)
    access = AccessPort(ofport=9, mac=mac(9), ip=IPv4Address("172.19.0.9"))
    lone = replace(ROUTED, networks={NET: lonely}, access={local(1).key: access})
    packet = packets.by_access(lone, lone, local(1), Talk(to=ELSEWHERE))
    assert packet is not None
    assert (packet.get("in_port"), packet.get("eth_dst")) == (9, HOST_PORT.mac)
    assert packets.by_access(lone, lone, local(1), Talk(to=address(2))) is None


def test_questions() -> None:
    pod = replace(local(1), ip6=IPv6Address("fd00::1"))
    arp = packets.question(pod, address(2))
    assert arp is not None
    assert (arp.get("arp_tpa"), arp.get("arp_op")) == (address(2), 1)
    nd = packets.question(pod, IPv6Address("fd00::12:3456"))
    assert nd is not None
    assert nd.get("eth_dst") == "33:33:ff:12:34:56"
    assert nd.get("ipv6_dst") == IPv6Address("ff02::1:ff12:3456")


@pytest.mark.parametrize("protocol", [oxm.PROTO_ICMP, oxm.PROTO_TCP, oxm.PROTO_UDP])
def test_an_answer_goes_back(protocol: int) -> None:
    asked = packets.from_endpoint(ROUTED, local(1), Talk(to=address(2), protocol=protocol, port=7))
    assert asked is not None
    answer = packets.answer(asked, 5)
    assert (answer.get("ipv4_src"), answer.get("ipv4_dst")) == (address(2), address(1))
    assert answer.get("in_port") == 5
    assert answer.get("tcp_src") == (7 if protocol == oxm.PROTO_TCP else None)
    assert answer.get("tcp_flags") == (0x12 if protocol == oxm.PROTO_TCP else 0)
    assert answer.get("icmp_type") == (0 if protocol == oxm.PROTO_ICMP else None)


def test_a_packet_comes_back_from_its_json() -> None:
    asked = packets.from_endpoint(ROUTED, local(1), Talk(to=address(2), protocol=6, port=80))
    assert asked is not None
    tagged = PacketFields(asked.fields, (61,))
    assert packets.packet_of(packets.fields_of(tagged)) == tagged


LINK: dict[str, Any] = {"eth_src": mac(1), "eth_dst": mac(2), "eth_type": 0x800}


@pytest.mark.parametrize(
    "shown",
    [
        None,
        [],
        {},
        {**LINK, "metadata": 1},
        {**LINK, "ip_proto": 256},
        {**LINK, "ip_proto": True},
        {**LINK, "ip_proto": "6"},
        {**LINK, "ipv4_src": "fd00::1"},
        {**LINK, "ipv4_src": "10.1.1.1,actions=drop"},
        {**LINK, "eth_src": "nobody"},
        {**LINK, "vlans": [1, 2]},
        {**LINK, "vlans": [4096]},
        {**LINK, "vlans": "1"},
    ],
)
def test_what_is_no_packet_is_refused(shown: object) -> None:
    with pytest.raises(Invalid):
        packets.packet_of(shown)
