"""Says in words for what a flow is there: the rule of which policy, which service, which endpoint.

In come owners of flows (`ofnet.changes.ObjectId`) and Kubernetes' policies; out comes text. Pure.
"""

from typing import Final

from netplugin.world.kubernetes.cluster_policies import CLUSTER_POLICIES
from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.policy_objects import (
    ADMIN_POLICIES,
    BASELINE_POLICIES,
    NETWORK_POLICIES,
)
from ofnet.changes import ObjectId, ObjectKind
from ofnet.world import PolicyStage, Verdict, World

_KINDS: Final = {
    NETWORK_POLICIES: "NetworkPolicy",
    CLUSTER_POLICIES: "ClusterNetworkPolicy",
    ADMIN_POLICIES: "AdminNetworkPolicy",
    BASELINE_POLICIES: "BaselineAdminNetworkPolicy",
}
_WORDS: Final = {
    ObjectKind.PIPELINE: "all packets",
    ObjectKind.UPLINKS: "the uplinks",
    ObjectKind.HOST_PORT: "the host's own port",
    ObjectKind.VTEP: "the tunnel to host {}",
    ObjectKind.NETWORK: "network {}",
    ObjectKind.LOCAL: "endpoint {}",
    ObjectKind.REMOTE: "endpoint {} of another host",
    ObjectKind.BARRED: "endpoint {}, whose address hosts need for themselves",
    ObjectKind.FLOOD: "flooding of network {}",
    ObjectKind.POLICY_CLASS: "the policies that group {} shares with others",
    ObjectKind.ACCESS: "the host interface of endpoint {}",
    ObjectKind.SERVICE: "service {}",
    ObjectKind.ROUTER: "the host's port for BGP",
    ObjectKind.ROUTE: "the BGP route to {}",
    ObjectKind.MANAGEMENT: "the guard of management address {}",
    ObjectKind.MANAGEMENT_PORT: "the guard of management port {} (protocol/port)",
    ObjectKind.POLICY_SUBJECT: "the pod that policies of Kubernetes select",
    ObjectKind.NAME_PORT: "the name service",
}
_RULE_PARTS: Final = 8
"""Parts of a rule's id: tenant and name of the group, the policy twice, the rule, the direction."""


def of(owner: ObjectId | None, kube: KubePolicies, world: World) -> str:
    """Return what a flow is for; "" for a flow without an owner."""
    match owner:
        case None:
            return ""
        case (ObjectKind.RULE, name):
            words, known = rule(name, _sharing(name, world)), world.rules.get(name)
            return f"{words}, under audit" if known is not None and known.audit else words
        case (ObjectKind.POLICY_ENTRY, name):
            return kube_policy(name, kube)
        case (kind, name):
            return _WORDS.get(kind, kind.name.lower() + " {}").format(name).rstrip()


def rule(rule_id: str, sharing: int = 0) -> str:
    """Return the words for a rule by its id (`state.policy_rules.expand`).

    `sharing` is the number of groups that share its flow, of which the id names one; 0 if none do.
    """
    parts = rule_id.split(":")
    if len(parts) < _RULE_PARTS:
        return f"rule {rule_id}"
    _, group, _, _, tenant, policy, number, part, *_ = parts
    answers = ", for answers" if part in {"inTx", "outRx"} else ""
    others = f" and {sharing - 1} more with the same policies" if sharing else ""
    return f"rule {number} of policy {policy} (tenant {tenant}) on group {group}{others}{answers}"


def _sharing(rule_id: str, world: World) -> int:
    """Return how many groups share the flow of a rule; 0 for a rule of one group."""
    known = world.rules.get(rule_id)
    number = known.src_class or known.dst_class if known is not None else 0
    classes = world.policy_classes.values() if number else ()
    return sum(one.number == number for one in classes)


def kube_policy(entry: str, kube: KubePolicies) -> str:
    """Return the words for an entry of Kubernetes' policies: the policies it is made of."""
    found = kube.entries.get(entry)
    named = [f"{_KINDS.get(kind, kind)} {name}" for kind, name in kube.of_entry(entry)]
    text = ", ".join(named) or "a policy of Kubernetes"
    if found is None:
        return text
    direction = "egress" if found.match.stage < PolicyStage.INGRESS_ADMIN else "ingress"
    if found.verdict is Verdict.DENY and named and named[0].startswith("NetworkPolicy"):
        return f"{text} ({direction}: no rule allows it)"
    return f"{text} ({direction})"
