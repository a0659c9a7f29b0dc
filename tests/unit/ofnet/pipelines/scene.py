"""Two pods here, one on another host, an uplink and a tunnel; and the packets they send."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from core.ids import EndpointKey, GroupKey, NetworkId
from ofnet.openflow import oxm
from ofnet.world import (
    ArpMode,
    FwdMode,
    LocalEndpoint,
    PolicyClass,
    RemoteEndpoint,
    Rule,
    Uplink,
    World,
)
from tests.unit.ofnet.walk import Packet
from tests.unit.ofnet.worlds import HOST_PORT, NET, PEER, local, network, remote, vtep

OTHER = NetworkId("other.default")
UPLINK = Uplink(ofport=9, mac="52:54:00:00:00:01")
PEER_MAC = "52:54:00:00:00:02"
TUNNEL = 2
GATEWAY6 = IPv6Address("2001:db8::ffff")
Endpoint = LocalEndpoint | RemoteEndpoint


def v6(number: int) -> IPv6Address:
    return IPv6Address("2001:db8::") + number


ANN = replace(local(1), ip6=v6(1), group_id=7)
BOB = replace(local(2), ip6=v6(2), group_id=8)
EVE = replace(local(3), key=EndpointKey(f"{OTHER}-pod3"), network=OTHER, ip6=v6(3))
FAR = replace(remote(4, v6=True), group_id=8)
"""Ann and Bob are on one network here, Eve on another one of their tenant; Far is Bob's group's."""


def world(
    mode: FwdMode,
    *,
    rules: tuple[Rule, ...] = (),
    guard: bool = False,
    arp_mode: ArpMode = ArpMode.PROXY,
    vxlan: bool = True,
    classes: Mapping[GroupKey, PolicyClass] | None = None,
) -> World:
    """Return the World of one of the bridges."""
    here, there = network(NET, number=1), network(OTHER, number=2)
    networks = {
        each.id: replace(
            each, gateway6=GATEWAY6, vni=each.vni if vxlan else 0, granted=granted(number)
        )
        for number, each in enumerate((here, there), start=1)
    }
    return World(
        fwd_mode=mode,
        arp_mode=arp_mode,
        networks=networks,
        local={pod.key: pod for pod in (ANN, BOB, EVE)},
        remote={FAR.key: FAR},
        vteps={PEER: vtep(ofport=TUNNEL)} if vxlan else {},
        host_port=HOST_PORT if vxlan else None,
        uplinks=() if vxlan else (UPLINK,),
        peer_macs={} if vxlan else {PEER: PEER_MAC},
        rules={rule.id: rule for rule in rules},
        policy_classes=classes or {},
        guard=guard,
        complete=True,
    )


def granted(number: int) -> tuple[IPv4Network | IPv6Network, ...]:
    return IPv4Network(f"10.{number}.0.0/16"), IPv6Network(f"2001:db8:{number - 1:x}::/64")


def deny_all(group: int) -> Rule:
    return Rule(id="deny", priority=1, allow=False, dst_group=group)


def ip(sender: LocalEndpoint, to: Endpoint, **more: object) -> Packet:
    """Return an IPv4 packet from one pod to another, to its MAC address."""
    return {**_frame(sender, to), "eth_type": oxm.ETH_IPV4, **_ends4(sender, to), **more}


def ip6(sender: LocalEndpoint, to: Endpoint, **more: object) -> Packet:
    """Return an IPv6 packet from one pod to another, to its MAC address."""
    ends = {"ipv6_src": sender.ip6, "ipv6_dst": to.ip6}
    return {**_frame(sender, to), "eth_type": oxm.ETH_IPV6, **ends, **more}


def arrival(in_port: int, to: Endpoint, **more: object) -> Packet:
    """Return an IPv4 packet from an arbitrary source that comes in at a port."""
    return {
        "in_port": in_port,
        "eth_src": PEER_MAC,
        "eth_dst": to.mac,
        "eth_type": oxm.ETH_IPV4,
        "ipv4_src": IPv4Address("192.0.2.1"),
        "ipv4_dst": to.ip,
        **more,
    }


def arp(sender: LocalEndpoint, wanted: IPv4Address, **more: object) -> Packet:
    """Return the question who has an address."""
    return {
        "in_port": sender.ofport,
        "eth_src": sender.mac,
        "eth_dst": "ff:ff:ff:ff:ff:ff",
        "eth_type": oxm.ETH_ARP,
        "arp_op": 1,
        "arp_sha": sender.mac,
        "arp_spa": sender.ip,
        "arp_tha": "00:00:00:00:00:00",
        "arp_tpa": wanted,
        **more,
    }


def solicit(sender: LocalEndpoint, wanted: IPv6Address, **more: object) -> Packet:
    """Return the question who has an IPv6 address."""
    return {
        "in_port": sender.ofport,
        "eth_src": sender.mac,
        "eth_dst": "33:33:ff:00:00:01",
        "eth_type": oxm.ETH_IPV6,
        "ip_proto": oxm.PROTO_ICMP6,
        "icmpv6_type": oxm.ND_SOLICIT,
        "ipv6_src": sender.ip6,
        "ipv6_dst": IPv6Address("ff02::1:ff00:1"),
        "nd_target": wanted,
        **more,
    }


def advert(sender: LocalEndpoint, target: IPv6Address, **more: object) -> Packet:
    """Return the claim that an IPv6 address is the sender's."""
    return solicit(sender, target, icmpv6_type=oxm.ND_ADVERT, **more)


def _frame(sender: LocalEndpoint, to: Endpoint) -> Packet:
    return {"in_port": sender.ofport, "eth_src": sender.mac, "eth_dst": to.mac}


def _ends4(sender: LocalEndpoint, to: Endpoint) -> Packet:
    return {"ipv4_src": sender.ip, "ipv4_dst": to.ip}
