"""Which rules judge the pods of a host, in words, in the order in which they are asked."""

from ipaddress import ip_address
from typing import Any

from netplugin.world.kubernetes.cluster_policies import CLUSTER_POLICIES
from netplugin.world.kubernetes.judging_rules import NOTHING_ELSE, JudgingRule, judging_rules
from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.policy_objects import (
    ADMIN_POLICIES,
    BASELINE_POLICIES,
    NETWORK_POLICIES,
)
from netplugin.world.kubernetes.rules import PodAddress, PolicyPod, rule_name, whole_rule
from ofnet.world import PolicyStage

EVERYONE: dict[str, Any] = {"namespaces": {}}


def cluster() -> KubePolicies:
    """Return two namespaces: `shop` has web and db here and far elsewhere, `blue` has b here."""
    found = KubePolicies()
    for name in ("shop", "blue"):
        found.put_namespace(name, {"team": name})
    for number, (namespace, name, local) in enumerate(
        (
            ("shop", "web", True),
            ("shop", "db", True),
            ("shop", "far", False),
            ("blue", "b", True),
        ),
        start=1,
    ):
        address = PodAddress(1, ip_address(f"10.1.1.{number}"))
        labels = {"app": name}
        pod = PolicyPod(
            namespace=namespace, name=name, labels=labels, addresses=(address,), local=local
        )
        found.put_pod(pod)
    return found


def network(policies: KubePolicies, name: str, **spec: Any) -> None:
    meta = {"namespace": "shop", "name": name}
    policies.put(NETWORK_POLICIES, {"metadata": meta, "spec": {"podSelector": {}, **spec}})


def told(rules: list[JudgingRule]) -> list[tuple[str, ...]]:
    """Return the policies, verdict, words and pods of rules."""
    return [
        (*one.policies, one.verdict.value, one.words, *sorted(pod.key for pod in one.pods))
        for one in rules
    ]


def test_a_policy_tells_its_rules_and_what_it_isolates() -> None:
    policies = cluster()
    peers = [{"podSelector": {"matchLabels": {"app": "lb"}}, "namespaceSelector": {}}]
    network(policies, "web", ingress=[{"from": peers, "ports": [{"port": 80}]}])
    assert told(judging_rules(policies)) == [
        (
            *("NetworkPolicy shop/web", "allow", "TCP 80 from pods app=lb of all namespaces"),
            *("shop/db", "shop/web"),
        ),
        ("NetworkPolicy shop/web", "deny", NOTHING_ELSE, "shop/db", "shop/web"),
    ]


def test_pods_of_other_hosts_and_pods_that_nobody_wants_are_left_out() -> None:
    policies = cluster()
    network(policies, "all", ingress=[{}])
    (allowed, rest) = judging_rules(policies, lambda pod: pod.name == "web")
    assert [pod.key for pod in allowed.pods] == [pod.key for pod in rest.pods] == ["shop/web"]
    assert judging_rules(policies, lambda pod: pod.name == "far") == []
    assert judging_rules(policies, lambda pod: pod.namespace == "blue") == []


def test_pods_that_the_same_policies_isolate_are_told_once() -> None:
    policies = cluster()
    network(policies, "all")
    network(policies, "web", podSelector={"matchLabels": {"app": "web"}})
    assert told(judging_rules(policies)) == [
        ("NetworkPolicy shop/all", "deny", NOTHING_ELSE, "shop/db"),
        ("NetworkPolicy shop/all", "NetworkPolicy shop/web", "deny", NOTHING_ELSE, "shop/web"),
    ]


def test_a_direction_that_no_policy_isolates_has_no_end() -> None:
    policies = cluster()
    network(policies, "out", egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}])
    stages = [(one.stage, one.words) for one in judging_rules(policies)]
    assert stages == [
        (PolicyStage.EGRESS, "everything to 0.0.0.0/0"),
        (PolicyStage.EGRESS, NOTHING_ELSE),
        (PolicyStage.INGRESS, NOTHING_ELSE),
    ]
    policies = cluster()
    network(policies, "out", egress=[{}], policyTypes=["Egress"])
    assert [one.stage for one in judging_rules(policies)] == [PolicyStage.EGRESS] * 2


def admin(policies: KubePolicies, name: str, priority: int, *actions: str) -> None:
    rules = [{"action": action, "from": [EVERYONE]} for action in actions]
    spec = {"priority": priority, "subject": EVERYONE, "ingress": rules}
    policies.put(ADMIN_POLICIES, {"metadata": {"name": name}, "spec": spec})


def test_administrators_rules_come_first_in_their_order_and_the_baseline_last() -> None:
    policies = cluster()
    admin(policies, "late", 9, "Deny")
    admin(policies, "early", 1, "Pass", "Allow")
    network(policies, "web", podSelector={"matchLabels": {"app": "web"}})
    baseline = {"subject": EVERYONE, "ingress": [{"action": "Deny", "from": [EVERYONE]}]}
    policies.put(BASELINE_POLICIES, {"metadata": {"name": "default"}, "spec": baseline})
    every = ("blue/b", "shop/db", "shop/web")
    words = "everything from all pods of all namespaces"
    assert told(judging_rules(policies)) == [
        ("AdminNetworkPolicy early", "pass", words, *every),
        ("AdminNetworkPolicy early", "allow", words, *every),
        ("AdminNetworkPolicy late", "deny", words, *every),
        ("NetworkPolicy shop/web", "deny", NOTHING_ELSE, "shop/web"),
        # the baseline is not asked for what a NetworkPolicy isolates
        ("BaselineAdminNetworkPolicy default", "deny", words, "blue/b", "shop/db"),
    ]


def test_the_new_kind_tells_the_same_and_a_rule_that_is_not_followed_has_nobody() -> None:
    policies = cluster()
    rules = [
        {"action": "Accept", "from": [{"domainNames": ["example.com"]}]},
        {"action": "Deny", "from": [{"networks": ["10.9.0.0/16", "10.8.0.0/16"]}]},
    ]
    spec = {"tier": "Admin", "priority": 1, "subject": EVERYONE, "ingress": rules}
    policies.put(CLUSTER_POLICIES, {"metadata": {"name": "new"}, "spec": spec})
    assert [(one.verdict.value, one.words) for one in judging_rules(policies)] == [
        ("allow", "everything from nobody"),
        ("deny", "everything from 10.9.0.0/16, 10.8.0.0/16"),
    ]
    assert {one.policies for one in judging_rules(policies)} == {("ClusterNetworkPolicy new",)}


def test_rules_have_the_names_of_their_flows() -> None:
    policies = cluster()
    admin(policies, "early", 1, "Deny")
    network(policies, "web", ingress=[{"ports": [{"port": 80}]}])
    known = {policies.origin(one.match)[0] for one in policies.entries.values()}
    named = {one.name for one in judging_rules(policies) if not one.level}
    assert len(named) == 2
    assert named <= known


def test_the_rule_of_a_named_ports_number_is_found() -> None:
    for policy in ("early", "shop/web"):
        name = rule_name(policy, PolicyStage.INGRESS, 0)
        assert whole_rule(name) == name
        assert whole_rule(f"{name}/6/8080") == name


def test_a_rule_that_is_gone_is_forgotten_by_its_number_too() -> None:
    """An agent that kept them would grow with every name that a rule ever had."""
    policies = cluster()
    peers = [{"podSelector": {"matchLabels": {"app": "db"}}}]
    ports = [{"port": 80}]
    network(policies, "web", ingress=[{"from": peers, "ports": ports}])
    matches = [one.match for one in policies.entries.values() if one.match.conjunction]
    assert matches
    assert all(policies.origin(match)[0] for match in matches)
    network(policies, "other", ingress=[{"from": peers, "ports": ports}])
    policies.remove(NETWORK_POLICIES, "shop/web")
    assert not any(policies.origin(match)[0] for match in matches)
    assert [one for one in policies.entries.values() if one.match.conjunction], "the other's stays"
