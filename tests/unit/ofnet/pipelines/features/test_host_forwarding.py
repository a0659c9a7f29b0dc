"""What hosts forward to pods is judged by its source, and its connection is entered for answers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple

import pytest

from ofnet.openflow import oxm
from ofnet.openflow.actions import Conntrack, Nat
from ofnet.openflow.fields import FROM_HOST
from ofnet.pipelines.packet_path import stages
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.tables import TableId
from ofnet.trace.evaluator import PacketFields, Value, tables_of
from ofnet.trace.packets import answer
from ofnet.trace.tracking import TrackingSwitch
from ofnet.world import (
    FORWARDED_SOURCE6,
    Bridge,
    FwdMode,
    LocalEndpoint,
    PolicyEntry,
    PolicyMatch,
    PolicyStage,
    PolicySubject,
    Rule,
    Verdict,
    World,
    tunnel_source6,
)
from tests.unit.ofnet.pipelines import scene
from tests.unit.ofnet.pipelines.scene import ANN, EVE, FAR
from tests.unit.ofnet.walk import flows_of
from tests.unit.ofnet.worlds import HOST_PORT

Address = IPv4Address | IPv6Address
Ends = Mapping[int, Address]
Block = IPv4Network | IPv6Network

HOST, HOST6 = IPv4Address("192.168.77.1"), IPv6Address("fd77::1")
TUNNEL6 = tunnel_source6(HOST)
PORT = replace(
    HOST_PORT,
    sources=frozenset({HOST, HOST6, TUNNEL6}),
    others=frozenset({IPv4Address("192.0.2.77"), HOST_PORT.address}),
)
VTEP = next(iter(scene.world(FwdMode.ROUTING).vteps.values()))
CLIENT: Ends = {4: IPv4Address("198.51.100.7"), 6: IPv6Address("2001:db8:ff::7")}
OTHER: Ends = {4: IPv4Address("203.0.113.8"), 6: IPv6Address("2001:db8:fe::8")}
FOR_PODS: Ends = {4: PORT.address, 6: FORWARDED_SOURCE6}
OWN: Ends = {4: HOST, 6: HOST6}
MINE: Mapping[int, Address | None] = {4: ANN.ip, 6: ANN.ip6}
THEIRS: Mapping[int, Address | None] = {4: FAR.ip, 6: FAR.ip6}
TCP_PORT = 8080

in_all_modes = pytest.mark.parametrize(
    ("mode", "bridge"), [(mode, bridge) for mode in FwdMode for bridge in Bridge], ids=str
)
in_both_families = pytest.mark.parametrize("version", [4, 6])
of_vxlan = pytest.mark.parametrize("mode", list(FwdMode))


class Policies(NamedTuple):
    """Policies of one kind that let in nobody, but an address of each family."""

    rules: tuple[Rule, ...] = ()
    subjects: tuple[PolicySubject, ...] = ()
    entries: tuple[PolicyEntry, ...] = ()


def contiv(*allowed: Address) -> Policies:
    deny = Rule(id="deny", priority=1, allow=False, dst_group=ANN.group_id)
    return Policies(
        rules=(
            deny,
            *(
                replace(deny, id=str(one), priority=9, allow=True, source=_only(one))
                for one in allowed
            ),
        )
    )


def kubernetes(*allowed: Address) -> Policies:
    mine = [PolicySubject(1, one) for one in stages.addresses(ANN)]
    entries = []
    for subject in mine:
        to = PolicyMatch(PolicyStage.INGRESS, 10, vrf=1, destination=subject.address)
        entries.append(PolicyEntry(to, Verdict.DENY))
        entries += [
            PolicyEntry(to._replace(priority=20, source=one), Verdict.ALLOW)
            for one in allowed
            if one.version == subject.address.version
        ]
    return Policies(subjects=tuple(mine), entries=tuple(entries))


Kind = Callable[..., Policies]
of_both_kinds = pytest.mark.parametrize("kind", [contiv, kubernetes])


def _only(address: Address) -> Block:
    return IPv4Network(address) if address.version == 4 else IPv6Network(address)


def switch(mode: FwdMode, bridge: Bridge, policies: Policies) -> TrackingSwitch:
    """Return a bridge of a host that has routes to all its pods but Eve."""
    made = TrackingSwitch(lambda _count: 0)
    set_policies(made, mode, bridge, policies)
    return made


def set_policies(made: TrackingSwitch, mode: FwdMode, bridge: Bridge, policies: Policies) -> None:
    made.tables = tables_of(flows_of(world(mode, bridge, policies), bridge))


def world(mode: FwdMode, bridge: Bridge, policies: Policies) -> World:
    made = scene.world(mode, rules=policies.rules, guard=True, vxlan=bridge is Bridge.VXLAN)
    ann = replace(ANN, routed=frozenset(stages.addresses(ANN)))
    return replace(
        made,
        host_port=PORT,
        local={pod.key: pod for pod in (ann, EVE)},
        policy_subjects={str(one.address): one for one in policies.subjects},
        policy_entries={one.match.name: one for one in policies.entries},
    )


def request(to: Address | None, source: Address, **more: Value) -> PacketFields:
    """Return the first packet of a connection that the host sends by its port."""
    assert to is not None
    link: dict[str, Value] = {"in_port": PORT.ofport, "eth_src": PORT.mac, "eth_dst": ROUTER_MAC}
    way = f"ipv{to.version}"
    kind = oxm.ETH_IPV4 if to.version == 4 else oxm.ETH_IPV6
    ends: dict[str, Value] = {"eth_type": kind, f"{way}_src": source, f"{way}_dst": to}
    tcp: dict[str, Value] = {
        "ip_proto": oxm.PROTO_TCP,
        "tcp_src": 40000,
        "tcp_dst": TCP_PORT,
        "tcp_flags": 2,
    }
    return PacketFields({**link, **ends, **tcp, **more})


def arrives(made: TrackingSwitch, packet: PacketFields, pod: LocalEndpoint = ANN) -> bool:
    """Return whether a packet reaches a pod, as the pod's switch has to deliver it."""
    sent = made.receive(packet)
    for one in sent:
        assert (one.port, one.packet.get("eth_dst"), one.packet.tags) == (pod.ofport, pod.mac, ())
        for name in ("ipv4_src", "ipv6_src", "ipv4_dst", "ipv6_dst", "tcp_dst"):
            assert one.packet.get(name) == packet.get(name), "nothing is translated"
    return bool(sent)


def answered(made: TrackingSwitch, packet: PacketFields) -> list[int]:
    """Return the ports by which the pod's answer to a packet leaves."""
    back = answer(packet, ANN.ofport)
    back = back.put("eth_src", ANN.mac).put("eth_dst", ROUTER_MAC)
    # what leaves for the host under the private address begins a connection of the pod's own
    own = {ANN.ip, ANN.ip6}
    return [one.port for one in made.receive(back) if own & set(one.packet.fields.values())]


@in_all_modes
@in_both_families
@of_both_kinds
def test_who_is_not_allowed_does_not_reach_a_pod(
    mode: FwdMode, bridge: Bridge, version: int, kind: Kind
) -> None:
    made = switch(mode, bridge, kind(CLIENT[version]))
    refused = request(MINE[version], OTHER[version])
    assert not arrives(made, refused)
    assert PORT.ofport not in answered(made, refused), "nor is anything of the pod an answer"
    assert not arrives(made, request(MINE[version], FOR_PODS[version])), "nor do other pods"
    assert arrives(made, request(MINE[version], OWN[version])), "the host itself does"
    allowed = request(MINE[version], CLIENT[version])
    assert arrives(made, allowed)
    assert answered(made, allowed) == [PORT.ofport]
    assert arrives(made, allowed.put("tcp_flags", 16)), "and what follows"


@in_all_modes
@in_both_families
def test_without_policies_the_outside_reaches_a_pod(
    mode: FwdMode, bridge: Bridge, version: int
) -> None:
    made = switch(mode, bridge, Policies())
    for source in (OTHER[version], FOR_PODS[version]):
        sent = request(MINE[version], source)
        assert arrives(made, sent)
        assert answered(made, sent) == [PORT.ofport]
    assert made.receive(request(EVE.ip, OTHER[4])) == (), "the host has no route to her"


@in_all_modes
def test_kubernetes_judges_new_connections_and_contiv_each_packet(
    mode: FwdMode, bridge: Bridge
) -> None:
    for kind, goes_on in ((kubernetes, True), (contiv, False)):
        made = switch(mode, bridge, kind(CLIENT[4]))
        running = request(ANN.ip, CLIENT[4])
        assert arrives(made, running)
        assert answered(made, running) == [PORT.ofport]
        set_policies(made, mode, bridge, kind())
        assert arrives(made, running.put("tcp_flags", 16)) is goes_on
        assert not arrives(made, running.put("tcp_src", 40001))


@of_vxlan
@in_both_families
def test_pods_of_other_hosts_get_it_under_this_hosts_address(mode: FwdMode, version: int) -> None:
    """Answers come back to the client; two of them that look the same there are told apart."""
    made = switch(mode, Bridge.VXLAN, Policies())
    here: Address = HOST if version == 4 else TUNNEL6
    way = "ipv4" if version == 4 else "ipv6"
    for source in (OTHER[version], CLIENT[version], here, FOR_PODS[version]):
        sent = request(THEIRS[version], source)
        for _ in range(2):
            ((port, packet),) = [(one.port, one.packet) for one in made.receive(sent)]
            assert (port, packet.get(f"{way}_src")) == (scene.TUNNEL, here)
            back = answer(packet, scene.TUNNEL).put("eth_dst", ROUTER_MAC)
            ((port, packet),) = [(one.port, one.packet) for one in made.receive(back)]
            assert (port, packet.get("eth_dst"), packet.tags) == (PORT.ofport, PORT.mac, ())
            assert packet.get(f"{way}_dst") == source
            assert packet.get("tcp_dst") == 40000
            sent = sent.put("tcp_flags", 16)


@of_vxlan
@in_both_families
def test_what_has_this_hosts_address_is_not_given_it_where_that_ends_the_switch(
    mode: FwdMode, version: int
) -> None:
    made = replace(world(mode, Bridge.VXLAN, Policies()), unchanged_nat=False)
    here: Address = HOST if version == 4 else TUNNEL6
    own = {"metadata": FROM_HOST.put(1), **stages.from_address(here)}
    entering = {
        flow: one.nat
        for flow in flows_of(made, Bridge.VXLAN)
        for one in flow.instructions.actions
        if isinstance(one, Conntrack) and one.commit and flow.table == TableId.INGRESS_GROUP
    }
    unchanged = [flow for flow in entering if own.items() <= dict(flow.match.fields).items()]
    translated = [flow for flow, nat in entering.items() if nat == Nat("src", here)]
    assert [entering[flow] for flow in unchanged] == [None]
    assert translated
    assert all(one.priority < unchanged[0].priority for one in translated)


@of_vxlan
@in_both_families
@of_both_kinds
def test_another_host_is_judged_by_its_address(mode: FwdMode, version: int, kind: Kind) -> None:
    there: Address = VTEP.source if version == 4 else tunnel_source6(VTEP.source)
    network = world(mode, Bridge.VXLAN, Policies()).networks[ANN.network]
    link: dict[str, Value] = {"in_port": VTEP.ofport, "tunnel_id": network.vni}
    link |= {"eth_dst": ROUTER_MAC if mode is FwdMode.ROUTING else ANN.mac}
    sent = request(MINE[version], there, **link)
    denies, allows = switch(mode, Bridge.VXLAN, kind()), switch(mode, Bridge.VXLAN, kind(there))
    assert not arrives(denies, sent)
    assert scene.TUNNEL not in answered(denies, sent)
    assert arrives(allows, sent)
    assert answered(allows, sent) == [scene.TUNNEL]
    assert arrives(allows, sent.put("tcp_flags", 16))
