"""Rules of policies: which packets go on, which end, and what is no rule's business."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Any

import pytest

from ofnet.openflow import oxm
from ofnet.openflow.actions import Report
from ofnet.openflow.fields import CT_INVALID, CT_TRACKED, Flags
from ofnet.pipelines.features.contiv_policy import flows
from ofnet.world import Bridge, FwdMode, PolicySubject, Rule, World
from tests.unit.ofnet.pipelines.scene import (
    ANN,
    BOB,
    EVE,
    FAR,
    TUNNEL,
    advert,
    arrival,
    deny_all,
    ip,
    ip6,
    solicit,
    v6,
    world,
)
from tests.unit.ofnet.walk import met, send
from tests.unit.ofnet.worlds import ip_of

VXLAN = Bridge.VXLAN
ANY = World(fwd_mode=FwdMode.ROUTING)


def texts(**more: Any) -> list[str]:
    """Return what a rule's flows match."""
    asked: dict[str, Any] = {"id": "1", "priority": 10, "allow": True}
    return [str(flow.match) for flow in flows(Rule(**(asked | more)), ANY)]


def routed(*rules: Rule) -> World:
    return world(FwdMode.ROUTING, rules=rules)


@pytest.mark.parametrize("packet", [ip(ANN, BOB), ip6(ANN, BOB), ip(ANN, FAR), ip6(ANN, FAR)])
def test_a_denied_packet_ends_in_either_family_and_wherever_it_goes(packet: dict[str, Any]) -> None:
    assert send(routed(), VXLAN, packet)
    assert not send(routed(deny_all(8)), VXLAN, packet)


def test_a_rule_is_about_its_group_alone() -> None:
    assert send(routed(deny_all(8)), VXLAN, ip(BOB, ANN))
    assert send(routed(deny_all(8)), VXLAN, ip(ANN, EVE))


def test_the_greater_priority_wins() -> None:
    allow = Rule(id="allow", priority=2, allow=True, src_group=7, dst_group=8, protocol=6)
    tcp = {"ip_proto": oxm.PROTO_TCP, "tcp_src": 40000, "tcp_dst": 80, "tcp_flags": 2}
    assert send(routed(deny_all(8), allow), VXLAN, ip(ANN, BOB, **tcp))
    assert not send(routed(deny_all(8), allow), VXLAN, ip(EVE, BOB, **tcp))
    assert not send(routed(deny_all(8), allow), VXLAN, ip(ANN, BOB, ip_proto=oxm.PROTO_UDP))


TCP = {"ip_proto": oxm.PROTO_TCP, "tcp_src": 40000, "tcp_dst": 80}
NEW, DATA, UDP = {**TCP, "tcp_flags": 2}, {**TCP, "tcp_flags": 0x10}, {"ip_proto": oxm.PROTO_UDP}
PASSED = [NEW, DATA, UDP]


def reported(of: World, packet: dict[str, Any]) -> int:
    """Return how often a packet is reported on its way."""
    return sum(isinstance(act, Report) for act in met(of, VXLAN, packet))


@pytest.mark.parametrize("packet", PASSED)
def test_all_that_a_rule_with_log_denies_is_reported(packet: dict[str, Any]) -> None:
    logged = routed(replace(deny_all(8), log=True))
    assert not send(logged, VXLAN, ip(ANN, BOB, **packet))
    assert reported(logged, ip(ANN, BOB, **packet)) == 1
    assert reported(routed(deny_all(8)), ip(ANN, BOB, **packet)) == 0


@pytest.mark.parametrize("protocol", [0, oxm.PROTO_TCP, oxm.PROTO_UDP])
@pytest.mark.parametrize("packet", PASSED)
def test_of_what_a_rule_with_log_allows_new_connections_are_reported(
    protocol: int, packet: dict[str, Any]
) -> None:
    rule = Rule(id="allow", priority=5, allow=True, dst_group=8, protocol=protocol, log=True)
    lesser = Rule(id="lesser", priority=4, allow=True, dst_group=8, log=True)
    fits = protocol in {0, packet["ip_proto"]}
    assert send(routed(rule, deny_all(8)), VXLAN, ip(ANN, BOB, **packet)) == (
        send(routed(), VXLAN, ip(ANN, BOB, **packet)) if fits else []
    )
    once = int(packet is not DATA)
    assert reported(routed(rule), ip(ANN, BOB, **packet)) == (once if fits else 0)
    assert reported(routed(rule, lesser), ip(ANN, BOB, **packet)) == once


def test_what_arrives_and_is_allowed_was_reported_where_it_was_sent() -> None:
    rule = Rule(id="allow", priority=5, allow=True, dst_group=8, log=True)
    arrived = arrival(TUNNEL, BOB, ipv4_src=FAR.ip, tunnel_id=10001, **NEW)
    assert send(routed(rule), VXLAN, arrived)
    assert reported(routed(rule), arrived) == 0
    assert reported(routed(replace(rule, allow=False)), arrived) == 1


@pytest.mark.parametrize("packet", [NEW, UDP])
def test_a_rule_under_audit_reports_what_it_would_deny_and_decides_nothing(
    packet: dict[str, Any],
) -> None:
    audited = replace(deny_all(8), priority=9, log=True, audit=True)
    sent = ip(ANN, BOB, **packet)
    assert send(routed(audited), VXLAN, sent) == send(routed(), VXLAN, sent) != []
    assert reported(routed(audited), sent) == 1
    assert reported(routed(audited), ip(ANN, EVE, **packet)) == 0


def test_of_a_connection_that_would_be_denied_the_first_packet_is_reported() -> None:
    for protocol in (0, oxm.PROTO_TCP):
        audited = replace(deny_all(8), protocol=protocol, log=True, audit=True)
        assert send(routed(audited), VXLAN, ip(ANN, BOB, **DATA))
        assert reported(routed(audited), ip(ANN, BOB, **DATA)) == 0


def test_a_lesser_rule_that_allows_is_asked_after_the_audit() -> None:
    audited = replace(deny_all(8), id="audited", priority=9, log=True, audit=True)
    allowing = Rule(id="allow", priority=5, allow=True, dst_group=8, log=True)
    both = routed(audited, allowing, replace(deny_all(8), priority=1))
    assert send(both, VXLAN, ip(ANN, BOB, **NEW)) == send(routed(), VXLAN, ip(ANN, BOB, **NEW))
    assert reported(both, ip(ANN, BOB, **NEW)) == 2, "for the audit, and as allowed"


def test_a_rule_under_audit_opens_nothing_that_another_closes() -> None:
    denying = replace(deny_all(8), id="denying", priority=4)
    for audited in (
        replace(deny_all(8), priority=9, log=True, audit=True),
        Rule(id="allow", priority=9, allow=True, dst_group=8, audit=True),
    ):
        assert not send(routed(audited, denying), VXLAN, ip(ANN, BOB))
        assert send(routed(audited, replace(denying, allow=True)), VXLAN, ip(ANN, BOB))


def test_what_another_rule_decides_first_is_not_reported() -> None:
    audited = replace(deny_all(8), priority=4, log=True, audit=True)
    above = Rule(id="above", priority=9, allow=True, dst_group=8)
    assert reported(routed(audited, above), ip(ANN, BOB)) == 0
    unasked = Rule(id="unasked", priority=9, allow=True, dst_group=8, audit=True)
    assert reported(routed(audited, unasked), ip(ANN, BOB)) == 0, "it would have been allowed"


def test_a_rule_under_audit_that_is_for_answers_is_silent() -> None:
    silent = replace(deny_all(8), audit=True)
    assert send(routed(silent), VXLAN, ip(ANN, BOB))
    assert reported(routed(silent), ip(ANN, BOB)) == 0


def test_policy_for_an_unknown_source_applied_at_its_own_host() -> None:
    assert send(routed(deny_all(8)), VXLAN, arrival(TUNNEL, BOB, tunnel_id=10001))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ["ip", "ipv6"]),
        ({"protocol": 1}, ["icmp", "icmp6"]),
        ({"protocol": 47}, ["ip,nw_proto=47", "ipv6,nw_proto=47"]),
        ({"protocol": 6, "dst_port": 80}, ["tcp,tp_dst=80", "tcp6,tp_dst=80"]),
        ({"protocol": 17, "src_port": 53}, ["udp,tp_src=53", "udp6,tp_src=53"]),
        ({"protocol": 47, "dst_port": 80}, ["ip,nw_proto=47", "ipv6,nw_proto=47"]),
        (
            {"protocol": 6, "tcp_flags": Flags(2, 0x12)},
            ["tcp,tcp_flags=+syn-ack", "tcp6,tcp_flags=+syn-ack"],
        ),
        ({"src_group": 1}, ["metadata=0x10000/0x7fff0000,ip", "metadata=0x10000/0x7fff0000,ipv6"]),
        ({"source": IPv4Network("10.1.0.0/16")}, ["ip,nw_src=10.1.0.0/16"]),
        ({"destination": IPv4Network("10.1.0.9/32")}, ["ip,nw_dst=10.1.0.9"]),
        ({"source": IPv6Network("2001:db8::/64")}, ["ipv6,ipv6_src=2001:db8::/64"]),
        (
            {"destination": IPv6Network("2001:db8::/64"), "protocol": 1},
            ["icmp6,ipv6_dst=2001:db8::/64"],
        ),
    ],
)
def test_what_a_rule_matches(more: dict[str, Any], expected: list[str]) -> None:
    assert [set(text.split(",")) for text in texts(**more)] == [
        set(text.split(",")) for text in expected
    ]


def test_a_rule_between_groups_is_about_both() -> None:
    between = Rule(id="1", priority=1, allow=False, src_group=7, dst_group=8)
    assert not send(routed(between), VXLAN, ip(ANN, BOB))
    assert send(routed(between), VXLAN, ip(EVE, BOB))
    assert send(routed(between), VXLAN, ip(ANN, EVE))


def test_addresses_count_with_their_prefix() -> None:
    near = Rule(id="1", priority=1, allow=False, source=IPv4Network(f"{ANN.ip}/31", strict=False))
    assert not send(routed(near), VXLAN, ip(ANN, BOB))
    outside = IPv4Address(int(ip_of(ANN)) + 2)
    assert send(routed(near), VXLAN, ip(ANN, BOB, ipv4_src=outside))


@pytest.mark.parametrize("bridge", Bridge)
@pytest.mark.parametrize("packet", [solicit(ANN, v6(2)), advert(ANN, v6(1))])
def test_neighbour_discovery_is_no_rules_business(bridge: Bridge, packet: dict[str, Any]) -> None:
    everything = Rule(id="all", priority=100, allow=False)
    of = world(FwdMode.BRIDGE, rules=(everything,), vxlan=bridge is VXLAN)
    assert not send(of, bridge, ip6(ANN, BOB))
    assert send(of, bridge, packet)


@pytest.mark.parametrize("bridge", Bridge)
def test_nor_is_it_that_of_policies_of_kubernetes(bridge: Bridge) -> None:
    """To connection tracking it is invalid, which they drop otherwise."""
    of = world(FwdMode.BRIDGE, vxlan=bridge is VXLAN)
    of = replace(of, policy_subjects={str(v6(2)): PolicySubject(1, v6(2))})
    invalid = {"tracked_as": CT_TRACKED | CT_INVALID}
    assert not send(of, bridge, {**ip6(ANN, BOB), **invalid})
    of_ann = {"ipv6_dst": v6(2), "eth_dst": BOB.mac}
    for packet in (
        {**solicit(ANN, v6(2)), **of_ann},
        {**advert(ANN, v6(1)), **of_ann},
        solicit(BOB, v6(1)),
        advert(BOB, v6(2)),
    ):
        assert send(of, bridge, {**packet, **invalid})
