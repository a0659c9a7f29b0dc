"""Resolves one policy to rules over addresses and port numbers (pure).

In come a policy (`objects`) and what is known of pods, namespaces and nodes (`Inventory`); out come
`Resolved` rules: a verdict for packets between local subjects and peers, at ports. A named port is
the port of that name of the packet's destination: the subject of an ingress rule, the peer of an
egress rule. Pods on the network of their node are neither subject nor peer: their addresses are the
node's.
"""

# Kubernetes' semantics in short. A pod is isolated in a direction if a NetworkPolicy of that
# direction selects it; then only what some policy allows passes. An administrator's policies are
# asked before (AdminNetworkPolicy, and ClusterNetworkPolicy of the tier Admin: first match in the
# order of priorities; Pass goes on to the NetworkPolicies) and after (ClusterNetworkPolicy of the
# tier Baseline and then BaselineAdminNetworkPolicy: for pods that no NetworkPolicy isolates).

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, NamedTuple

from netplugin.world.kubernetes.policy_objects import (
    PROTOCOLS,
    AdminPeer,
    AdminPolicy,
    AdminPort,
    AdminRule,
    Egress,
    IpBlock,
    NetworkPolicy,
    PolicyIngress,
    PolicyPeer,
    PolicyPort,
)
from netplugin.world.kubernetes.selectors import Labels, Selector
from ofnet.world import PolicyStage, Verdict

MAX_PORT: Final = 65535


class PodAddress(NamedTuple):
    """An address of a pod in the VRF of its tenant on this host."""

    vrf: int
    address: IPv4Address | IPv6Address


PeerAddress = PodAddress | IPv4Network | IPv6Network


class PortSpan(NamedTuple):
    """The ports `first` to `last` of a protocol (its number); 0 to 65535 is the whole protocol."""

    protocol: int
    first: int = 0
    last: int = MAX_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPod:
    """A pod as policies see it. `local`: on this host. `ports`: protocol and number by name."""

    namespace: str
    name: str
    labels: Labels
    addresses: tuple[PodAddress, ...]
    local: bool = False
    ports: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyNode:
    """A node of the cluster."""

    labels: Labels
    addresses: tuple[IPv4Address | IPv6Address, ...]


@dataclass(slots=True)
class Inventory:
    """Pods by namespace and name, the labels of namespaces, and nodes by name."""

    pods: dict[str, dict[str, PolicyPod]] = field(default_factory=dict)
    namespaces: dict[str, Labels] = field(default_factory=dict)
    nodes: dict[str, PolicyNode] = field(default_factory=dict)

    def every_pod(self) -> Iterator[PolicyPod]:
        """Yield all pods."""
        for pods in self.pods.values():
            yield from pods.values()

    def select(self, namespaces: Selector | str, pods: Selector) -> Iterator[PolicyPod]:
        """Yield the selected pods of a namespace by name, or of those that a selector selects."""
        for namespace in self._names(namespaces):
            for pod in self.pods.get(namespace, {}).values():
                if pods.selects(pod.labels):
                    yield pod

    def _names(self, namespaces: Selector | str) -> Iterable[str]:
        if isinstance(namespaces, str):
            return (namespaces,)
        return (name for name, labels in self.namespaces.items() if namespaces.selects(labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRule:
    """A verdict for packets between `subjects` and `peers` at `ports`; None means any.

    `order` is the rule's place in its stage, the lowest decides; equal places have equal verdicts.
    """

    name: str
    stage: PolicyStage
    order: int
    verdict: Verdict
    subjects: frozenset[PodAddress]
    peers: frozenset[PeerAddress] | None
    ports: frozenset[PortSpan] | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """What one policy means for the pods of this host.

    `isolated` has the pods that get or send nothing but what a rule of that stage allows.
    """

    rules: tuple[ResolvedRule, ...] = ()
    isolated: tuple[tuple[PolicyStage, frozenset[PodAddress]], ...] = ()


_EVERYTHING: Final = Selector()


# -- NetworkPolicy ---------------------------------------------------------------------------------


def resolve_policy(policy: NetworkPolicy, known: Inventory) -> Resolved:
    """Return what a NetworkPolicy means for the pods of this host."""
    namespace, spec = policy.metadata.namespace, policy.spec
    subjects = [pod for pod in known.select(namespace, spec.pods) if pod.local and pod.addresses]
    if not subjects:
        return Resolved()
    name = f"{namespace}/{policy.metadata.name}"
    everyone = _addresses(subjects)
    rules: list[ResolvedRule] = []
    isolated: list[tuple[PolicyStage, frozenset[PodAddress]]] = []
    if spec.isolates_ingress:
        isolated.append((PolicyStage.INGRESS, everyone))
        for number, ingress in enumerate(spec.ingress):
            head = _head(name, PolicyStage.INGRESS, number)
            rules += _rules(head, subjects, _peers(ingress, namespace, known), ingress.ports, known)
    if spec.isolates_egress:
        isolated.append((PolicyStage.EGRESS, everyone))
        for number, egress in enumerate(spec.egress):
            head = _head(name, PolicyStage.EGRESS, number)
            rules += _rules(head, subjects, _peers(egress, namespace, known), egress.ports, known)
    return Resolved(tuple(rules), tuple(isolated))


def concerns_policy(policy: NetworkPolicy, pod: PolicyPod, known: Inventory) -> bool:
    """Return whether a pod is a subject or a peer of a NetworkPolicy."""
    namespace = policy.metadata.namespace
    if pod.namespace == namespace and policy.spec.pods.selects(pod.labels):
        return True
    rules: tuple[PolicyIngress | Egress, ...] = (*policy.spec.ingress, *policy.spec.egress)
    if any(_names_ports_of_all(rule.peers, rule.ports) for rule in policy.spec.egress):
        return True
    labels = known.namespaces.get(pod.namespace, {})
    return any(_is_peer(peer, namespace, pod, labels) for rule in rules for peer in rule.peers)


def _names_ports_of_all(peers: Iterable[PolicyPeer], ports: Iterable[PolicyPort]) -> bool:
    """Return whether a rule has a named port of pods that it does not select by labels."""
    chosen = tuple(peers)
    by_label = bool(chosen) and all(peer.block is None for peer in chosen)
    return not by_label and any(isinstance(port.port, str) for port in ports)


def _is_peer(peer: PolicyPeer, namespace: str, pod: PolicyPod, labels: Labels) -> bool:
    if peer.block is not None:
        return False
    if peer.namespaces is None:
        inside = pod.namespace == namespace
    else:
        inside = peer.namespaces.selects(labels)
    return inside and (peer.pods or _EVERYTHING).selects(pod.labels)


@dataclass(frozen=True, slots=True)
class _Peers:
    """The peers of a rule: pods, whose named ports are known, and blocks of addresses."""

    pods: tuple[PolicyPod, ...] = ()
    blocks: frozenset[IPv4Network | IPv6Network] = frozenset()

    @property
    def addresses(self) -> frozenset[PeerAddress]:
        return _addresses(self.pods) | self.blocks


def _peers(rule: PolicyIngress | Egress, namespace: str, known: Inventory) -> _Peers | None:
    """Return the peers of a rule; None for any."""
    if not rule.peers:
        return None
    pods: dict[str, PolicyPod] = {}
    blocks: set[IPv4Network | IPv6Network] = set()
    for peer in rule.peers:
        if peer.block is not None:
            blocks.update(_without(peer.block))
            continue
        where = namespace if peer.namespaces is None else peer.namespaces
        pods.update((pod.key, pod) for pod in known.select(where, peer.pods or _EVERYTHING))
    return _Peers(tuple(pods.values()), frozenset(blocks))


def _without(block: IpBlock) -> Iterator[IPv4Network | IPv6Network]:
    """Yield the networks that make up a block without its exceptions."""
    rest: list[IPv4Network | IPv6Network] = [block.cidr]
    for hole in block.excluded:
        rest = [part for one in rest for part in _cut(one, hole)]
    yield from rest


def _cut(
    network: IPv4Network | IPv6Network, hole: IPv4Network | IPv6Network
) -> Iterator[IPv4Network | IPv6Network]:
    if not network.overlaps(hole):
        yield network
    elif hole.prefixlen > network.prefixlen:
        yield from network.address_exclude(hole)  # type: ignore[arg-type]


# -- administrators' policies ----------------------------------------------------------------------


def resolve_admin_policy(
    policy: AdminPolicy, first: int, known: Inventory, *, baseline: bool
) -> Resolved:
    """Return what an administrator's policy means for the pods of this host.

    `first` is the place of its first rule among all policies of its tier.
    """
    subjects = [
        pod for pod in admin_pods(policy.spec.subject, known) if pod.local and pod.addresses
    ]
    if not subjects:
        return Resolved()
    egress = PolicyStage.EGRESS_BASELINE if baseline else PolicyStage.EGRESS_ADMIN
    ingress = PolicyStage.INGRESS_BASELINE if baseline else PolicyStage.INGRESS_ADMIN
    rules: list[ResolvedRule] = []
    for stage, direction in ((ingress, policy.spec.ingress), (egress, policy.spec.egress)):
        for number, rule in enumerate(direction):
            name = rule_name(policy.metadata.name, stage, number)
            verdict = admin_verdict(rule, baseline=baseline)
            head = _Head(name, stage, first + number, verdict)
            peers = _admin_peers(rule, known)
            rules += _rules(head, subjects, peers, tuple(map(_port_of, rule.ports)), known)
    return Resolved(tuple(rules))


def admin_verdict(rule: AdminRule, *, baseline: bool) -> Verdict:
    """Return what a rule says: nothing is asked after the baseline, so that to pass is to allow."""
    verdict = Verdict(rule.action.lower())
    return Verdict.ALLOW if baseline and verdict is Verdict.PASS else verdict


def concerns_admin_policy(policy: AdminPolicy, pod: PolicyPod, known: Inventory) -> bool:
    """Return whether a pod is a subject or a peer of an administrator's policy."""
    labels = known.namespaces.get(pod.namespace, {})
    rules = (*policy.spec.ingress, *policy.spec.egress)
    peers = [peer for rule in rules for peer in (*rule.sources, *rule.destinations)]
    if any(peer.networks or peer.nodes for peer in peers) and any(
        port.named for rule in rules for port in rule.ports
    ):
        return True  # a named port of pods that are peers by their address
    return any(_is_admin_peer(one, pod, labels) for one in (policy.spec.subject, *peers))


def _is_admin_peer(peer: AdminPeer, pod: PolicyPod, labels: Labels) -> bool:
    if peer.namespaces is not None:
        return peer.namespaces.selects(labels)
    if peer.pods is not None:
        return peer.pods.namespaces.selects(labels) and peer.pods.pods.selects(pod.labels)
    return False


def admin_pods(peer: AdminPeer, known: Inventory) -> Iterator[PolicyPod]:
    """Yield the pods that the subject or a peer of an administrator's policy selects."""
    if peer.namespaces is not None:
        yield from known.select(peer.namespaces, _EVERYTHING)
    elif peer.pods is not None:
        yield from known.select(peer.pods.namespaces, peer.pods.pods)


def _admin_peers(rule: AdminRule, known: Inventory) -> _Peers:
    pods: dict[str, PolicyPod] = {}
    blocks: set[IPv4Network | IPv6Network] = set()
    for peer in (*rule.sources, *rule.destinations):
        pods.update((pod.key, pod) for pod in admin_pods(peer, known))
        blocks.update(peer.networks or ())
        if peer.nodes is not None:
            for node in known.nodes.values():
                if peer.nodes.selects(node.labels):
                    blocks.update(map(_host_network, node.addresses))
    return _Peers(tuple(pods.values()), frozenset(blocks))


def _host_network(address: IPv4Address | IPv6Address) -> IPv4Network | IPv6Network:
    return IPv4Network(address) if isinstance(address, IPv4Address) else IPv6Network(address)


@dataclass(frozen=True, slots=True)
class _NamedPort:
    """A port by name, of any protocol: an administrator's policy names none."""

    name: str


def _port_of(port: AdminPort) -> PolicyPort | _NamedPort:
    if port.number is not None:
        return PolicyPort(protocol=port.number.protocol, port=port.number.port)
    if port.range is not None:
        span = port.range
        return PolicyPort(protocol=span.protocol, port=span.start, endPort=span.end)
    return _NamedPort(port.named or "")


# -- both kinds ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Head:
    name: str
    stage: PolicyStage
    order: int
    verdict: Verdict


def _head(policy: str, stage: PolicyStage, number: int) -> _Head:
    """Return the head of a NetworkPolicy's rule."""
    return _Head(rule_name(policy, stage, number), stage, 0, Verdict.ALLOW)


def rule_name(policy: str, stage: PolicyStage, number: int) -> str:
    """Return the name of a policy's rule, by its number in its direction.

    The rules for the numbers of named ports are named `<this>/<protocol>/<port>`.
    """
    return f"{policy}/{stage.name.lower()}/{number}"


def whole_rule(name: str) -> str:
    """Return the name of a rule without the number of a named port."""
    # at most namespace, policy, stage and number
    parts = name.split("/")
    return "/".join(parts[:-2]) if len(parts) > 4 else name


def _rules(
    head: _Head,
    subjects: Iterable[PolicyPod],
    peers: _Peers | None,
    ports: tuple[PolicyPort | _NamedPort, ...],
    known: Inventory,
) -> Iterator[ResolvedRule]:
    """Yield the rules that a rule resolves to: one, and one more for each number of named ports."""
    everyone, subjects = _addresses(subjects), tuple(subjects)
    if peers is not None and not peers.addresses:
        return
    everybody = None if peers is None else peers.addresses
    numbered = frozenset(span for port in ports if (span := _span(port)) is not None)
    if numbered or not ports:
        yield _rule(head, head.name, everyone, everybody, numbered or None)
    named = [port for port in ports if _span(port) is None]
    if not named:
        return
    # The destination decides what number a name has, so the destinations are split by number.
    ingress = head.stage in INGRESS_STAGES
    destinations = _addressed(subjects) if ingress else _among(peers, known)
    for span, here in _by_number(destinations, named).items():
        name = f"{head.name}/{span.protocol}/{span.first}"
        if ingress:
            yield _rule(head, name, here, everybody, frozenset({span}))
        else:
            yield _rule(head, name, everyone, here, frozenset({span}))


INGRESS_STAGES: Final = frozenset(
    {PolicyStage.INGRESS_ADMIN, PolicyStage.INGRESS, PolicyStage.INGRESS_BASELINE}
)


def _rule(
    head: _Head,
    name: str,
    subjects: frozenset[PodAddress],
    peers: Iterable[PeerAddress] | None,
    ports: frozenset[PortSpan] | None,
) -> ResolvedRule:
    return ResolvedRule(
        name=name,
        stage=head.stage,
        order=head.order,
        verdict=head.verdict,
        subjects=subjects,
        peers=None if peers is None else frozenset(peers),
        ports=ports,
    )


def _span(port: PolicyPort | _NamedPort) -> PortSpan | None:
    """Return the ports of a number or range; None for a name."""
    if isinstance(port, _NamedPort) or isinstance(port.port, str):
        return None
    protocol = PROTOCOLS[port.protocol]
    if port.port is None:
        return PortSpan(protocol)
    return PortSpan(protocol, port.port, port.end or port.port)


_Addressed = tuple[PolicyPod, frozenset[PodAddress]]
"""A pod, and the addresses that a rule is about."""


def _by_number(
    pods: Iterable[_Addressed], ports: Iterable[PolicyPort | _NamedPort]
) -> dict[PortSpan, frozenset[PodAddress]]:
    """Return addresses by the number that one of the named ports has in their pods."""
    found: dict[PortSpan, frozenset[PodAddress]] = {}
    wanted = list(ports)
    for pod, addresses in pods:
        spans = {span for port in wanted if (span := _number(port, pod)) is not None}
        for span in spans:
            found[span] = found.get(span, frozenset()) | addresses
    return found


def _addressed(pods: Iterable[PolicyPod]) -> Iterator[_Addressed]:
    for pod in pods:
        yield pod, frozenset(pod.addresses)


def _among(peers: _Peers | None, known: Inventory) -> Iterator[_Addressed]:
    """Yield the pods that a rule has as peers, also those whose address is in one of its blocks.

    Of a pod with addresses of both families a block may have one: the other is no peer then.
    """
    if peers is None:
        yield from _addressed(known.every_pod())
        return
    yield from _addressed(peers.pods)
    if peers.blocks:
        for pod in known.every_pod():
            inside = (at for at in pod.addresses for block in peers.blocks if at.address in block)
            if addresses := frozenset(inside):
                yield pod, addresses


def _number(port: PolicyPort | _NamedPort, pod: PolicyPod) -> PortSpan | None:
    name = port.name if isinstance(port, _NamedPort) else str(port.port)
    served = pod.ports.get(name)
    if served is None:
        return None
    protocol, number = served
    if isinstance(port, PolicyPort) and PROTOCOLS[port.protocol] != protocol:
        return None
    return PortSpan(protocol, number, number)


def _addresses(pods: Iterable[PolicyPod]) -> frozenset[PodAddress]:
    return frozenset(address for pod in pods for address in pod.addresses)
