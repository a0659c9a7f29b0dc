"""Whatever a host forwards, and whatever came before: nothing reaches a pod that policies deny it.

Random Worlds, random sequences of packets from the host, other hosts and pods, a switch that
remembers connections. The policies of one kind deny all that is for a pod.
"""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.pipelines.packet_path import stages
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.tables import mode_of, vrf_in
from ofnet.trace.evaluator import PacketFields, Sent, Value, tables_of
from ofnet.trace.tracking import FlowEnds, TrackingSwitch, ends_of
from ofnet.world import (
    Bridge,
    FwdMode,
    PolicyEntry,
    PolicyMatch,
    PolicyStage,
    PolicySubject,
    Rule,
    Verdict,
    World,
    tunnel_source6,
)
from tests.model.random_worlds import HOST_PORT, NETWORKS, PODS, address, address6, mac, worlds

Address = IPv4Address | IPv6Address

MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]
HERE = IPv4Address("8.8.8.8")
OWN: frozenset[Address] = frozenset({HERE, IPv6Address("2001:db8:8::8"), tunnel_source6(HERE)})
PORT = replace(HOST_PORT, sources=OWN, others=frozenset({IPv4Address("9.9.9.9")}))
OUTSIDE = (IPv4Address("198.51.100.7"), IPv6Address("2001:db8:ff::7"))
POD_ADDRESSES = [
    make(net, number) for make in (address, address6) for net in (1, 2) for number in (1, 2, 3)
]
DENIES = Rule(id="deny", priority=100, allow=False)


@st.composite
def denying(draw: st.DrawFn, bridge: Bridge, mode: FwdMode) -> World:
    """Return a World where all that is for a pod is denied, by rules or by policies."""
    made: World = draw(worlds(mode))
    local = {
        key: replace(pod, routed=frozenset(stages.addresses(pod)))
        for key, pod in made.local.items()
    }
    made = replace(made, host_port=PORT, local=local, rules={}, policy_classes={}, guard=True)
    if draw(st.booleans()):
        return replace(made, rules={DENIES.id: DENIES})
    subjects = [
        PolicySubject(vrf_in(mode_of(bridge, mode), network.vrf), one)
        for pod in local.values()
        for network in NETWORKS
        if network.id == pod.network
        for one in stages.addresses(pod)
    ]
    denies = [
        PolicyEntry(
            PolicyMatch(PolicyStage.INGRESS, 10, vrf=one.vrf, destination=one.address), Verdict.DENY
        )
        for one in subjects
    ]
    return replace(
        made,
        policy_subjects={f"{one.vrf} {one.address}": one for one in subjects},
        policy_entries={one.match.name: one for one in denies},
    )


@st.composite
def sent(draw: st.DrawFn, made: World) -> PacketFields:
    """Return a packet of the host, of another host by its tunnel, or of a pod."""
    others: list[tuple[int, Address]] = []
    for vtep in made.vteps.values():
        others += [(vtep.ofport, vtep.source), (vtep.ofport, tunnel_source6(vtep.source))]
    foreign = [*PORT.own, *OUTSIDE, PORT.address, *(ip for _, ip in others), *POD_ADDRESSES]
    source, to = draw(st.sampled_from(foreign)), draw(st.sampled_from(foreign))
    pods = [100 + number for number in PODS]
    in_port = draw(st.sampled_from([PORT.ofport] * 4 + [port for port, _ in others] + pods[:3]))
    number = in_port - 100 if in_port in pods else 0
    if source.version != to.version:
        to = next(one for one in POD_ADDRESSES if one.version == source.version)
    way = f"ipv{source.version}"
    fields: dict[str, Value] = {
        "in_port": in_port,
        "eth_src": mac(number) if number else PORT.mac,
        "eth_dst": draw(st.sampled_from([ROUTER_MAC, *(mac(one) for one in (1, 2, 3))])),
        "eth_type": oxm.ETH_IPV4 if source.version == 4 else oxm.ETH_IPV6,
        f"{way}_src": source,
        f"{way}_dst": to,
        "ip_proto": oxm.PROTO_TCP,
        "tcp_src": draw(st.sampled_from([80, 40000])),
        "tcp_dst": draw(st.sampled_from([80, 40000])),
        "tcp_flags": draw(st.sampled_from([2, 16, 18])),
    }
    if in_port in {port for port, _ in others}:
        fields["tunnel_id"] = draw(st.sampled_from([network.vni for network in NETWORKS]))
    return PacketFields(fields)


@pytest.mark.parametrize(("bridge", "mode"), MODES)
def test_what_is_denied_reaches_no_pod(bridge: Bridge, mode: FwdMode) -> None:
    @given(st.data())
    @settings(
        max_examples=40,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def holds(data: st.DataObject) -> None:
        made: World = data.draw(denying(bridge, mode))
        desired = Desired(bridge)
        desired.update(made, EVERYTHING)
        switch = TrackingSwitch(lambda _count: 0)
        switch.tables = tables_of(desired.flows.values())
        begun: set[FlowEnds] = set()
        for packet in data.draw(st.lists(sent(made), min_size=20, max_size=20)):
            _passes_what_it_may(switch, packet, made, begun)

    holds()


def _passes_what_it_may(
    switch: TrackingSwitch, packet: PacketFields, made: World, begun: set[FlowEnds]
) -> None:
    """Send a packet; `begun` are the connections that the host itself has begun."""
    ends, in_port = ends_of(packet), packet.get("in_port")
    own = in_port == PORT.ofport and ends.source in PORT.own
    if own:
        begun.add(ends)
    out = switch.receive(packet)
    reached = _reached(made, out, ends.destination)
    if in_port == PORT.ofport and not own:
        assert not reached, f"forwarded: {packet}"
    if in_port in {vtep.ofport for vtep in made.vteps.values()}:
        hosts = {vtep.source for vtep in made.vteps.values()}
        if ends.source in hosts | {tunnel_source6(one) for one in hosts}:
            assert not reached, f"of another host: {packet}"
    if in_port in {pod.ofport for pod in made.local.values()}:
        # what leaves under the private address is the pod's own connection, which rules judge
        back = [one for one in out if one.port == PORT.ofport and ends_of(one.packet) == ends]
        assert not back or ends.turned() in begun, f"no answer: {packet}"


def _reached(made: World, out: Iterable[Sent], to: Address) -> list[Sent]:
    """Return what leaves for the pod that has an address: a bridge may bring it other packets."""
    pods = {pod.ofport for pod in made.local.values() if to in stages.addresses(pod)}
    return [one for one in out if one.port in pods]
