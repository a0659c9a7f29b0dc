"""Which rules of Kubernetes' policies judge the pods of this host, in the order of asking. Pure.

In come the policies and what is known of the cluster (`policies`); out come rules in words
(`wording`), each with its pods, and what finds its counters among the switch's flows (`matches`).
`netplugin.diagnostics.kubernetes_rules` reports them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from netplugin.world.kubernetes.cluster_policies import CLUSTER_POLICIES
from netplugin.world.kubernetes.kube_policies import KubePolicies, OrderedPolicy, PolicyKey
from netplugin.world.kubernetes.matches import ALLOWED, ISOLATED
from netplugin.world.kubernetes.policy_objects import (
    ADMIN_POLICIES,
    BASELINE_POLICIES,
    NETWORK_POLICIES,
    AdminPolicy,
    Egress,
    NetworkPolicy,
    PolicyIngress,
)
from netplugin.world.kubernetes.rules import (
    Inventory,
    PolicyPod,
    admin_pods,
    admin_verdict,
    rule_name,
)
from netplugin.world.kubernetes.wording import admin_rule_words, rule_words
from ofnet.world import PolicyStage, Verdict

NOTHING_ELSE: Final = "nothing else"
"""The words of what happens to an isolated pod's packets that no rule allows."""

_KINDS: Final = {
    NETWORK_POLICIES: "NetworkPolicy",
    ADMIN_POLICIES: "AdminNetworkPolicy",
    BASELINE_POLICIES: "BaselineAdminNetworkPolicy",
    CLUSTER_POLICIES: "ClusterNetworkPolicy",
}
_BASELINES: Final = {
    PolicyStage.INGRESS_BASELINE: PolicyStage.INGRESS,
    PolicyStage.EGRESS_BASELINE: PolicyStage.EGRESS,
}
"""The stage that has to pass a packet on, for the baseline to be asked."""

Wanted = Callable[[PolicyPod], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingRule:
    """A rule of policies, in words, and the pods of this host that it judges.

    `order` is its place among the administrators' rules of its stage. `name` is that of the flows
    that have its conjunctions, and "" if it has none; `level` is the priority of the flows that
    have its verdict for its pods' addresses, whatever the other end, and 0 if it has none.
    """

    policies: tuple[str, ...]
    """Kind and name of each: one, or several that isolate the pods."""
    stage: PolicyStage
    order: int
    verdict: Verdict
    words: str
    pods: tuple[PolicyPod, ...]
    name: str = ""
    level: int = 0


def judging_rules(policies: KubePolicies, wanted: Wanted = lambda _: True) -> list[JudgingRule]:
    """Return the rules that judge local pods that are wanted, in the order in which they are asked.

    What no rule allows an isolated pod comes last in its stage. A baseline is not asked for these
    pods, so that it is not among their rules.
    """
    here = _here(policies.known, wanted)
    found: list[JudgingRule] = []
    isolating: dict[tuple[PolicyStage, str, str], set[PolicyKey]] = {}
    pods: dict[tuple[str, str], PolicyPod] = {}
    for one in policies.ordered():
        chosen = _subjects(one, here)
        if not chosen:
            continue
        if isinstance(one.policy, NetworkPolicy):
            found += _network_rules(one, one.policy, chosen)
            for stage in _isolated_stages(one.policy):
                for pod in chosen:
                    pods[pod.namespace, pod.name] = pod
                    isolating.setdefault((stage, pod.namespace, pod.name), set()).add(one.key)
        else:
            found += _admin_rules(one, one.policy, chosen)
    found = [rule for one in found if (rule := _asked(one, isolating)) is not None]
    found += _nothing_else(isolating, pods)
    return sorted(found, key=_asking)


def _here(known: Inventory, wanted: Wanted) -> Inventory:
    """Return an inventory of the pods that may be subjects alone: a cluster has many more."""
    pods: dict[str, dict[str, PolicyPod]] = {}
    for pod in known.every_pod():
        if pod.local and pod.addresses and wanted(pod):
            pods.setdefault(pod.namespace, {})[pod.name] = pod
    return Inventory(pods=pods, namespaces=known.namespaces)


def _subjects(one: OrderedPolicy, here: Inventory) -> tuple[PolicyPod, ...]:
    if isinstance(one.policy, NetworkPolicy):
        return tuple(here.select(one.policy.metadata.namespace, one.policy.spec.pods))
    return tuple(admin_pods(one.policy.spec.subject, here))


def _isolated_stages(policy: NetworkPolicy) -> Iterator[PolicyStage]:
    if policy.spec.isolates_ingress:
        yield PolicyStage.INGRESS
    if policy.spec.isolates_egress:
        yield PolicyStage.EGRESS


def _network_rules(
    one: OrderedPolicy, policy: NetworkPolicy, pods: tuple[PolicyPod, ...]
) -> Iterator[JudgingRule]:
    namespace = policy.metadata.namespace
    for stage in _isolated_stages(policy):
        ingress = stage is PolicyStage.INGRESS
        rules: tuple[PolicyIngress | Egress, ...] = (
            policy.spec.ingress if ingress else policy.spec.egress
        )
        for number, rule in enumerate(rules):
            yield JudgingRule(
                policies=(_title(one.key),),
                stage=stage,
                order=0,
                verdict=Verdict.ALLOW,
                words=rule_words(rule, namespace, ingress=ingress),
                pods=pods,
                name=f"{one.key[0]} {rule_name(one.key[1], stage, number)}",
                level=0 if rule.peers or rule.ports else ALLOWED + 1,
            )


def _admin_rules(
    one: OrderedPolicy, policy: AdminPolicy, pods: tuple[PolicyPod, ...]
) -> Iterator[JudgingRule]:
    ingress = PolicyStage.INGRESS_BASELINE if one.baseline else PolicyStage.INGRESS_ADMIN
    egress = PolicyStage.EGRESS_BASELINE if one.baseline else PolicyStage.EGRESS_ADMIN
    for stage, rules in ((ingress, policy.spec.ingress), (egress, policy.spec.egress)):
        for number, rule in enumerate(rules):
            yield JudgingRule(
                policies=(_title(one.key),),
                stage=stage,
                order=one.first + number,
                verdict=admin_verdict(rule, baseline=one.baseline),
                words=admin_rule_words(rule, ingress=stage is ingress),
                pods=pods,
                name=f"{one.key[0]} {rule_name(one.key[1], stage, number)}",
            )


def _asked(
    one: JudgingRule, isolating: Mapping[tuple[PolicyStage, str, str], object]
) -> JudgingRule | None:
    """Return a rule with those of its pods for which it is asked, None for none."""
    before = _BASELINES.get(one.stage)
    if before is None:
        return one
    pods = tuple(pod for pod in one.pods if (before, pod.namespace, pod.name) not in isolating)
    return replace(one, pods=pods) if pods else None


def _nothing_else(
    isolating: Mapping[tuple[PolicyStage, str, str], Iterable[PolicyKey]],
    pods: Mapping[tuple[str, str], PolicyPod],
) -> Iterator[JudgingRule]:
    """Yield what isolates pods: once for all that the same policies isolate."""
    alike: dict[tuple[PolicyStage, tuple[str, ...]], list[PolicyPod]] = {}
    for (stage, *pod), keys in isolating.items():
        titles = tuple(_title(key) for key in sorted(keys))
        alike.setdefault((stage, titles), []).append(pods[pod[0], pod[1]])
    for (stage, titles), of_them in alike.items():
        yield JudgingRule(
            policies=titles,
            stage=stage,
            order=0,
            verdict=Verdict.DENY,
            words=NOTHING_ELSE,
            pods=tuple(of_them),
            level=ISOLATED,
        )


def _asking(one: JudgingRule) -> tuple[PolicyStage, int, bool, tuple[str, ...]]:
    """Return where a rule stands; those of a policy keep their order."""
    isolates = one.words == NOTHING_ELSE
    return one.stage, one.order, isolates, one.policies if isolates else ()


def _title(key: PolicyKey) -> str:
    return f"{_KINDS[key[0]]} {key[1]}"
