"""The oracle against answers worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest

from tests.model.policy_bridge import CLUSTER, DB, DB_ON_N2, WEB
from tests.model.policy_oracle import ACK, SYN, Outcome, Talk, UserRule, outcome

ASK = Talk(source_port=4000, destination_port=80, flags=SYN)
ANSWER = Talk(source_port=80, destination_port=4000, flags=SYN | ACK)
DENY_ALL = UserRule(name="all", direction="in", action="deny", priority=1)
ALLOWED, DENIED, UNDEFINED = Outcome


def rule(**words: Any) -> UserRule:
    return replace(DENY_ALL, **{"name": "this", "action": "allow", "priority": 10, **words})


@pytest.mark.parametrize(
    ("rules", "talk", "to_web", "from_web"),
    [
        ((), ASK, ALLOWED, ALLOWED),
        ((DENY_ALL,), ASK, DENIED, ALLOWED),
        ((rule(action="deny", direction="out"),), ASK, ALLOWED, DENIED),
        ((DENY_ALL, rule(protocol="tcp", port=80)), ASK, ALLOWED, ALLOWED),
        ((DENY_ALL, rule(protocol="udp", port=80)), ASK, DENIED, ALLOWED),
        ((DENY_ALL, rule(protocol="icmp", port=80)), Talk(protocol="icmp"), ALLOWED, ALLOWED),
        ((DENY_ALL, rule(protocol="tcp")), ASK, ALLOWED, ALLOWED),
        ((DENY_ALL, rule(protocol="tcp")), ANSWER, DENIED, ALLOWED),
        ((rule(action="deny", protocol="tcp", port=80),), ANSWER, ALLOWED, DENIED),
        ((DENY_ALL, rule(group="db")), ASK, ALLOWED, ALLOWED),
        ((DENY_ALL, rule(group="cache")), ASK, DENIED, ALLOWED),
        ((DENY_ALL, rule(group="nobodys")), ASK, DENIED, ALLOWED),
        ((DENY_ALL, rule(network="n2")), ASK, DENIED, ALLOWED),
        ((DENY_ALL, rule(network="n1")), replace(ASK, family=6), ALLOWED, ALLOWED),
        ((DENY_ALL, rule(address="10.1.0.2")), replace(ASK, family=6), DENIED, ALLOWED),
        ((DENY_ALL, rule(address="10.1.0.1-2")), ASK, ALLOWED, ALLOWED),
        ((DENY_ALL, rule(priority=1)), ASK, UNDEFINED, ALLOWED),
    ],
)
def test_a_pod_of_db_and_one_of_web(
    rules: tuple[UserRule, ...], talk: Talk, to_web: Outcome, from_web: Outcome
) -> None:
    cluster = replace(CLUSTER, rules=rules)
    assert outcome(cluster, DB.pod, WEB.pod, talk) == to_web
    assert outcome(cluster, WEB.pod, DB.pod, talk) == from_web


def test_a_policy_is_for_the_groups_that_have_it() -> None:
    cluster = replace(CLUSTER, rules=(DENY_ALL,))
    assert outcome(cluster, WEB.pod, DB_ON_N2.pod, ASK) == ALLOWED
