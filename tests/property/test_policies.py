"""Rules of policies in all four modes: the flows do what an oracle derives from the rules.

First every combination of what a rule can be about, beside one for everything else; then random
sets of rules. What a host sends to another is judged there and here, by the same rules.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ofnet.world import Bridge, FwdMode
from tests.model.policy_bridge import CLUSTER, PODS, Placed, PolicyBridge
from tests.model.policy_oracle import ACK, SYN, Outcome, Talk, UserRule, concerns, outcome
from tests.property.policies import (
    ACTIONS,
    DIRECTIONS,
    OTHER_ENDS,
    PORTS,
    PRIORITIES,
    PROTOCOLS,
    rules_of_either_policy,
)

MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]
in_every_mode = pytest.mark.parametrize(("kind", "fwd_mode"), MODES)

CONTRARY: Mapping[str, Literal["allow", "deny"]] = {"allow": "deny", "deny": "allow"}
ANYTHING = 50
"""The priority of the rule for everything else."""

TALKS = [
    replace(talk, family=family)
    for family in (4, 6)
    for talk in (
        Talk(source_port=4000, destination_port=80, flags=SYN),
        Talk(source_port=80, destination_port=4000, flags=SYN | ACK),
        Talk(source_port=4000, destination_port=80, flags=ACK),
        Talk(source_port=4000, destination_port=81, flags=SYN),
        Talk(protocol="udp", source_port=4000, destination_port=80),
        Talk(protocol="udp", source_port=80, destination_port=4000),
        Talk(protocol="icmp"),
        Talk(protocol="47"),
    )
]


Said = tuple[Placed, Placed, Talk]
"""A packet from one pod to another."""


@cache
def site(kind: Bridge, fwd_mode: FwdMode) -> PolicyBridge:
    return PolicyBridge(kind, fwd_mode)


@cache
def everything_said(fwd_mode: FwdMode) -> tuple[Said, ...]:
    """Return every packet from or to this host that gets to its pod if no rule is against it."""
    at = site(Bridge.VXLAN, fwd_mode)
    ends = [(one, other) for one, other in product(PODS, PODS) if at.meet(one, other)]
    return tuple((*pair, talk) for pair, talk in product(ends, TALKS))


@cache
def about(rule: UserRule, fwd_mode: FwdMode) -> tuple[list[Said], list[Said]]:
    """Return the packets a rule applies to, and the others."""
    concerned: list[Said] = []
    others: list[Said] = []
    for sender, receiver, talk in everything_said(fwd_mode):
        said = concerns(CLUSTER, rule, sender.pod, receiver.pod, talk)
        (concerned if said else others).append((sender, receiver, talk))
    return concerned, others


def some_of(rule: UserRule, fwd_mode: FwdMode, turn: int) -> list[Said]:
    """Return a few packets of either kind, others each turn."""
    plain = replace(rule, action="allow", priority=1)
    concerned, others = about(plain, fwd_mode)
    return [*_some(concerned, turn, 6), *_some(others, turn, 3)]


def _some(of: list[Said], turn: int, count: int) -> list[Said]:
    start = turn * count % len(of) if of else 0
    return [*of[start:], *of[:start]][:count]


def disagreements(
    at: PolicyBridge, rules: tuple[UserRule, ...], packets: Iterable[Said]
) -> Iterator[str]:
    """Yield each packet for which flows and oracle differ."""
    at.hold(rules)
    cluster = replace(CLUSTER, rules=rules)
    for sender, receiver, talk in packets:
        meant = outcome(cluster, sender.pod, receiver.pod, talk)
        if meant is not Outcome.UNDEFINED:
            found = at.outcome(sender, receiver, talk)
            if found != meant:
                yield f"{sender} to {receiver}, {talk}: {found}, not {meant}, by {rules}"


def every_rule() -> Iterator[tuple[UserRule, UserRule]]:
    """Yield every possible rule beside one that does the opposite for all packets."""
    for direction, action, priority, end, protocol, port in product(
        DIRECTIONS, ACTIONS, PRIORITIES, OTHER_ENDS, PROTOCOLS, PORTS
    ):
        rule = UserRule(
            name="this",
            direction=direction,
            action=action,
            priority=priority,
            protocol=protocol,
            port=port,
            audit=False,
            **end,
        )
        yield (
            rule,
            UserRule(name="all", direction=direction, action=CONTRARY[action], priority=ANYTHING),
        )


@in_every_mode
def test_every_rule_means_what_the_oracle_says(kind: Bridge, fwd_mode: FwdMode) -> None:
    at = site(kind, fwd_mode)
    for turn, rules in enumerate(every_rule()):
        assert not list(disagreements(at, rules, some_of(rules[0], fwd_mode, turn)))


@in_every_mode
def test_sets_of_rules_mean_what_the_oracle_says(kind: Bridge, fwd_mode: FwdMode) -> None:
    at = site(kind, fwd_mode)

    @given(st.lists(rules_of_either_policy, min_size=2, max_size=6), st.data())
    @settings(
        max_examples=40,
        # the same ones each time: a failure must be about the change under test
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def holds(some: list[UserRule], data: st.DataObject) -> None:
        rules = tuple(replace(rule, name=f"r{number}") for number, rule in enumerate(some))
        turn = data.draw(st.integers(0, 40))
        packets = [said for rule in rules for said in some_of(rule, fwd_mode, turn)]
        assert not list(disagreements(at, rules, packets))

    holds()


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "deny"},
        {"direction": "out"},
        {"priority": 1},
        {"protocol": "udp"},
        {"port": 81},
        {"group": "cache"},
        {"policy": "p2"},
        {"address": "10.1.0.9"},
        {"address": "2001:db8:1::9"},
        {"audit": True},
    ],
    ids=str,
)
def test_another_rule_than_the_oracles_is_noticed(wrong: dict[str, Any]) -> None:
    right = UserRule(
        name="right",
        direction="in",
        action="allow",
        priority=100,
        protocol="tcp",
        port=80,
        group="db",
    )
    rest = UserRule(name="rest", direction="in", action="deny", priority=50)
    at, mode = site(Bridge.VXLAN, FwdMode.ROUTING), FwdMode.ROUTING
    assert not list(disagreements(at, (right, rest), everything_said(mode)))
    at.hold((replace(right, **wrong), rest))
    believed = replace(CLUSTER, rules=(right, rest))
    found = (
        at.outcome(sender, receiver, talk) != outcome(believed, sender.pod, receiver.pod, talk)
        for sender, receiver, talk in everything_said(mode)
    )
    assert any(found)
