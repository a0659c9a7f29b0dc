"""The words for what a flow is there for."""

from ipaddress import IPv4Address

import pytest

from core.ids import GroupKey
from netplugin.trace import flow_reasons
from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from netplugin.world.kubernetes.rules import PodAddress, PolicyPod
from ofnet.changes import KINDS, ObjectId, ObjectKind
from ofnet.world import FwdMode, PolicyClass, PolicyStage, Rule, Verdict, World

NONE = KubePolicies()
SHARED = "blue:web:blue:doors:blue:doors:4:inRx"
WORLD = World(
    fwd_mode=FwdMode.ROUTING,
    rules={SHARED: Rule(id=SHARED, priority=1, allow=True, dst_class=3)},
    policy_classes={
        GroupKey(f"{name}:blue"): PolicyClass(group, 3)
        for group, name in ((3, "web"), (5, "shop"), (6, "till"))
    },
)


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (None, ""),
        (ObjectId(ObjectKind.PIPELINE), "all packets"),
        (ObjectId(ObjectKind.SERVICE, "web:default"), "service web:default"),
        (ObjectId(ObjectKind.VTEP, "h2"), "the tunnel to host h2"),
        (
            ObjectId(ObjectKind.RULE, "blue:web:blue:doors:blue:doors:3:inRx"),
            "rule 3 of policy doors (tenant blue) on group web",
        ),
        (
            ObjectId(ObjectKind.RULE, "blue:web:blue:doors:blue:doors:3:inTx:2"),
            "rule 3 of policy doors (tenant blue) on group web, for answers",
        ),
        (
            ObjectId(ObjectKind.RULE, SHARED),
            "rule 4 of policy doors (tenant blue) on group web and 2 more with the same policies",
        ),
        (
            ObjectId(ObjectKind.POLICY_CLASS, "shop:blue"),
            "the policies that group shop:blue shares with others",
        ),
        (ObjectId(ObjectKind.RULE, "odd"), "rule odd"),
        (ObjectId(ObjectKind.POLICY_ENTRY, "gone"), "a policy of Kubernetes"),
    ],
)
def test_words(owner: ObjectId | None, words: str) -> None:
    assert flow_reasons.of(owner, NONE, WORLD) == words


def test_each_kind_that_owns_flows_has_words() -> None:
    named = {*flow_reasons._WORDS, ObjectKind.RULE, ObjectKind.POLICY_ENTRY}
    assert named == {kind for kind, spec in KINDS.items() if spec.owns_flows}


def test_network_policies_are_called_by_their_names() -> None:
    policies = KubePolicies()
    address = PodAddress(1, IPv4Address("10.1.0.1"))
    policies.put_pod(
        PolicyPod(namespace="shop", name="web", labels={}, addresses=(address,), local=True)
    )
    meta = {"namespace": "shop", "name": "doors"}
    policies.put(NETWORK_POLICIES, {"metadata": meta, "spec": {"podSelector": {}}})
    denied = [
        name
        for name, entry in policies.entries.items()
        if entry.verdict is Verdict.DENY and entry.match.stage is PolicyStage.INGRESS
    ]
    assert {flow_reasons.kube_policy(name, policies) for name in denied} == {
        "NetworkPolicy shop/doors (ingress: no rule allows it)"
    }
