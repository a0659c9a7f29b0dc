"""Which rules between groups may contradict each other, match for match."""

from dataclasses import replace

import pytest

from core.ids import GroupName, TenantName
from netplugin.world.contiv_policies.conflicting_rules import ConflictingRules
from state.policy_rules import PolicyRule

INTO = PolicyRule(
    tenant=TenantName("red"),
    policy="doors",
    rule_id="1",
    direction="in",
    action="allow",
    priority=10,
    protocol=17,
    port=53,
    group=GroupName("db"),
)
OUT = replace(INTO, policy="walls", direction="out", action="deny")


def test_rules_of_both_directions_that_do_different_things() -> None:
    rules = ConflictingRules()
    assert rules.replace(None, INTO) == set()
    assert not rules.has(INTO)
    assert rules.replace(None, OUT) == {("red", "doors", "1"), ("red", "walls", "1")}
    assert rules.has(INTO)
    assert rules.has(OUT)
    assert rules.replace(OUT, None) == {("red", "doors", "1")}
    assert not rules.has(INTO)


@pytest.mark.parametrize(
    "other",
    [
        replace(OUT, action="allow"),
        replace(OUT, direction="in"),
        replace(OUT, priority=11),
        replace(OUT, protocol=6),
        replace(OUT, port=54),
        replace(OUT, tenant=TenantName("blue")),
        replace(OUT, group=None),
    ],
    ids=["action", "direction", "priority", "protocol", "port", "tenant", "anybody"],
)
def test_others_share_their_flows(other: PolicyRule) -> None:
    rules = ConflictingRules()
    rules.replace(None, INTO)
    assert rules.replace(None, other) == set()
    assert not rules.has(INTO)


def test_what_is_recorded_is_a_difference_too() -> None:
    rules = ConflictingRules()
    rules.replace(None, INTO)
    rules.replace(None, replace(OUT, action="allow", log=True))
    assert rules.has(INTO)


def test_ports_and_icmp_are_compared_as_flows_match_them() -> None:
    rules = ConflictingRules()
    rules.replace(None, replace(INTO, protocol=1, port=80))
    rules.replace(None, replace(OUT, protocol=58, port=0))
    assert rules.has(replace(INTO, protocol=1))


def test_a_rule_that_changes_leaves_nothing_of_what_it_was() -> None:
    rules = ConflictingRules()
    rules.replace(None, INTO)
    rules.replace(None, OUT)
    rules.replace(OUT, replace(OUT, priority=11))
    assert not rules.has(INTO)
    rules.replace(replace(OUT, priority=11), OUT)
    assert rules.has(INTO)
