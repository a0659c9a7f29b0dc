"""All policies of Kubernetes, as entries for the switch that are kept up to date. Pure.

In come policies (`objects`), pods, namespaces and nodes, in any order; out come `entries` and
`subjects`, by the names that `ofnet.changes` uses. A change resolves those policies anew that it
concerns (`rules`); entries that several rules share are merged.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from core.errors import Invalid
from netplugin.world.kubernetes.cluster_policies import (
    CLUSTER_POLICIES,
    ClusterPolicy,
    read_cluster_policy,
)
from netplugin.world.kubernetes.kube_objects import KubeObject
from netplugin.world.kubernetes.matches import (
    MAX_RULES,
    Part,
    conjunction_id,
    isolation,
    parts,
)
from netplugin.world.kubernetes.policy_objects import (
    BASELINE_POLICIES,
    AdminPolicy,
    NetworkPolicy,
    Policy,
    read,
)
from netplugin.world.kubernetes.rules import (
    Inventory,
    PodAddress,
    PolicyNode,
    PolicyPod,
    Resolved,
    concerns_admin_policy,
    concerns_policy,
    resolve_admin_policy,
    resolve_policy,
)
from netplugin.world.kubernetes.selectors import Labels
from ofnet.world import PolicyEntry, PolicyMatch, PolicySubject, Verdict

PolicyKey = tuple[str, str]
"""Resource, and `<namespace>/<name>`."""

_NO_PARTS: Final[Mapping[PolicyMatch, frozenset[Part]]] = {}


@dataclass(frozen=True, slots=True)
class OrderedPolicy:
    """A policy, and when it is asked: an administrator's before or after the NetworkPolicies.

    `first` is the place of its first rule among those of its tier.
    """

    key: PolicyKey
    policy: Policy
    first: int = 0
    baseline: bool = False


class KubePolicies:
    """The policies of the cluster, and what they mean for the pods of this host."""

    # Invariant: `entries` and `subjects` depend on the policies and the inventory alone, not on
    # the order in which they came (tests/unit/netplugin/world/kubernetes/test_policies.py).
    # `_parts` remembers what each policy contributes; `_merged` has for every match the policies
    # that contribute to it.

    def __init__(self) -> None:
        self.entries: dict[str, PolicyEntry] = {}
        """By the name of their match."""
        self.subjects: dict[str, PolicySubject] = {}
        """By `<vrf> <address>`."""
        self._altered_entries: set[str] = set()
        self._altered_subjects: set[str] = set()
        self._known = Inventory()
        self._policies: dict[PolicyKey, Policy] = {}
        self._parts: dict[PolicyKey, Mapping[PolicyMatch, frozenset[Part]]] = {}
        self._judged: dict[PolicyKey, frozenset[PodAddress]] = {}
        self._merged: dict[PolicyMatch, dict[PolicyKey, frozenset[Part]]] = {}
        self._judging: dict[PodAddress, set[PolicyKey]] = {}
        self._conjunctions: dict[int, str] = {}
        self._numbers: dict[PolicyKey, set[int]] = {}
        self._places: dict[PolicyKey, int] = {}

    @property
    def altered(self) -> bool:
        """Whether entries or subjects changed since `take_altered`."""
        return bool(self._altered_entries or self._altered_subjects)

    def take_altered(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names of the entries and of the subjects that changed since the last call."""
        altered = frozenset(self._altered_entries), frozenset(self._altered_subjects)
        self._altered_entries.clear()
        self._altered_subjects.clear()
        return altered

    def of_entry(self, name: str) -> list[PolicyKey]:
        """Return the policies that an entry is made of."""
        entry = self.entries.get(name)
        return sorted(self._merged.get(entry.match, ())) if entry is not None else []

    # -- policies ------------------------------------------------------------------------------

    def put(self, resource: str, received: KubeObject) -> None:
        """Add or replace a policy. Raises Invalid, changing nothing, if it cannot be read."""
        cluster = resource == CLUSTER_POLICIES
        policy = read_cluster_policy(received) if cluster else read(resource, received)
        key = resource, _name(policy)
        before = self._policies.get(key)
        self._policies[key] = policy
        try:
            moved = self._order()
        except Invalid:
            self._restore(key, before)
            raise
        self._derive({key, *moved})

    def remove(self, resource: str, name: str) -> None:
        """Remove a policy by `<namespace>/<name>`; cluster-wide ones have no namespace."""
        key = resource, name
        if self._policies.pop(key, None) is not None:
            self._derive({key, *self._order()})

    def names(self, resource: str) -> frozenset[str]:
        """Return the names of the policies of a resource."""
        return frozenset(name for kind, name in self._policies if kind == resource)

    def origin(self, match: PolicyMatch) -> tuple[str, tuple[str, ...]]:
        """Return the rule and the policies that an entry with a verdict is made of.

        The rule is named for an entry by its conjunction, and "" for any other: several rules may
        have made it.
        """
        policies = sorted(f"{kind} {name}" for kind, name in self._merged.get(match, ()))
        return self._conjunctions.get(match.conjunction, ""), tuple(policies)

    def ordered(self) -> Iterator[OrderedPolicy]:
        """Yield all policies by name, each with when its rules are asked."""
        for key, policy in sorted(self._policies.items(), key=lambda one: one[0]):
            if isinstance(policy, NetworkPolicy):
                yield OrderedPolicy(key, policy)
            else:
                baseline = self._baseline(key)
                yield OrderedPolicy(key, policy, self._places[key], baseline=baseline)

    @property
    def known(self) -> Inventory:
        """The pods, namespaces and nodes; to be read."""
        return self._known

    def _restore(self, key: PolicyKey, before: Policy | None) -> None:
        if before is None:
            del self._policies[key]
        else:
            self._policies[key] = before

    def unfollowed(self) -> list[str]:
        """Return the rules that fail closed, with the policy, the field and what is wrong."""
        return [text for key in sorted(self._policies) for text in self.unfollowed_of(*key)]

    def unfollowed_of(self, resource: str, name: str) -> list[str]:
        """Return those of one policy."""
        policy = self._policies.get((resource, name))
        found = policy.unfollowed if isinstance(policy, ClusterPolicy) else ()
        return [f"{resource} {name}: {one}" for one in found]

    def _order(self) -> set[PolicyKey]:
        """Give the rules of administrators' policies their places; return the policies moved.

        Raises Invalid if there are more rules than priorities.
        """
        ranked = sorted(
            (key[0] == BASELINE_POLICIES, policy.spec.priority, key)
            for key, policy in self._policies.items()
            if isinstance(policy, AdminPolicy)
        )
        places: dict[PolicyKey, int] = {}
        used = {False: 0, True: 0}
        for _, _, key in ranked:
            baseline, spec = self._baseline(key), self._policies[key].spec
            places[key] = used[baseline]
            used[baseline] += max(len(spec.ingress), len(spec.egress))
        if max(used.values()) > MAX_RULES:
            raise Invalid(
                f"administrators' policies of Kubernetes have {max(used.values())} rules in one "
                f"tier: at most {MAX_RULES} work"
            )
        moved = {key for key, at in places.items() if self._places.get(key) != at}
        self._places = places
        return moved

    def _baseline(self, key: PolicyKey) -> bool:
        """Return whether an administrator's policy is asked after the NetworkPolicies."""
        policy = self._policies[key]
        if isinstance(policy, ClusterPolicy):
            return policy.baseline
        return key[0] == BASELINE_POLICIES

    # -- inventory -----------------------------------------------------------------------------

    def put_pod(self, pod: PolicyPod) -> None:
        """Add or replace a pod; its addresses may come later."""
        before = self._known.pods.get(pod.namespace, {}).get(pod.name)
        if pod == before:
            return
        concerned = set() if before is None else self._concerned(before)
        self._known.pods.setdefault(pod.namespace, {})[pod.name] = pod
        self._derive(concerned | self._concerned(pod))

    def remove_pod(self, namespace: str, name: str) -> None:
        """Remove a pod."""
        pod = self._known.pods.get(namespace, {}).pop(name, None)
        if pod is not None:
            self._derive(self._concerned(pod))

    def put_namespace(self, name: str, labels: Labels) -> None:
        """Set the labels of a namespace."""
        if self._known.namespaces.get(name) != labels:
            self._known.namespaces[name] = dict(labels)
            self._derive(self._policies)

    def remove_namespace(self, name: str) -> None:
        """Remove a namespace; its pods are selected by no namespace selector any more."""
        if self._known.namespaces.pop(name, None) is not None:
            self._derive(self._policies)

    def put_node(self, name: str, node: PolicyNode) -> None:
        """Set labels and addresses of a node."""
        if self._known.nodes.get(name) != node:
            self._known.nodes[name] = node
            self._derive(self._with_nodes())

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        if self._known.nodes.pop(name, None) is not None:
            self._derive(self._with_nodes())

    def _with_nodes(self) -> set[PolicyKey]:
        return {key for key, policy in self._policies.items() if isinstance(policy, AdminPolicy)}

    def _concerned(self, pod: PolicyPod) -> set[PolicyKey]:
        return {
            key
            for key, policy in self._policies.items()
            if (
                concerns_policy(policy, pod, self._known)
                if isinstance(policy, NetworkPolicy)
                else concerns_admin_policy(policy, pod, self._known)
            )
        }

    # -- entries -------------------------------------------------------------------------------

    def _derive(self, keys: Iterable[PolicyKey]) -> None:
        """Resolve policies anew, and merge what they contribute."""
        altered: set[PolicyMatch] = set()
        addresses: set[PodAddress] = set()
        for key in tuple(keys):
            resolved = self._resolve(key)
            altered |= self._contribute(key, self._parts_of(key, resolved))
            addresses |= self._judge(key, resolved)
        for match in altered:
            self._altered_entries.add(match.name)
            entry = _entry(match, self._merged.get(match, {}).values())
            if entry is None:
                self.entries.pop(match.name, None)
            else:
                self.entries[match.name] = entry
        for address in addresses:
            name = f"{address.vrf} {address.address}"
            self._altered_subjects.add(name)
            if address in self._judging:
                self.subjects[name] = PolicySubject(*address)
            else:
                self.subjects.pop(name, None)

    def _resolve(self, key: PolicyKey) -> Resolved:
        policy = self._policies.get(key)
        if policy is None:
            return Resolved()
        if isinstance(policy, NetworkPolicy):
            return resolve_policy(policy, self._known)
        baseline = self._baseline(key)
        return resolve_admin_policy(policy, self._places[key], self._known, baseline=baseline)

    def _parts_of(
        self, key: PolicyKey, resolved: Resolved
    ) -> Mapping[PolicyMatch, frozenset[Part]]:
        found: dict[PolicyMatch, set[Part]] = {}
        numbers = set[int]()
        for rule in resolved.rules:
            number = self._conjunction(f"{key[0]} {rule.name}")
            numbers.add(number)
            for match, part in parts(rule, number):
                found.setdefault(match, set()).add(part)
        for stage, subjects in resolved.isolated:
            for match, part in isolation(stage, subjects):
                found.setdefault(match, set()).add(part)
        # or an agent would grow with every name that a rule ever had
        for number in self._numbers.pop(key, set[int]()) - numbers:
            del self._conjunctions[number]
        if numbers:
            self._numbers[key] = numbers
        return {match: frozenset(some) for match, some in found.items()}

    def _conjunction(self, name: str) -> int:
        """Return the number of a rule: its digest, or the next one that is free."""
        number = conjunction_id(name)
        while self._conjunctions.setdefault(number, name) != name:
            number = number % 0xFFFFFFFF + 1
        return number

    def _contribute(
        self, key: PolicyKey, now: Mapping[PolicyMatch, frozenset[Part]]
    ) -> set[PolicyMatch]:
        before = self._parts.pop(key, _NO_PARTS)
        if now:
            self._parts[key] = now
        altered = {
            match for match in before.keys() | now.keys() if before.get(match) != now.get(match)
        }
        for match in altered:
            contributions = self._merged.setdefault(match, {})
            if match in now:
                contributions[key] = now[match]
            else:
                contributions.pop(key, None)
            if not contributions:
                del self._merged[match]
        return altered

    def _judge(self, key: PolicyKey, resolved: Resolved) -> frozenset[PodAddress]:
        now = frozenset(_judged(resolved))
        before = self._judged.pop(key, frozenset())
        if now:
            self._judged[key] = now
        for address in now - before:
            self._judging.setdefault(address, set()).add(key)
        for address in before - now:
            self._judging[address].discard(key)
            if not self._judging[address]:
                del self._judging[address]
        return now ^ before


def _name(policy: Policy) -> str:
    meta = policy.metadata
    return f"{meta.namespace}/{meta.name}" if isinstance(policy, NetworkPolicy) else meta.name


def _judged(resolved: Resolved) -> Iterator[PodAddress]:
    for rule in resolved.rules:
        yield from rule.subjects
    for _, subjects in resolved.isolated:
        yield from subjects


def _entry(match: PolicyMatch, contributions: Iterable[frozenset[Part]]) -> PolicyEntry | None:
    every = frozenset[Part]().union(*contributions)
    if not every:
        return None
    verdicts = [part for part in every if isinstance(part, Verdict)]
    if verdicts:
        return PolicyEntry(match, verdict=verdicts[0])
    return PolicyEntry(
        match, memberships=tuple(sorted(part for part in every if not isinstance(part, Verdict)))
    )
