"""What holds for every World and every packet, in each of the four modes; no switch is needed."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.openflow.actions import PORT_CONTROLLER
from ofnet.tables import TableId
from ofnet.trace.evaluator import PacketFields, Tables, tables_of
from ofnet.world import Bridge, FwdMode, LocalEndpoint, World
from tests.model.random_worlds import HOSTS, NETWORKS, packets, worlds
from tests.model.switch import evaluate

MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]
LINK_LOCAL = IPv6Network("fe80::/10")
VRF_OF = {network.vni: network.vrf for network in NETWORKS}


@pytest.mark.parametrize(("kind", "fwd_mode"), MODES)
def test_every_world(kind: Bridge, fwd_mode: FwdMode) -> None:
    @given(worlds(fwd_mode), st.lists(packets(), min_size=15, max_size=15))
    @settings(
        max_examples=25,
        # the same ones each time: a failure must be about the change under test
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def holds(world: World, sent: list[PacketFields]) -> None:
        flows, unruled = tables(kind, world), tables(kind, replace(world, rules={}))
        guarded = tables(kind, replace(world, guard=True))
        for packet in sent:
            only_rules_leave_a_choice(flows, packet)
            if is_neighbours(packet) or is_of_unknown_source(packet, world, outside(kind, world)):
                rules_do_not_matter(flows, unruled, packet)
            nothing_is_sent_twice(flows, packet)
            if (kind, fwd_mode) != (Bridge.VXLAN, FwdMode.ROUTING):
                # there, a packet for a pod that moved is sent on to its new host
                nothing_goes_round(flows, packet, outside(kind, world))
            pods_send_in_their_own_name(guarded, packet, world)
            if kind is Bridge.VXLAN:
                tenants_do_not_meet(flows, packet, world)

    holds()


def only_rules_leave_a_choice(flows: Tables, packet: PacketFields) -> None:
    for choice in evaluate(flows, packet).ambiguous:
        assert choice[0].table == TableId.POLICY, list(map(str, choice))


def rules_do_not_matter(flows: Tables, unruled: Tables, packet: PacketFields) -> None:
    """Neighbour discovery and unknown sources pass, whatever the rules."""
    assert evaluate(flows, packet).sent == evaluate(unruled, packet).sent


def nothing_is_sent_twice(flows: Tables, packet: PacketFields) -> None:
    out = [leaving.port for leaving in evaluate(flows, packet).sent]
    assert len(out) == len(set(out))


def nothing_goes_round(flows: Tables, packet: PacketFields, beyond: set[int]) -> None:
    """Check that what comes from other hosts goes to none of them."""
    if packet.fields["in_port"] in beyond and not is_neighbours(packet):
        assert not beyond & {leaving.port for leaving in evaluate(flows, packet).sent}


def pods_send_in_their_own_name(guarded: Tables, packet: PacketFields, world: World) -> None:
    pod = sender(world, packet)
    out = {leaving.port for leaving in evaluate(guarded, packet).sent}
    if pod is not None and out - {pod.ofport, PORT_CONTROLLER}:
        assert packet.get("eth_src") == pod.mac
        assert source(packet) in own_addresses(pod, packet)


def tenants_do_not_meet(flows: Tables, packet: PacketFields, world: World) -> None:
    pod = sender(world, packet)
    if pod is None:
        return
    own = world.networks[pod.network].vrf
    vrfs = {other.ofport: world.networks[other.network].vrf for other in world.local.values()}
    for leaving in evaluate(flows, packet).sent:
        if leaving.port in HOSTS.values():
            assert VRF_OF[leaving.packet.fields["tunnel_id"]] == own  # type: ignore[index] # a VNI
        assert vrfs.get(leaving.port, own) == own


def tables(kind: Bridge, world: World) -> Tables:
    desired = Desired(kind)
    desired.update(world, EVERYTHING)
    assert not desired.faults
    return tables_of(desired.flows.values())


def outside(kind: Bridge, world: World) -> set[int]:
    """Return the ports behind which there are other hosts."""
    if kind is Bridge.VLAN:
        return {uplink.ofport for uplink in world.uplinks}
    return set(HOSTS.values())


def sender(world: World, packet: PacketFields) -> LocalEndpoint | None:
    """Return the pod behind the port that a packet comes from."""
    behind = (pod for pod in world.local.values() if pod.ofport == packet.fields["in_port"])
    return next(behind, None)


def is_neighbours(packet: PacketFields) -> bool:
    """Return whether a packet is neighbour discovery."""
    kinds = {oxm.ND_SOLICIT, oxm.ND_ADVERT}
    return packet.get("eth_type") == oxm.ETH_ARP or packet.get("icmpv6_type") in kinds


def is_of_unknown_source(packet: PacketFields, world: World, beyond: set[int]) -> bool:
    """Return whether a packet comes from an unknown source beyond this host."""
    known = {address for pod in world.remote.values() for address in (pod.ip, pod.ip6)}
    return packet.fields["in_port"] in beyond and source(packet) not in known


def source(packet: PacketFields) -> object:
    """Return the source address of a packet."""
    return next(
        packet.get(name) for name in ("ipv4_src", "ipv6_src", "arp_spa") if packet.get(name)
    )


def own_addresses(pod: LocalEndpoint, packet: PacketFields) -> set[object]:
    """Return the addresses a pod may send such a packet from."""
    said = source(packet)
    if not is_neighbours(packet):
        return {pod.ip, pod.ip6}
    if isinstance(said, IPv6Address) and said in LINK_LOCAL:
        return {said}
    return {pod.ip, pod.ip6, IPv4Address(0), IPv6Address(0)}
