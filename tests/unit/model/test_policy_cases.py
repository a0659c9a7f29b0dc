"""Few cases, and every two choices meet in one of them."""

from itertools import combinations, product

from tests.model.policy_cases import DIMENSIONS, pairwise_cases
from tests.model.policy_oracle import UserRule

CASES = list(pairwise_cases())


def test_every_two_choices_meet() -> None:
    for one, other in combinations(DIMENSIONS, 2):
        met = {(getattr(case, one), getattr(case, other)) for case in CASES}
        assert met == set(product(DIMENSIONS[one], DIMENSIONS[other]))


def test_they_are_few_the_same_each_time_and_have_names() -> None:
    assert len(CASES) < 30
    assert list(pairwise_cases()) == CASES
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_case_makes_a_rule_and_its_contrary() -> None:
    case = next(case for case in CASES if (case.end, case.port) == ("group", "port"))
    rule, rest = case.rules(port=80, group="db", network="n2", address="10.1.0.2")
    assert (rule.group, rule.network, rule.address, rule.port) == ("db", "", "", 80)
    assert (rule.priority > rest.priority) == (case.priority == "above")
    assert {rule.action, rest.action} == {"allow", "deny"}
    assert rest == UserRule(
        name="all", direction=case.direction, action=rest.action, priority=rest.priority
    )
