"""Rules of Kubernetes' policies in words."""

from typing import Any

import pytest

from netplugin.world.kubernetes.policy_objects import AdminRule, Egress, PolicyIngress
from netplugin.world.kubernetes.wording import MAX_WORDS, admin_rule_words, rule_words

WEB = {"matchLabels": {"app": "web"}}
NAMED = {"matchLabels": {"kubernetes.io/metadata.name": "blue"}}
WORDY = {
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "tier", "operator": "NotIn", "values": ["c"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "new", "operator": "Exists"},
    ]
}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({}, "everything from anybody"),
        ({"from": [{"podSelector": {}}]}, "everything from all pods of namespace shop"),
        ({"from": [{"podSelector": WEB}]}, "everything from pods app=web of namespace shop"),
        (
            {"from": [{"podSelector": WEB, "namespaceSelector": NAMED}]},
            "everything from pods app=web of namespace blue",
        ),
        (
            {"from": [{"namespaceSelector": {}}, {"namespaceSelector": WEB}]},
            "everything from all pods of all namespaces, all pods of namespaces app=web",
        ),
        (
            {"from": [{"podSelector": WORDY}]},
            "everything from pods tier in (a,b),tier notin (c),!old,new of namespace shop",
        ),
        (
            {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]},
            "everything from 10.0.0.0/8 except 10.1.0.0/16",
        ),
        (
            {"ports": [{"port": 80}, {"protocol": "UDP", "port": "dns"}, {"protocol": "SCTP"}]},
            "TCP 80, UDP dns, SCTP from anybody",
        ),
        ({"ports": [{"port": 80, "endPort": 90}]}, "TCP 80-90 from anybody"),
    ],
)
def test_a_rule_of_a_network_policy(rule: dict[str, Any], words: str) -> None:
    assert rule_words(PolicyIngress.model_validate(rule), "shop", ingress=True) == words
    out = {("to" if name == "from" else name): value for name, value in rule.items()}
    said = rule_words(Egress.model_validate(out), "shop", ingress=False)
    assert said == words.replace(" from ", " to ", 1)


@pytest.mark.parametrize(
    ("peer", "words"),
    [
        ({"namespaces": NAMED}, "all pods of namespace blue"),
        (
            {"pods": {"namespaceSelector": NAMED, "podSelector": WEB}},
            "pods app=web of namespace blue",
        ),
        ({"nodes": {}}, "all nodes"),
        ({"nodes": WEB}, "nodes app=web"),
        ({"networks": ["10.0.0.0/8", "fd00::/8"]}, "10.0.0.0/8, fd00::/8"),
    ],
)
def test_the_peers_of_an_administrators_rule(peer: dict[str, Any], words: str) -> None:
    rule = AdminRule.model_validate({"action": "Deny", "to": [peer]})
    assert admin_rule_words(rule, ingress=False) == f"everything to {words}"


def test_the_ports_of_an_administrators_rule() -> None:
    ports = [
        {"portNumber": {"port": 80}},
        {"portRange": {"protocol": "UDP", "start": 1, "end": 9}},
        {"namedPort": "dns"},
    ]
    rule = AdminRule.model_validate(
        {"action": "Deny", "from": [{"namespaces": {}}], "ports": ports}
    )
    words = admin_rule_words(rule, ingress=True)
    assert words == "TCP 80, UDP 1-9, port dns from all pods of all namespaces"


def test_a_text_without_end_is_cut() -> None:
    blocks = [{"ipBlock": {"cidr": f"10.0.{number}.0/24"}} for number in range(200)]
    words = rule_words(PolicyIngress.model_validate({"from": blocks}), "shop", ingress=True)
    assert len(words) == MAX_WORDS
    assert words.endswith("...")
