"""What Kubernetes' policies and services say, over all hosts."""

import json
from typing import Any

import pytest

from netmaster.plan.show.kubernetes_rules import merged


def rule(words: str, **more: Any) -> dict[str, Any]:
    return {
        "policies": ["NetworkPolicy shop/web"],
        "direction": "ingress",
        "tier": "network",
        "order": 0,
        "action": "allow",
        "rule": words,
        "pods": ["shop/a"],
        "podCount": 1,
        "packets": 1,
        **more,
    }


NOTHING = rule("nothing else", action="deny")
WEB = {"service": "shop/web", "addresses": ["10.96.0.1"], "ports": ["TCP 80"]}


def said(*rules: object, services: object = (), **more: object) -> bytes:
    whole = {"rules": rules, "services": services, "complete": True, "missing": {}, **more}
    return json.dumps(whole).encode()


def test_pods_and_packets_of_a_rule_are_added_up_over_hosts() -> None:
    far = rule("TCP 80", pods=["shop/b"], podCount=30, packets=5)
    found = merged({"h1": said(rule("TCP 80"), NOTHING), "h2": said(far)}, {"h3": "away"})
    first, last = found["items"]
    assert first == rule("TCP 80", pods=["shop/a", "shop/b"], podCount=31, packets=6)
    assert last["rule"] == "nothing else"
    assert found["unreachable"] == {"h3": "away"}


def test_rules_are_in_the_order_in_which_they_are_asked() -> None:
    admin = {"tier": "admin", "policies": ["AdminNetworkPolicy z"]}
    shuffled = (
        rule("out", direction="egress"),
        rule("base", tier="baseline"),
        NOTHING,
        # a policy keeps the order of its rules
        rule("z"),
        rule("a"),
        rule("second", order=1, **admin),
        rule("first", order=0, **admin),
    )
    found = merged({"h1": said(*shuffled)}, {})
    order = ["first", "second", "z", "a", "nothing else", "base", "out"]
    assert [one["rule"] for one in found["items"]] == order


def test_equal_rules_of_a_policy_stay_two_on_all_hosts() -> None:
    twice = said(rule("TCP 80"), rule("TCP 80"))
    assert [one["packets"] for one in merged({"h1": twice, "h2": twice}, {})["items"]] == [2, 2]


def test_a_host_with_an_older_policy_has_a_rule_of_its_own() -> None:
    found = merged({"h1": said(rule("TCP 80")), "h2": said(rule("TCP 81"))}, {})
    assert [one["rule"] for one in found["items"]] == ["TCP 80", "TCP 81"]


def test_services_are_told_once_for_pods_that_they_lead_to_alike() -> None:
    near, far = ({**WEB, "pods": [pod], "podCount": 1} for pod in ("shop/b", "shop/a"))
    other = {**far, "ports": ["TCP 80", "TCP 443"]}
    found = merged({"h1": said(services=[near]), "h2": said(services=[far, other])}, {})
    assert [(one["ports"], one["pods"]) for one in found["services"]] == [
        (["TCP 80"], ["shop/a", "shop/b"]),
        (["TCP 80", "TCP 443"], ["shop/a"]),
    ]


def test_what_is_left_out_is_told() -> None:
    assert merged({"h1": said(rule("a"))}, {})["complete"]
    assert not merged({"h1": said(rule("a"), complete=False)}, {})["complete"]
    found = merged({"h1": said(rule("a"), rule("b"))}, {}, most=1)
    assert (len(found["items"]), found["complete"]) == (1, False)


@pytest.mark.parametrize(
    "answer",
    [b"", b"null", b'{"rules":{}}', said(rule("a", tier="other")), said(rule("a", packets=-1))],
)
def test_an_answer_that_cannot_be_read_makes_the_host_silent(answer: bytes) -> None:
    found = merged({"h1": answer, "h2": said(rule("a"))}, {})
    assert found["unreachable"]["h1"].startswith("host h1: not an answer about Kubernetes' rules")
    assert [one["rule"] for one in found["items"]] == ["a"]


def test_a_bridge_without_counters_is_told_and_the_other_counted() -> None:
    found = merged({"h1": said(rule("a"), missing={"vlan": "gone"})}, {})
    assert found["unreachable"] == {"h1": "vlan: gone"}
    assert len(found["items"]) == 1
