"""Who may open connections to whom: what is told of groups is what an oracle says of their pods."""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_network
from itertools import product
from typing import Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.ids import TenantName
from netmaster.plan.reachability.reach import (
    Ends,
    ReachEnd,
    Rules,
    Shift,
    TrafficKind,
    shifts,
    traffic_between,
)
from state.policy_rules import OfnetRule, PolicyRule, RuleScope, expand_all, policy_rule
from tests.model.policy_bridge import CLUSTER, GROUPS, PODS, Placed
from tests.model.policy_oracle import ACK, SYN, Outcome, Talk, UserRule, outcome
from tests.property.policies import rules_of_either_policy
from tests.unit.netplugin import records

TENANT = TenantName("default")
NUMBERS = {"": 0, "tcp": 6, "udp": 17, "icmp": 1, "6": 6, "47": 47}
CLIENT = 4000
"""A port of clients, which no rule names."""
UNNAMED_PORT = 81
UNNAMED = "132"
"""A protocol that no rule names."""

_GROUPS = {
    group.key: group
    for name in CLUSTER.policies
    for group in [replace(records.group(name, dscp=0), group_id=GROUPS[name])]
}
_NETWORKS = {
    network.id: network
    for number in (1, 2)
    for network in [
        replace(
            records.network(f"n{number}", v6=True),
            subnet=f"10.{number}.0.0",
            first=f"10.{number}.0.0",
            last=f"10.{number}.255.255",
            ipv6_subnet=f"2001:db8:{number}::",
        )
    ]
}


def rules_of(said: tuple[UserRule, ...]) -> Rules:
    """Return the rules as a cluster has them."""
    expanded = expand_all(
        (
            (group, [_policy_rule(rule) for rule in said if rule.policy in CLUSTER.policies[name]])
            for name, group in ((group.name, group) for group in _GROUPS.values())
        ),
        RuleScope(groups=_GROUPS, networks=_NETWORKS),
    )
    return Rules(expanded)


def _policy_rule(rule: UserRule) -> PolicyRule:
    inward = rule.direction == "in"
    return policy_rule(
        tenant="default",
        policy=rule.policy,
        rule_id=rule.name,
        direction=rule.direction,
        action=rule.action,
        priority=rule.priority,
        protocol=rule.protocol,
        port=rule.port,
        group=rule.group,
        network=rule.network,
        source=rule.address if inward else "",
        destination="" if inward else rule.address,
        audit=rule.audit,
    )


def ends_of(*known: Rules) -> Ends:
    """Return the ends of all pods."""
    ends = Ends(rule for rules in known for rule in rules.by_id.values())
    for placed in PODS:
        ends.add(TENANT, GROUPS[placed.group], (str(placed.pod.four), str(placed.pod.six)))
    return ends


def end_of(placed: Placed, version: Literal[4, 6], known: tuple[Rules, ...]) -> ReachEnd:
    """Return the end that a pod belongs to."""
    text = str(placed.pod.four if version == 4 else placed.pod.six)
    named = {
        text
        for rules in known
        for rule in rules.by_id.values()
        for text in (rule.src_address, rule.dst_address)
    } - {""}
    inside = sorted(block for block in named if ip_address(text) in ip_network(block))
    return ReachEnd(TENANT, GROUPS[placed.group], version, tuple(inside))


def meant(
    said: tuple[UserRule, ...],
    source: Placed,
    destination: Placed,
    version: Literal[4, 6],
    traffic: TrafficKind,
) -> bool | None:
    """Return whether a connection is allowed; None if rules contradict each other."""
    cluster = replace(CLUSTER, rules=said)
    name = {6: "tcp", 17: "udp", 1: "icmp", 0: UNNAMED}.get(traffic.protocol, str(traffic.protocol))
    port = traffic.port or UNNAMED_PORT
    asked = Talk(
        family=version, protocol=name, source_port=CLIENT, destination_port=port, flags=SYN
    )
    answer = replace(asked, source_port=port, destination_port=CLIENT, flags=SYN | ACK)
    outcomes = {
        outcome(cluster, source.pod, destination.pod, asked),
        outcome(cluster, destination.pod, source.pod, answer),
    }
    if Outcome.DENIED in outcomes:
        return False
    return None if Outcome.UNDEFINED in outcomes else True


def connections(*known: Rules) -> Iterator[tuple[Placed, Placed, Literal[4, 6], TrafficKind]]:
    """Yield every connection that rules tell apart."""
    kinds = traffic_between(rule for rules in known for rule in rules.by_id.values())
    versions: tuple[Literal[4, 6], ...] = (4, 6)
    for source, destination, version, traffic in product(PODS, PODS, versions, sorted(kinds)):
        if source is not destination:
            yield source, destination, version, traffic


sets_of_rules = st.lists(rules_of_either_policy, max_size=6).map(
    lambda some: tuple(replace(rule, name=f"r{number}") for number, rule in enumerate(some))
)


@given(sets_of_rules)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_verdicts_are_the_oracles(said: tuple[UserRule, ...]) -> None:
    rules = rules_of(said)
    for source, destination, version, traffic in connections(rules):
        wanted = meant(said, source, destination, version, traffic)
        one, other = (end_of(placed, version, (rules,)) for placed in (source, destination))
        found = rules.verdict(one, other, traffic)
        assert wanted is None or found.allowed == wanted, (source, destination, traffic, found)


@given(sets_of_rules, sets_of_rules)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_what_other_rules_change_is_all_that_changes(
    said: tuple[UserRule, ...], then: tuple[UserRule, ...]
) -> None:
    before, after = rules_of(said), rules_of(then)
    both = (before, after)
    found = set(shifts(before, after, ends_of(*both)))
    told = {(one.source, one.destination, one.traffic): one for one in found}
    assert len(told) == len(found)
    for source, destination, version, traffic in connections(*both):
        one, other = (end_of(placed, version, both) for placed in (source, destination))
        was, will = (rules.verdict(one, other, traffic) for rules in both)
        shift = told.get((one, other, traffic))
        if shift is not None:
            assert shift == Shift(one, other, traffic, was, will)
            assert was.allowed != will.allowed
        elif was.allowed != will.allowed:
            # traffic that these ends' rules do not tell from other traffic is told with it
            assert traffic not in traffic_between(_about(both, one, other))
            assert any(key[:2] == (one, other) for key in told)


def _about(both: tuple[Rules, ...], source: ReachEnd, destination: ReachEnd) -> Iterator[OfnetRule]:
    for rules in both:
        yield from rules.between(source.group, destination.group)
        yield from rules.between(destination.group, source.group)
