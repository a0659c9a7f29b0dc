"""The way of a packet through wanted flows, and where it leaves."""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.tables import TableId
from ofnet.trace import packets
from ofnet.trace.evaluator import PacketFields
from ofnet.trace.journey import Journey, follow
from ofnet.trace.packets import Talk
from ofnet.world import (
    Bridge,
    FwdMode,
    Membership,
    PolicyEntry,
    PolicyMatch,
    PolicyStage,
    PolicySubject,
    Provider,
    Rule,
    Service,
    ServicePort,
    Uplink,
    Verdict,
    World,
    tunnel_source6,
)
from tests.unit.ofnet.worlds import HOST_PORT, NET, PEER, address, local, remote, world

WORLD = replace(
    world(here=(local(1), local(2)), there=(remote(3),)),
    host_port=replace(HOST_PORT, sources=frozenset({IPv4Address("192.168.77.1")})),
)
UPLINK = Uplink(ofport=9, mac="52:54:00:00:00:01")
VIP = IPv4Address("10.1.200.1")
WEB = Service(
    key="web:default",
    vrf=1,
    address=VIP,
    ports=(ServicePort(oxm.PROTO_TCP, 80, frozenset({Provider(address(2), 8080, 1)})),),
)


def flows(of: World) -> Iterable[Flow]:
    desired = Desired(Bridge.VXLAN)
    desired.update(of, EVERYTHING)
    return desired.flows.values()


def sent(of: World, to: IPv4Address, protocol: int = oxm.PROTO_TCP, port: int = 80) -> PacketFields:
    packet = packets.from_endpoint(of, local(1), Talk(to=to, protocol=protocol, port=port))
    assert packet is not None
    return packet


def journey(of: World, *before: PacketFields, to: IPv4Address = VIP, port: int = 80) -> Journey:
    return follow(flows(of), of, [*before, sent(of, to, port=port)])


def places(found: Journey) -> list[tuple[str, str]]:
    return [(one.place.kind, one.place.name) for one in found.exits]


@pytest.mark.parametrize(
    ("number", "place"),
    [(2, ("endpoint", local(2).key)), (3, ("tunnel", PEER)), (99, ("host", ""))],
)
def test_places(number: int, place: tuple[str, str]) -> None:
    assert places(journey(WORLD, to=address(number))) == [place]


def test_a_rule_ends_the_way() -> None:
    denied = replace(WORLD, rules={"r": Rule(id="r", priority=1, allow=False, dst_port=80)})
    found = journey(denied, to=address(2))
    assert found.exits == ()
    assert found.path[-1].table == TableId.POLICY


def test_a_service_leads_to_its_provider_and_answers_under_its_own_address() -> None:
    served = replace(WORLD, services={WEB.key: WEB})
    found = journey(served)
    assert places(found) == [("endpoint", local(2).key)]
    (there,) = found.exits
    assert (there.packet.get("ipv4_dst"), there.packet.get("tcp_dst")) == (address(2), 8080)
    answer = packets.answer(there.packet, there.port)
    (back,) = follow(flows(served), served, [sent(served, VIP), answer]).exits
    assert back.place == ("endpoint", local(1).key)
    assert (back.packet.get("ipv4_src"), back.packet.get("tcp_src")) == (VIP, 80)


def test_a_service_without_provider_goes_to_the_agent() -> None:
    empty = replace(WEB, ports=(ServicePort(oxm.PROTO_TCP, 80),))
    assert places(journey(replace(WORLD, services={WEB.key: empty}))) == [("agent", "")]


def test_stretches_begin_anew_after_connection_tracking() -> None:
    found = journey(replace(WORLD, services={WEB.key: WEB}))
    assert len(found.stretches) > 1
    assert all(stretch[0].fresh for stretch in found.stretches)


def test_the_answer_to_the_host_passes_as_the_answer_it_is() -> None:
    """Past a rule that denies all the pod sends."""
    pod = replace(local(1), routed=frozenset({address(1)}))
    rules = {"r": Rule(id="r", priority=1, allow=False)}
    denied = replace(WORLD, local={pod.key: pod}, rules=rules)
    port = denied.host_port
    assert port is not None
    packet = packets.from_host(port, Talk(to=address(1)))
    assert packet is not None
    (there,) = follow(flows(denied), denied, [packet]).exits
    answer = packets.answer(there.packet, there.port)
    assert places(follow(flows(denied), denied, [answer])) == []
    assert places(follow(flows(denied), denied, [packet, answer])) == [("host", "")]


def test_what_the_host_forwards_is_judged() -> None:
    """As from the address outside, which a rule denies and the host's own is not."""
    pod = replace(local(1), routed=frozenset({address(1)}))
    rules = {"r": Rule(id="r", priority=1, allow=False)}
    of = replace(WORLD, local={pod.key: pod})
    port, client, talk = of.host_port, IPv4Address("192.0.2.7"), Talk(to=address(1))
    assert port is not None
    forwarded, own = packets.from_host(port, talk, client), packets.from_host(port, talk)
    assert forwarded is not None
    assert own is not None
    there = [("endpoint", pod.key)]
    assert places(follow(flows(of), of, [forwarded])) == there
    denied = replace(of, rules=rules)
    assert places(follow(flows(denied), denied, [forwarded])) == []
    assert follow(flows(denied), denied, [forwarded]).path[-1].table == TableId.POLICY
    assert places(follow(flows(denied), denied, [own])) == there


def judged(*, port: int) -> World:
    """Have a policy that lets pods of 10.1.0.0/30 reach pod 2 at a port."""
    subject = PolicyMatch(PolicyStage.INGRESS, 100, vrf=1, destination=address(2))
    peer = PolicyMatch(PolicyStage.INGRESS, 100, source=IPv4Network("10.1.0.0/30"))
    ports = PolicyMatch(PolicyStage.INGRESS, 100, version=4, protocol=6, port=port, port_mask=65535)
    entries = [
        *(
            PolicyEntry(match, memberships=(Membership(7, clause, 3),))
            for clause, match in enumerate((subject, peer, ports), start=1)
        ),
        PolicyEntry(PolicyMatch(PolicyStage.INGRESS, 100, conjunction=7), verdict=Verdict.ALLOW),
        PolicyEntry(subject._replace(priority=10), verdict=Verdict.DENY),
    ]
    return replace(
        WORLD,
        policy_entries={one.match.name: one for one in entries},
        policy_subjects={"2": PolicySubject(1, address(2))},
    )


@pytest.mark.parametrize(("port", "arrives"), [(80, True), (81, False)])
def test_conjunctions(port: int, *, arrives: bool) -> None:
    found = journey(judged(port=80), to=address(2), port=port)
    assert places(found) == ([("endpoint", local(2).key)] if arrives else [])
    deciding = [one.flow for one in found.path if one.table == TableId.KUBE_INGRESS]
    assert [one is not None and "conj_id" in one.match.names for one in deciding] == [arrives]


@pytest.mark.parametrize("port", [80, 81])
def test_by_ipv6_a_pod_leaves_by_its_host_where_policies_let_it(port: int) -> None:
    host6, outside = IPv6Address("fd77::1"), IPv6Address("2001:db8:113::7")
    tunnel = tunnel_source6(IPv4Address("192.168.77.1"))
    pod = replace(local(1), ip6=IPv6Address("2001:db8::1"))
    assert pod.ip6 is not None
    match = PolicyMatch(PolicyStage.EGRESS, 10, vrf=1, source=pod.ip6)
    allowed = match._replace(
        priority=20, destination=outside, protocol=6, port=80, port_mask=0xFFFF
    )
    entries = [PolicyEntry(match, Verdict.DENY), PolicyEntry(allowed, Verdict.ALLOW)]
    of = replace(
        WORLD,
        local={pod.key: pod},
        host_port=replace(HOST_PORT, sources=frozenset({host6, tunnel})),
        policy_entries={one.match.name: one for one in entries},
        policy_subjects={"1": PolicySubject(1, pod.ip6)},
    )
    talk = Talk(to=outside, protocol=oxm.PROTO_TCP, port=port)
    packet = packets.from_endpoint(of, pod, talk)
    assert packet is not None
    found = follow(flows(of), of, [packet])
    if port == 80:
        (left,) = found.exits
        assert left.place.kind == "host"
        assert left.packet.fields["ipv6_src"] == pod.nat_ip6
    else:
        assert found.exits == ()


def test_the_switch_s_own_switching_tags_for_the_uplink_and_untags_for_a_pod() -> None:
    """A host that judges what arrives knows its network, and so its tenant, by the tag."""
    bridged = replace(WORLD, fwd_mode=FwdMode.BRIDGE, vteps={}, host_port=None, uplinks=(UPLINK,))
    desired = Desired(Bridge.VLAN)
    desired.update(bridged, EVERYTHING)
    out = packets.from_endpoint(bridged, local(1), Talk(to=address(3), protocol=6, port=80))
    assert out is not None
    (left,) = follow(desired.flows.values(), bridged, [out]).exits
    assert (left.place, left.packet.tags) == (("uplink", PEER), (bridged.networks[NET].vlan,))
    ends = {"ipv4_src": address(3), "ipv4_dst": address(1)}
    macs = {"eth_src": remote(3).mac, "eth_dst": local(1).mac}
    fields = {**left.packet.fields, **ends, **macs, "in_port": UPLINK.ofport}
    back = PacketFields(fields, left.packet.tags)
    (arrived,) = follow(desired.flows.values(), bridged, [back]).exits
    assert (arrived.place, arrived.packet.tags) == (("endpoint", local(1).key), ())
