"""Every case of the truth table: the entries for the switch and the oracle agree on each packet."""

from copy import deepcopy
from dataclasses import replace

import pytest

from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from tests.unit.netplugin.world.kubernetes.cases import CASES
from tests.unit.netplugin.world.kubernetes.oracle import KubeCluster
from tests.unit.netplugin.world.kubernetes.world import (
    cluster,
    disagreements,
    in_ipv6,
    policies_of,
    policy,
    policy_pod,
)


def test_the_table_has_all_cases_of_one_step() -> None:
    counted = {name.split()[0] for name in CASES}
    assert counted == {
        *("peers", "ports", "target", "rules", "conflict", "ipv6", "default", "upstream")
    }
    assert len(CASES) == 112 + 70 + 6 + 4 + 16 + 10 + 2 + 13


@pytest.mark.parametrize("name", CASES)
def test_entries_and_oracle_agree(name: str) -> None:
    known = cluster()
    known.policies = CASES[name]
    assert disagreements(known, policies_of(known)) == []


# -- cases of several steps: each is compared with the oracle, and with a new agent -----------


class Steps:
    """A cluster and the policies that follow it."""

    def __init__(self) -> None:
        self.cluster: KubeCluster = cluster()
        self.policies = policies_of(self.cluster)

    def check(self) -> None:
        fresh = policies_of(self.cluster)
        assert disagreements(self.cluster, self.policies) == []
        assert self.policies.entries == fresh.entries
        assert self.policies.subjects == fresh.subjects

    def put(self, one: dict[str, object]) -> None:
        self.cluster.policies = [
            other for other in self.cluster.policies if other["metadata"] != one["metadata"]
        ]
        self.cluster.policies.append(one)
        self.policies.put(NETWORK_POLICIES, one)
        self.check()

    def remove(self, one: dict[str, dict[str, str]]) -> None:
        self.cluster.policies.remove(one)
        meta = one["metadata"]
        self.policies.remove(NETWORK_POLICIES, f"{meta['namespace']}/{meta['name']}")
        self.check()

    def label_namespace(self, name: str, **labels: str) -> None:
        self.cluster.namespaces[name] = labels
        self.policies.put_namespace(name, labels)
        self.check()

    def label_pod(self, namespace: str, name: str, **labels: str) -> None:
        pod = replace(self.cluster.pods[namespace, name], labels=labels)
        self.cluster.pods[namespace, name] = pod
        self.policies.put_pod(policy_pod(pod))
        self.check()

    def remove_pod(self, namespace: str, name: str) -> None:
        del self.cluster.pods[namespace, name]
        self.policies.remove_pod(namespace, name)
        self.check()

    def add_pod(self, namespace: str, name: str) -> None:
        pod = cluster().pods[namespace, name]
        self.cluster.pods[namespace, name] = pod
        self.policies.put_pod(policy_pod(pod))
        self.check()


FROM_NEW = policy(
    "tested",
    "x",
    podSelector={},
    ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"new": "y"}}}]}],
)
FROM_POD = policy(
    "tested",
    "x",
    podSelector={},
    ingress=[{"from": [{"podSelector": {"matchLabels": {"new": "y"}}}]}],
)


def test_a_policy_is_created_and_deleted() -> None:
    steps = Steps()
    steps.put(policy("deny", "x", podSelector={}))
    steps.remove(steps.cluster.policies[0])
    assert not steps.policies.entries
    assert not steps.policies.subjects


def test_a_policy_is_updated() -> None:
    steps = Steps()
    steps.put(policy("tested", "x", podSelector={}, ingress=[{}]))
    changed = deepcopy(steps.cluster.policies[0])
    changed["spec"]["ingress"] = []
    steps.put(changed)


def test_a_namespace_is_created_and_deleted() -> None:
    steps = Steps()
    steps.put(FROM_NEW)
    steps.label_namespace("w", new="y")
    del steps.cluster.namespaces["w"]
    steps.policies.remove_namespace("w")
    steps.check()


def test_a_label_of_a_namespace_is_set_and_unset() -> None:
    steps = Steps()
    steps.put(FROM_NEW)
    steps.label_namespace("y", ns="y", new="y")
    steps.label_namespace("y", ns="y")


def test_a_pod_is_created_and_deleted() -> None:
    steps = Steps()
    steps.put(FROM_POD)
    steps.remove_pod("x", "a")
    steps.add_pod("x", "a")


def test_a_label_of_a_pod_is_set_and_unset() -> None:
    steps = Steps()
    steps.put(FROM_POD)
    steps.label_pod("x", "b", pod="b", new="y")
    steps.label_pod("x", "b", pod="b")


def test_named_ports_follow_pods_and_namespaces() -> None:
    steps = Steps()
    ports = [{"port": "serve-81-tcp"}]
    steps.put(policy("in", "x", podSelector={}, ingress=[{"ports": ports}]))
    steps.put(
        policy(
            "out",
            "y",
            podSelector={},
            policyTypes=["Egress"],
            egress=[{"ports": ports, "to": [{"namespaceSelector": {"matchLabels": {"ns": "x"}}}]}],
        )
    )
    steps.remove_pod("x", "c")
    steps.label_namespace("x", ns="changed")
    steps.add_pod("x", "c")


def test_named_ports_of_peers_that_no_label_selects_follow_pods() -> None:
    steps = Steps()
    ports = [{"port": "serve-81-tcp"}]
    steps.put(policy("out", "y", podSelector={}, policyTypes=["Egress"], egress=[{"ports": ports}]))
    steps.put(
        policy(
            "block",
            "z",
            podSelector={},
            policyTypes=["Egress"],
            egress=[{"ports": ports, "to": [{"ipBlock": {"cidr": "10.1.0.0/24"}}]}],
        )
    )
    steps.remove_pod("x", "c")
    steps.add_pod("x", "c")


def test_a_named_port_of_a_block_is_one_of_the_blocks_own_family() -> None:
    steps = Steps()
    block = {"ipBlock": {"cidr": in_ipv6("10.1.0.0/24")}}
    rule = {"ports": [{"port": "serve-81-tcp"}], "to": [block]}
    steps.put(policy("out", "y", podSelector={}, policyTypes=["Egress"], egress=[rule]))
