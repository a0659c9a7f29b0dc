"""What crosses from host to host is judged at both ends: the sender's may know too little."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from core.ids import EndpointKey
from ofnet.openflow.actions import PORT_NORMAL
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.world import Bridge, FwdMode, LocalEndpoint, RemoteEndpoint, Rule, World
from tests.unit.ofnet.pipelines.scene import (
    ANN,
    BOB,
    PEER_MAC,
    TUNNEL,
    UPLINK,
    arp,
    arrival,
    deny_all,
    ip,
    ip6,
    world,
)
from tests.unit.ofnet.walk import Packet, send
from tests.unit.ofnet.worlds import PEER, ip_of

MODES: Final = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]
in_every_mode = pytest.mark.parametrize(("bridge", "mode"), MODES)
from_ann = pytest.mark.parametrize("packet", [ip(ANN, BOB), ip6(ANN, BOB)], ids=["4", "6"])


def elsewhere(pod: LocalEndpoint, **more: Any) -> RemoteEndpoint:
    """Return a pod as other hosts know it."""
    there: dict[str, Any] = {"key": pod.key, "network": pod.network, "host": PEER, "mac": pod.mac}
    return RemoteEndpoint(
        **(there | {"ip": pod.ip, "ip6": pod.ip6, "group_id": pod.group_id} | more)
    )


def host(
    bridge: Bridge,
    mode: FwdMode,
    pod: LocalEndpoint,
    *known: RemoteEndpoint,
    rules: tuple[Rule, ...] = (),
) -> World:
    """Return the World of a host with one pod, that knows some others elsewhere."""
    whole = world(mode, rules=rules, vxlan=bridge is Bridge.VXLAN)
    return replace(whole, local={pod.key: pod}, remote={one.key: one for one in known})


def crossing(at: World, bridge: Bridge, packet: Packet) -> list[Packet]:
    """Send a packet from a host; return what arrives at the other one's end."""
    leaving = send(at, bridge, {**packet, "eth_dst": _next_hop(at, packet)})
    if bridge is Bridge.VXLAN:
        return [{**sent, "in_port": TUNNEL} for port, sent in leaving if port == TUNNEL]
    out = {UPLINK.ofport, PORT_NORMAL}
    return [
        {"vlan_vid": 1, **sent, "in_port": UPLINK.ofport} for port, sent in leaving if port in out
    ]


def _next_hop(at: World, packet: Packet) -> str:
    return ROUTER_MAC if at.fwd_mode is FwdMode.ROUTING else packet["eth_dst"]


STALE: Mapping[str, Any] = {"key": EndpointKey("gone"), "group_id": 0}
"""How the sender's host knows the address of a new pod: as that of one without a group."""


@in_every_mode
@from_ann
def test_a_new_pod_is_safe_from_hosts_that_know_another_by_its_address(
    bridge: Bridge, mode: FwdMode, packet: Packet
) -> None:
    before = host(bridge, mode, ANN, elsewhere(BOB, **STALE), rules=(deny_all(8),))
    there = partial(host, bridge, mode, BOB, elsewhere(ANN))
    (arrived,) = crossing(before, bridge, packet)
    assert send(there(), bridge, arrived), "it would get through"
    assert not send(there(rules=(deny_all(8),)), bridge, arrived)


@in_every_mode
@from_ann
def test_a_new_pod_is_safe_from_hosts_that_do_not_know_it(
    bridge: Bridge, mode: FwdMode, packet: Packet
) -> None:
    crossed = crossing(host(bridge, mode, ANN, rules=(deny_all(8),)), bridge, packet)
    assert len(crossed) == (mode is FwdMode.BRIDGE), "a router does not know the way"
    there = host(bridge, mode, BOB, elsewhere(ANN), rules=(deny_all(8),))
    assert not [arrived for arrived in crossed if send(there, bridge, arrived)]


@in_every_mode
@pytest.mark.parametrize("allowed", [True, False])
def test_the_senders_group_counts(bridge: Bridge, mode: FwdMode, *, allowed: bool) -> None:
    allow = Rule(id="allow", priority=2, allow=True, src_group=ANN.group_id, dst_group=8)
    rules = (deny_all(8), allow)
    ann = ANN if allowed else replace(ANN, group_id=9)
    there = host(bridge, mode, BOB, elsewhere(ann), rules=rules)
    for packet in (ip(ANN, BOB), ip6(ANN, BOB)):
        (arrived,) = crossing(host(bridge, mode, ANN, elsewhere(BOB)), bridge, packet)
        assert bool(send(there, bridge, arrived)) is allowed


@in_every_mode
@from_ann
def test_policy_for_a_pod_unknown_to_the_receiver_applies_at_its_own_host(
    bridge: Bridge, mode: FwdMode, packet: Packet
) -> None:
    (arrived,) = crossing(host(bridge, mode, ANN, elsewhere(BOB)), bridge, packet)
    assert send(host(bridge, mode, BOB, rules=(deny_all(8),)), bridge, arrived)


@pytest.mark.parametrize("mode", FwdMode)
@pytest.mark.parametrize("tag", [{}, {"vlan_vid": 1}], ids=str)
def test_policy_does_not_apply_to_sources_outside_the_cluster(mode: FwdMode, tag: Packet) -> None:
    there = host(Bridge.VLAN, mode, BOB, elsewhere(ANN), rules=(deny_all(8),))
    assert send(there, Bridge.VLAN, arrival(UPLINK.ofport, BOB, **tag))


def test_what_is_no_ip_is_no_rules_business() -> None:
    there = host(Bridge.VLAN, FwdMode.BRIDGE, BOB, elsewhere(ANN), rules=(deny_all(8),))
    reply = arp(ANN, ip_of(BOB), in_port=UPLINK.ofport, vlan_vid=1, arp_op=2, eth_src=PEER_MAC)
    assert send(there, Bridge.VLAN, reply)


def test_a_pods_own_packet_is_not_taken_for_another_hosts() -> None:
    there = host(Bridge.VXLAN, FwdMode.BRIDGE, BOB, elsewhere(ANN))
    forged = ip(BOB, ANN, ipv4_src=ANN.ip)
    allow = Rule(id="allow", priority=2, allow=True, src_group=ANN.group_id)
    deny = Rule(id="deny", priority=1, allow=False)
    assert not send(replace(there, rules={"1": allow, "2": deny}), Bridge.VXLAN, forged)
