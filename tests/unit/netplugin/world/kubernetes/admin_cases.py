"""Administrators' policies: what the conformance tests of network-policy-api ask, as own cases.

Each step of a case has policies and connections with the answer that is expected, written down by
hand. The subjects of github.com/kubernetes-sigs/network-policy-api (conformance/tests) are covered
for both tiers: the order of rules for each direction and protocol, ports, named ports, priorities,
networks and nodes as peers, and the three kinds of policies together. Each step is asked in the
words of v1alpha1 and in those of v1alpha2. Namespace x is the subject.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tests.unit.netplugin.world.kubernetes.oracle import KubeCluster, Pod
from tests.unit.netplugin.world.kubernetes.world import OUTSIDE, in_ipv6, new_pod, policy

Rules = list[dict[str, Any]]

ADMIN, BASELINE = "admin", "baseline"
TIERS = (ADMIN, BASELINE)
PROTOCOLS = ("TCP", "UDP", "SCTP")
NODE = "192.0.2.1"
NAMESPACES = "wxyz"


class Check(NamedTuple):
    """Whether a connection passes; ends are pods (`xa`), the node or the outside."""

    source: str
    target: str
    protocol: str
    port: int
    passes: bool


@dataclass(frozen=True)
class Step:
    """The policies of a moment, and what passes then."""

    name: str
    checks: tuple[Check, ...]
    policies: tuple[dict[str, Any], ...] = ()
    admin: tuple[dict[str, Any], ...] = ()
    baseline: tuple[dict[str, Any], ...] = ()
    tiered: tuple[dict[str, Any], ...] = ()


def conformance_cluster() -> KubeCluster:
    """Return four namespaces of two pods and a node; port `web` is 80 of TCP, `dns` 81 of UDP."""
    served = {"web": ("TCP", 80), "dns": ("UDP", 81)}
    pods: dict[tuple[str, str], Pod] = {}
    for number, namespace in enumerate(NAMESPACES):
        for index, name in enumerate("ab"):
            pod = new_pod(namespace, name, f"10.1.{number}.{index + 2}")
            labels = {"pod": name, "house": namespace}
            pods[namespace, name] = replace(pod, labels=labels, ports=served)
    spaces = {name: {"ns": name, "kubernetes.io/metadata.name": name} for name in NAMESPACES}
    return KubeCluster(spaces, pods, nodes={"node": ({"os": "linux"}, NODE)})


def cluster_of(step: Step) -> KubeCluster:
    """Return that cluster with the policies of a step."""
    known = conformance_cluster()
    known.policies = [*step.policies]
    known.admin, known.baseline = [*step.admin], [*step.baseline]
    known.tiered = [*step.tiered]
    return known


def address(cluster: KubeCluster, end: str, version: int = 4) -> str:
    """Return the address of an end of a check."""
    if end in {NODE, OUTSIDE}:
        return end
    pod = cluster.pods[end[0], end[1]]
    return pod.address if version == 4 else pod.address6


def _namespace(name: str) -> dict[str, Any]:
    return {"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def _pods(name: str) -> dict[str, Any]:
    selector = {"matchLabels": {"ns": name}}
    return {
        "pods": {"namespaceSelector": selector, "podSelector": {"matchLabels": {"house": name}}}
    }


def _number(protocol: str, port: int) -> dict[str, Any]:
    return {"portNumber": {"protocol": protocol, "port": port}}


def _rule(action: str, way: str, peers: Rules, *ports: dict[str, Any]) -> dict[str, Any]:
    return {"action": action, "from" if way == "ingress" else "to": peers, "ports": list(ports)}


def _policy(
    tier: str, rules: dict[str, Rules], priority: int = 5, subject: Any = None
) -> dict[str, Any]:
    spec: dict[str, Any] = {"subject": subject or _namespace("x"), **rules}
    if tier == ADMIN:
        spec["priority"] = priority
    return {
        "metadata": {"name": f"tested-{priority}" if tier == ADMIN else "default"},
        "spec": spec,
    }


def _ladder(tier: str, way: str, *protocols: str) -> Rules:
    """Return rules of which the first that matches must decide, for three namespaces."""
    at = [_number(protocol, 80) for protocol in protocols]
    w, y, z = ([_namespace(name)] for name in "wyz")
    rules = [
        _rule("Allow", way, w),
        _rule("Deny", way, w),
        _rule("Pass", way, w),
        _rule("Deny", way, y, *at),
        _rule("Pass", way, y, *at),
        _rule("Allow", way, z, *at),
        _rule("Deny", way, z),
    ]
    return [rule for rule in rules if tier == ADMIN or rule["action"] != "Pass"]


def _ends(way: str, peer: str) -> tuple[str, str]:
    return (peer, "xa") if way == "ingress" else ("xb", peer)


def _both(way: str, peer: str, protocol: str, at80: bool, at81: bool) -> Iterator[Check]:
    for port, passes in ((80, at80), (81, at81)):
        yield Check(*_ends(way, peer), protocol, port, passes)


def _put(tier: str, made: dict[str, Any]) -> dict[str, tuple[dict[str, Any], ...]]:
    return {tier: (made,)}


def _ladders() -> Iterator[Step]:
    for tier in TIERS:
        for ways in (("ingress",), ("egress",), ("ingress", "egress")):
            for protocols in (PROTOCOLS,) if len(ways) == 2 else ((one,) for one in PROTOCOLS):
                name = f"{tier} {' and '.join(ways)} of {', '.join(protocols)}"
                every = [(way, protocol) for way in ways for protocol in protocols]
                rules = {way: _ladder(tier, way, *protocols) for way in ways}
                checks = [
                    check
                    for way, protocol in every
                    for peer, answers in (
                        ("wa", (True, True)),
                        ("yb", (False, True)),
                        ("za", (True, False)),
                    )
                    for check in _both(way, peer, protocol, *answers)
                ]
                yield Step(name, tuple(checks), **_put(tier, _policy(tier, rules)))
                swapped = {way: [some[1], some[0], *some[2:]] for way, some in rules.items()}
                denied = [one for way, by in every for one in _both(way, "wb", by, False, False)]
                made = _policy(tier, swapped)
                yield Step(f"{name}, deny first", tuple(denied), **_put(tier, made))
                if tier == ADMIN:
                    passing = {way: [some[2], some[1], *some[3:]] for way, some in rules.items()}
                    passed = [one for way, by in every for one in _both(way, "wa", by, True, True)]
                    made = _policy(tier, passing)
                    yield Step(f"{name}, pass first", tuple(passed), **_put(tier, made))


def _named_ports() -> Iterator[Step]:
    for tier in TIERS:
        for way in ("ingress", "egress"):
            peers = [_namespace("z")]
            rules = [_rule("Allow", way, peers, {"namedPort": "web"}), _rule("Deny", way, peers)]
            checks = (
                *_both(way, "za", "TCP", at80=True, at81=False),
                *_both(way, "zb", "UDP", at80=False, at81=False),
            )
            made = _policy(tier, {way: rules})
            yield Step(f"{tier} {way} at a named port", checks, **_put(tier, made))
            spans = {"portRange": {"protocol": "UDP", "start": 70, "end": 80}}
            rules = [_rule("Deny", way, peers, spans), _rule("Allow", way, peers)]
            checks = (
                *_both(way, "za", "UDP", at80=False, at81=True),
                *_both(way, "zb", "TCP", at80=True, at81=True),
            )
            made = _policy(tier, {way: rules})
            yield Step(f"{tier} {way} at a range of ports", checks, **_put(tier, made))


def _peers_by_address() -> Iterator[Step]:
    for tier in TIERS:
        everything = {"networks": ["0.0.0.0/0", "::/0"]}
        allow_y = _rule("Allow", "egress", [_pods("y")])
        deny = _rule("Deny", "egress", [everything])
        subject = _pods("x")
        made = _policy(tier, {"egress": [allow_y, deny]}, 6, subject)
        checks = (
            Check("xa", "ya", "TCP", 80, True),
            Check("xb", "yb", "UDP", 81, True),
            Check("xa", "wa", "TCP", 80, False),
            Check("xa", OUTSIDE, "TCP", 80, False),
            Check("wa", "xa", "TCP", 80, True),
        )
        yield Step(f"{tier} networks", checks, **_put(tier, made))
        own = ["10.1.0.2/32", "10.1.3.3/32"]
        pods = {"networks": [*own, *(in_ipv6(one) for one in own)]}
        allow_pods = _rule("Allow", "egress", [pods])
        made = _policy(tier, {"egress": [allow_pods, allow_y, deny]}, 6, subject)
        checks = (
            Check("xa", "wa", "TCP", 80, True),
            Check("xa", "wb", "TCP", 80, False),
            Check("xb", "zb", "UDP", 80, True),
            Check("xb", "za", "UDP", 80, False),
            Check("xa", "ya", "TCP", 81, True),
        )
        yield Step(f"{tier} networks of single pods", checks, **_put(tier, made))
        nodes = {"nodes": {"matchLabels": {"os": "linux"}}}
        rules = [
            _rule("Allow", "egress", [nodes], _number("TCP", 80)),
            _rule("Deny", "egress", [_pods("y"), nodes, everything]),
        ]
        if tier == ADMIN:
            rules.insert(1, _rule("Pass", "egress", [nodes], _number("UDP", 81)))
        checks = (
            Check("xa", NODE, "TCP", 80, True),
            Check("xa", NODE, "UDP", 81, tier == ADMIN),
            Check("xa", NODE, "TCP", 81, False),
            Check("xb", "ya", "TCP", 80, False),
            Check("xb", OUTSIDE, "TCP", 80, False),
        )
        yield Step(
            f"{tier} nodes", checks, **_put(tier, _policy(tier, {"egress": rules}, 7, subject))
        )


def _every_way(passes: bool) -> tuple[Check, ...]:
    return (
        Check("ya", "xa", "TCP", 80, passes),
        Check("yb", "xa", "UDP", 81, passes),
        Check("xa", "ya", "TCP", 80, passes),
        Check("xb", "ya", "TCP", 81, passes),
    )


def _of_y(tier: str, action: str, priority: int = 10) -> dict[str, Any]:
    rules = {way: [_rule(action, way, [_pods("y")])] for way in ("ingress", "egress")}
    return _policy(tier, rules, priority, _pods("x"))


def _priorities() -> Iterator[Step]:
    deny, below, above = (_of_y(ADMIN, *one) for one in (("Deny", 50), ("Pass", 60), ("Pass", 40)))
    allowed, denied = _of_y(BASELINE, "Allow"), _of_y(BASELINE, "Deny")
    yield Step(
        "priority 50 denies before 60", _every_way(False), admin=(below, deny), baseline=(allowed,)
    )
    yield Step(
        "priority 40 passes before 50", _every_way(True), admin=(deny, above), baseline=(allowed,)
    )
    yield Step(
        "what is passed the baseline denies",
        _every_way(False),
        admin=(deny, above),
        baseline=(denied,),
    )


def _together() -> Iterator[Step]:
    from_y = [{"namespaceSelector": {"matchLabels": {"ns": "y"}}}]
    allow = policy(
        "allow",
        "x",
        podSelector={},
        policyTypes=["Ingress", "Egress"],
        ingress=[{"from": from_y}],
        egress=[{"to": from_y}],
    )
    baseline = (_of_y(BASELINE, "Deny"),)
    rest = (Check("wa", "xa", "TCP", 80, False), Check("xa", "za", "TCP", 80, False))
    yield Step(
        "an administrator denies what a policy allows",
        (*_every_way(False), *rest),
        policies=(allow,),
        admin=(_of_y(ADMIN, "Deny"),),
        baseline=baseline,
    )
    yield Step(
        "an administrator passes on to a policy, which comes before the baseline",
        (*_every_way(True), *rest),
        policies=(allow,),
        admin=(_of_y(ADMIN, "Pass"),),
        baseline=baseline,
    )
    yield Step(
        "an administrator passes on to the baseline",
        (*_every_way(False), Check("wa", "xa", "TCP", 80, True)),
        admin=(_of_y(ADMIN, "Pass"),),
        baseline=baseline,
    )
    yield Step(
        "an administrator allows what a policy denies",
        (*_every_way(True), *rest),
        policies=(policy("deny", "x", podSelector={}, policyTypes=["Ingress", "Egress"]),),
        admin=(_of_y(ADMIN, "Allow"),),
        baseline=baseline,
    )


def _tiers() -> Iterator[Step]:
    """Yield what the older kinds have not: priorities and Pass in the baseline, both kinds."""
    deny, below, above = (
        _of_y(BASELINE, *one) for one in (("Deny", 50), ("Pass", 60), ("Pass", 40))
    )
    yield Step(
        "baseline 50 denies before 60",
        _every_way(False),
        tiered=(clustered(below, BASELINE, 60), clustered(deny, BASELINE, 50)),
    )
    yield Step(
        "baseline 40 passes what 50 would deny",
        _every_way(True),
        tiered=(clustered(deny, BASELINE, 50), clustered(above, BASELINE, 40)),
    )
    yield Step(
        "an older policy of priority 40 comes before a tier's 50",
        _every_way(True),
        admin=(_of_y(ADMIN, "Allow", 40),),
        tiered=(clustered(_of_y(ADMIN, "Deny", 50), ADMIN),),
    )
    yield Step(
        "a tier's 40 comes before an older policy of priority 50",
        _every_way(False),
        admin=(_of_y(ADMIN, "Allow", 50),),
        tiered=(clustered(_of_y(ADMIN, "Deny", 40), ADMIN),),
    )
    yield Step(
        "the tier Baseline comes before the older baseline",
        _every_way(True),
        baseline=(_of_y(BASELINE, "Deny"),),
        tiered=(clustered(_of_y(BASELINE, "Allow"), BASELINE, 900),),
    )


_PROTOCOL_PORTS = {"portNumber": "number", "portRange": "range"}


def clustered(made: dict[str, Any], tier: str, priority: int = 5) -> dict[str, Any]:
    """Return an older policy in the words of ClusterNetworkPolicy."""
    spec = {"tier": tier.capitalize(), "priority": priority, **made["spec"]}
    for way in ("ingress", "egress"):
        if way in spec:
            spec[way] = [_clustered_rule(rule) for rule in spec[way]]
    name = f"{tier}-{made['metadata']['name']}-{spec['priority']}"
    return {"metadata": {"name": name}, "spec": spec}


def _clustered_rule(rule: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in rule.items() if name != "ports"}
    rest["action"] = "Accept" if rule["action"] == "Allow" else rule["action"]
    protocols = [_protocol(one) for one in rule["ports"]]
    return {"name": "of a test", **rest, **({"protocols": protocols} if protocols else {})}


def _protocol(port: dict[str, Any]) -> dict[str, Any]:
    ((kind, value),) = port.items()
    if kind == "namedPort":
        return {"destinationNamedPort": value}
    at = value["port"] if kind == "portNumber" else {n: value[n] for n in ("start", "end")}
    return {value["protocol"].lower(): {"destinationPort": {_PROTOCOL_PORTS[kind]: at}}}


def _in_new_words(step: Step) -> Step:
    tiered = [clustered(one, ADMIN) for one in step.admin]
    tiered += [clustered(one, BASELINE) for one in step.baseline]
    name = f"{step.name}, v1alpha2"
    return replace(step, name=name, admin=(), baseline=(), tiered=tuple(tiered))


_OLDER = [
    step
    for steps in (_ladders(), _named_ports(), _peers_by_address(), _priorities(), _together())
    for step in steps
]
STEPS: dict[str, Step] = {
    step.name: step for step in (*_OLDER, *map(_in_new_words, _OLDER), *_tiers())
}
