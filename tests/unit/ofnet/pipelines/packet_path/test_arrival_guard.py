"""Packets from other hosts with spoofed sources are dropped."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

import pytest

from core.ids import EndpointKey, HostLabel
from ofnet.world import ArpMode, Bridge, FwdMode, World
from tests.unit.ofnet.pipelines.scene import (
    BOB,
    FAR,
    GATEWAY6,
    PEER_MAC,
    TUNNEL,
    UPLINK,
    advert,
    arp,
    arrival,
    ip6,
    solicit,
    v6,
    world,
)
from tests.unit.ofnet.walk import Packet, send
from tests.unit.ofnet.worlds import address, ip_of, network, remote, vtep

THIRD, THIRD_TUNNEL = HostLabel("third"), 3
NEAR = replace(remote(5, host=THIRD), ip6=v6(5))
"""A pod of Bob's network on a third host."""

STRANGER, STRANGER6 = address(77), v6(77)
"""An address of Bob's network that no endpoint has."""

OUTSIDE, OUTSIDE6 = IPv4Address("192.0.2.1"), IPv6Address("2001:db8:ffff::1")
FORGED_MAC = "02:02:0a:01:00:4d"

both_modes = pytest.mark.parametrize("mode", FwdMode)


def guarded(
    bridge: Bridge, mode: FwdMode, arp_mode: ArpMode = ArpMode.FLOOD, *, guard: bool = True
) -> World:
    """Return the World of a host that knows pods on two others."""
    whole = world(mode, guard=guard, vxlan=bridge is Bridge.VXLAN, arp_mode=arp_mode)
    remotes = {**whole.remote, NEAR.key: NEAR}
    if bridge is Bridge.VLAN:
        return replace(whole, remote=remotes)
    third = vtep(THIRD, ofport=THIRD_TUNNEL)
    return replace(whole, remote=remotes, vteps={**whole.vteps, THIRD: third})


def by_tunnel(packet: Packet, port: int = TUNNEL) -> Packet:
    return {**packet, "in_port": port, "tunnel_id": network().vni}


def by_uplink(packet: Packet) -> Packet:
    return {**packet, "in_port": UPLINK.ofport, "vlan_vid": 1}


def four(source: IPv4Address) -> Packet:
    return arrival(0, BOB, ipv4_src=source)


def six(source: IPv6Address) -> Packet:
    return {**ip6(BOB, BOB), "eth_src": PEER_MAC, "ipv6_src": source}


def told(packet: Packet, **more: object) -> Packet:
    """Return a frame to Bob alone, from another host's pod."""
    return {**packet, "eth_src": more.get("arp_sha", FAR.mac), "eth_dst": BOB.mac, **more}


def reply(source: IPv4Address, mac: str = FAR.mac) -> Packet:
    return told(arp(BOB, ip_of(BOB)), arp_op=2, arp_spa=source, arp_sha=mac)


def claim(target: IPv6Address, source: IPv6Address | None = None) -> Packet:
    return told(advert(BOB, target), ipv6_src=source or FAR.ip6, ipv6_dst=BOB.ip6)


def question(source: IPv6Address) -> Packet:
    return told(solicit(BOB, v6(2)), ipv6_src=source)


@both_modes
@pytest.mark.parametrize(
    "packet",
    [four(STRANGER), four(OUTSIDE), four(ip_of(BOB)), six(STRANGER6), six(OUTSIDE6), six(v6(2))],
    ids=str,
)
def test_a_tunnel_carries_nothing_from_an_address_of_no_pod_there(
    mode: FwdMode, packet: Packet
) -> None:
    open_ = guarded(Bridge.VXLAN, mode, guard=False)
    assert send(open_, Bridge.VXLAN, by_tunnel(packet)), "unguarded it would arrive"
    assert not send(guarded(Bridge.VXLAN, mode), Bridge.VXLAN, by_tunnel(packet))


@both_modes
@pytest.mark.parametrize("packet", [four(ip_of(FAR)), six(v6(4))], ids=["4", "6"])
def test_a_pod_sends_by_its_own_hosts_tunnel_alone(mode: FwdMode, packet: Packet) -> None:
    at = guarded(Bridge.VXLAN, mode)
    assert send(at, Bridge.VXLAN, by_tunnel(packet))
    assert not send(at, Bridge.VXLAN, by_tunnel(packet, THIRD_TUNNEL))


@both_modes
def test_a_pod_that_moved_sends_by_its_new_hosts_tunnel(mode: FwdMode) -> None:
    moved = guarded(Bridge.VXLAN, mode)
    moved = replace(moved, remote={**moved.remote, FAR.key: replace(FAR, host=THIRD)})
    assert send(moved, Bridge.VXLAN, by_tunnel(four(ip_of(FAR)), THIRD_TUNNEL))
    assert not send(moved, Bridge.VXLAN, by_tunnel(four(ip_of(FAR))))


@both_modes
@pytest.mark.parametrize("packet", [four(ip_of(FAR)), four(ip_of(NEAR))], ids=["far", "near"])
def test_hosts_with_one_address_share_a_tunnel(mode: FwdMode, packet: Packet) -> None:
    at = guarded(Bridge.VXLAN, mode)
    shared = {label: replace(one, ofport=TUNNEL) for label, one in at.vteps.items()}
    assert send(replace(at, vteps=shared), Bridge.VXLAN, by_tunnel(packet))


@both_modes
@pytest.mark.parametrize("packet", [four(ip_of(FAR)), four(STRANGER)], ids=["known", "unknown"])
def test_another_tenants_number_is_no_way_in(mode: FwdMode, packet: Packet) -> None:
    unknown = {**by_tunnel(packet), "tunnel_id": 4711}
    assert not send(guarded(Bridge.VXLAN, mode), Bridge.VXLAN, unknown)


@pytest.mark.parametrize(
    ("packet", "arrives"),
    [
        (reply(ip_of(FAR)), True),
        (reply(ip_of(FAR), FORGED_MAC), False),
        (reply(ip_of(NEAR)), False),
        (reply(STRANGER), False),
        (reply(ip_of(BOB)), False),
        (reply(IPv4Address(0)), True),
        (claim(v6(4)), True),
        (claim(v6(4), IPv6Address("fe80::4")), True),
        (claim(IPv6Address("fe80::4"), IPv6Address("fe80::4")), True),
        (claim(v6(5)), False),
        (claim(STRANGER6), False),
        (claim(GATEWAY6), False),
        (claim(v6(5), IPv6Address("fe80::4")), False),
        (question(v6(4)), True),
        (question(IPv6Address("fe80::4")), True),
        (question(IPv6Address("::")), True),
        (question(v6(5)), False),
        (question(STRANGER6), False),
    ],
    ids=str,
)
def test_a_tunnel_carries_claims_of_addresses_from_their_own_host(
    packet: Packet, *, arrives: bool
) -> None:
    at = guarded(Bridge.VXLAN, FwdMode.BRIDGE)
    assert bool(send(at, Bridge.VXLAN, by_tunnel(packet))) is arrives


@both_modes
@pytest.mark.parametrize(
    ("packet", "arrives"),
    [
        (four(ip_of(FAR)), True),
        (four(ip_of(NEAR)), True),
        (four(STRANGER), False),
        (four(ip_of(BOB)), False),
        (four(OUTSIDE), True),
        (four(IPv4Address("10.1.255.254")), True),
        (six(v6(4)), True),
        (six(STRANGER6), False),
        (six(OUTSIDE6), True),
        (six(GATEWAY6), True),
        (claim(v6(4)), True),
        (claim(STRANGER6), False),
        (claim(v6(2), OUTSIDE6), False),
        (claim(GATEWAY6, GATEWAY6), True),
    ],
    ids=str,
)
def test_an_uplink_brings_nothing_in_a_granted_name_that_no_pod_has(
    mode: FwdMode, packet: Packet, *, arrives: bool
) -> None:
    at = guarded(Bridge.VLAN, mode)
    assert bool(send(at, Bridge.VLAN, by_uplink(packet))) is arrives


@pytest.mark.parametrize(
    ("packet", "arrives"),
    [
        (reply(ip_of(FAR)), True),
        (reply(ip_of(FAR), FORGED_MAC), False),
        (reply(STRANGER), False),
        (reply(ip_of(BOB)), False),
        (reply(OUTSIDE), True),
        (reply(IPv4Address("10.1.255.254"), PEER_MAC), True),
    ],
    ids=str,
)
def test_an_uplink_brings_no_claim_of_a_granted_address_but_its_pods(
    packet: Packet, *, arrives: bool
) -> None:
    at = guarded(Bridge.VLAN, FwdMode.BRIDGE)
    assert bool(send(at, Bridge.VLAN, by_uplink(packet))) is arrives


def test_a_machine_on_the_vlan_may_have_an_address_that_is_not_granted() -> None:
    at = guarded(Bridge.VLAN, FwdMode.BRIDGE)
    networks = {nid: replace(one, granted=one.granted[1:]) for nid, one in at.networks.items()}
    assert send(replace(at, networks=networks), Bridge.VLAN, by_uplink(four(STRANGER)))


def test_without_the_source_guard_a_pod_may_use_other_addresses_beyond_its_host() -> None:
    for bridge, arriving in ((Bridge.VXLAN, by_tunnel), (Bridge.VLAN, by_uplink)):
        at = guarded(bridge, FwdMode.BRIDGE, guard=False)
        assert send(at, bridge, arriving(four(STRANGER)))
        assert send(at, bridge, arriving(reply(STRANGER)))


@both_modes
def test_what_a_pod_here_is_takes_precedence_over_a_stale_record(mode: FwdMode) -> None:
    stale = replace(FAR, key=EndpointKey("stale"), ip=BOB.ip, ip6=None)
    at = guarded(Bridge.VXLAN, mode)
    at = replace(at, remote={**at.remote, stale.key: stale})
    assert send(at, Bridge.VXLAN, by_tunnel(four(ip_of(FAR))))
