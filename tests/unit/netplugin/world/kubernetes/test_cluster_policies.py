"""ClusterNetworkPolicies: rules that cannot be followed fail closed, and say so."""

from typing import Any

import pytest

from core.errors import Invalid
from netplugin.world.kubernetes.cluster_policies import CLUSTER_POLICIES, read_cluster_policy
from tests.unit.netplugin.world.kubernetes.oracle import KubeCluster
from tests.unit.netplugin.world.kubernetes.switch import Switch
from tests.unit.netplugin.world.kubernetes.world import OUTSIDE, VRF, cluster, policies_of

EVERYTHING: dict[str, Any] = {"namespaces": {}}
Y: dict[str, Any] = {"namespaces": {"matchLabels": {"ns": "y"}}}
DENY_ALL = {"action": "Deny", "to": [{"networks": ["0.0.0.0/0", "::/0"]}]}


def tiered(name: str = "strict", **spec: Any) -> dict[str, Any]:
    whole = {"tier": "Admin", "priority": 5, "subject": EVERYTHING, **spec}
    return {"metadata": {"name": name}, "spec": whole}


def passing(*policies: dict[str, Any]) -> tuple[set[str], list[str]]:
    """Return to which targets pod a of namespace x gets, and what is said of the policies."""
    known: KubeCluster = cluster()
    known.tiered = [*policies]
    made = policies_of(known)
    switch = Switch(made.entries.values(), VRF)
    source = known.pods["x", "a"].address
    targets = {"ya": known.pods["y", "a"].address, "za": known.pods["z", "a"].address}
    targets["outside"] = OUTSIDE
    met = {name for name, at in targets.items() if switch.allows(source, at, "TCP", 80)}
    return met, made.unfollowed()


@pytest.mark.parametrize(
    ("to", "more", "field"),
    [
        ([{"domainNames": ["example.org"]}], {}, "to[0]: domainNames are not followed"),
        ([Y, {"domainNames": ["example.org"]}], {}, "to[1]: domainNames"),
        ([Y, {}], {}, "to[1]: exactly one of"),
        ([Y, {"externals": {}}], {}, "to[1].externals: Extra inputs"),
        ([{**Y, "networks": ["10.0.0.0/8"]}], {}, "to[0]: exactly one of"),
        ([Y], {"protocols": [{}]}, "protocols[0]: exactly one of"),
        ([Y], {"protocols": [{"icmp": {}}]}, "protocols[0].icmp: Extra inputs"),
        ([Y], {"protocols": [{"tcp": {}}]}, "protocols[0].tcp.destinationPort: Field required"),
        (
            [Y],
            {"protocols": [{"tcp": {"destinationPort": {"range": {"start": 9, "end": 8}}}}]},
            "protocols[0].tcp.destinationPort.range: a range of ports must not end",
        ),
        ([Y], {"schedule": "nights"}, "schedule: Extra inputs"),
        ([], {}, "a rule has peers"),
    ],
)
def test_a_rule_that_cannot_be_followed_fails_closed(
    to: list[Any], more: dict[str, Any], field: str
) -> None:
    accept = {"action": "Accept", "to": to, **more}
    met, said = passing(tiered(egress=[accept, DENY_ALL]))
    assert met == set(), "it accepts nothing"
    assert len(said) == 1
    assert said[0].startswith(f"{CLUSTER_POLICIES} strict: spec.egress[0]")
    assert field in said[0]
    assert said[0].endswith("the rule matches nothing")
    for action in ("Deny", "Pass", "Mirror"):
        after = {"action": "Accept", "to": [{"networks": ["0.0.0.0/0"]}]}
        met, said = passing(tiered(egress=[{**accept, "action": action}, after]))
        assert met == set(), "it denies everything"
        assert said[0].endswith("the rule denies everything")
        assert passing(tiered(egress=[after, {**accept, "action": action}]))[0] != set()


def test_rules_of_the_other_direction_and_of_other_policies_stay() -> None:
    broken = {"action": "Deny", "from": [{"domainNames": ["example.org"]}]}
    subject = {"namespaces": {"matchLabels": {"ns": "z"}}}
    met, said = passing(tiered(subject=subject, ingress=[broken]), tiered("other", egress=[]))
    assert met == {"ya", "outside"}
    assert len(said) == 1


def test_what_is_mended_is_not_complained_about() -> None:
    made = policies_of(cluster())
    made.put(CLUSTER_POLICIES, tiered(egress=[{"action": "Deny", "to": [{}]}]))
    assert len(made.unfollowed()) == 1
    made.put(CLUSTER_POLICIES, tiered(egress=[{"action": "Deny", "to": [Y]}]))
    assert made.unfollowed() == []
    made.remove(CLUSTER_POLICIES, "strict")
    assert made.entries == {}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"tier": "Middle"}, "tier"),
        ({"tier": None}, "tier"),
        ({"priority": 1001}, "priority"),
        ({"priority": None}, "priority"),
        ({"subject": {}}, "subject"),
        ({"subject": {**EVERYTHING, "pods": {"namespaceSelector": {}, "podSelector": {}}}}, "one"),
        ({"subject": {"nodes": {}}}, "subject"),
    ],
)
def test_a_policy_about_nobody_knows_whom_is_invalid(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid, match=rf"(?s)clusternetworkpolicies strict of Kubernetes.*{field}"):
        read_cluster_policy(tiered(**spec))


def test_a_policy_moves_to_another_tier() -> None:
    known = cluster()
    made = policies_of(known)
    deny = {"action": "Deny", "to": [Y]}
    made.put(
        CLUSTER_POLICIES, tiered("first", egress=[{"action": "Accept", "to": [Y]}], priority=1)
    )
    for tier in ("Admin", "Baseline", "Admin"):
        made.put(CLUSTER_POLICIES, tiered("moving", tier=tier, egress=[deny]))
    fresh = policies_of(known)
    fresh.put(CLUSTER_POLICIES, tiered("moving", egress=[deny]))
    fresh.put(
        CLUSTER_POLICIES, tiered("first", egress=[{"action": "Accept", "to": [Y]}], priority=1)
    )
    assert made.entries == fresh.entries
