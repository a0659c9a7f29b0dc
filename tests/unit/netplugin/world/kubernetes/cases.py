"""The truth table of network policies: every dimension of cyclonus' generated cases.

A case is a list of policies; the cases of several steps are in `test_truth_table`. The dimensions
are those of cyclonus (github.com/mattfenwick/cyclonus, pkg/generator): peers, ports, targets,
rules, conflicts, the default label of namespaces, the cases of Kubernetes' own tests, and actions.
"""

from itertools import combinations
from typing import Any

from tests.unit.netplugin.world.kubernetes.world import in_ipv6, policy

Policies = list[dict[str, Any]]

DIRECTIONS = ("ingress", "egress")
_PODS: tuple[Any, ...] = (None, {}, {"matchLabels": {"pod": "b"}})
_NAMESPACES: tuple[Any, ...] = (None, {}, {"matchLabels": {"ns": "y"}})


def _peer(pods: Any, namespaces: Any) -> dict[str, Any]:
    peer = {}
    if pods is not None:
        peer["podSelector"] = pods
    if namespaces is not None:
        peer["namespaceSelector"] = namespaces
    return peer


PEERS = (
    *(
        _peer(pods, namespaces)
        for pods in _PODS
        for namespaces in _NAMESPACES
        if (pods, namespaces) != (None, None)
    ),
    {"ipBlock": {"cidr": "10.1.1.0/24"}},
    {"ipBlock": {"cidr": "10.1.1.0/24", "except": ["10.1.1.0/30"]}},
)
IPV6_PEERS = (
    {"ipBlock": {"cidr": in_ipv6("10.1.1.0/24")}},
    {"ipBlock": {"cidr": in_ipv6("10.1.1.0/24"), "except": [in_ipv6("10.1.1.0/30")]}},
    {"ipBlock": {"cidr": "::/0", "except": [in_ipv6("10.1.0.0/24"), in_ipv6("10.1.1.3/32")]}},
)


def _with(
    direction: str, rules: list[dict[str, Any]] | None, pods: Any = None, namespace: str = "x"
) -> Policies:
    chosen = {"matchLabels": {"pod": "a"}} if pods is None else pods
    return [
        policy(
            "tested",
            namespace,
            podSelector=chosen,
            policyTypes=[direction.capitalize()],
            **{direction: rules},
        )
    ]


def _rule(direction: str, peers: list[Any], ports: list[Any] | None = None) -> dict[str, Any]:
    return {"from" if direction == "ingress" else "to": peers, "ports": ports or []}


def _peers() -> dict[str, Policies]:
    found = {}
    for direction in DIRECTIONS:
        found[f"peers {direction} none"] = _with(direction, [_rule(direction, [])])
        for number, peer in enumerate(PEERS):
            found[f"peers {direction} {number}"] = _with(direction, [_rule(direction, [peer])])
        for (one, first), (two, second) in combinations(enumerate(PEERS), 2):
            found[f"peers {direction} {one},{two}"] = _with(
                direction, [_rule(direction, [first, second])]
            )
    return found


def _port(protocol: str | None, port: Any = None, end: int | None = None) -> dict[str, Any]:
    made = {"protocol": protocol, "port": port, "endPort": end}
    return {name: value for name, value in made.items() if value is not None}


_PROTOCOLS = ("TCP", "UDP", "SCTP")
SINGLE_PORTS = (
    *(_port(protocol, port) for protocol in (None, *_PROTOCOLS) for port in (None, 80, 81)),
    *(
        _port(protocol, f"serve-{port}-{protocol.lower()}")
        for protocol in _PROTOCOLS
        for port in (80, 81)
    ),
    *(_port(protocol, 53, end) for protocol in _PROTOCOLS for end in (80, 84)),
)
ODD_PORTS = (_port("TCP", "serve-80-udp"), _port("TCP", "not-served"), _port("TCP", 7981))
PORT_PAIRS = (
    (_port("TCP"), _port("UDP")),
    (_port("TCP", 80), _port("TCP", 81)),
    (_port("TCP", 80), _port("UDP", 81)),
    (_port("TCP", "serve-80-tcp"), _port("TCP", 81)),
    (_port("TCP", "serve-80-tcp"), _port("UDP", "serve-81-udp")),
    (_port("TCP"), _port("UDP", "serve-81-udp")),
    (_port("SCTP", 80), _port("TCP", 60, 80)),
)


def _ports() -> dict[str, Policies]:
    lists = [
        [],
        *([one] for one in (*SINGLE_PORTS, *ODD_PORTS)),
        *(list(pair) for pair in PORT_PAIRS),
    ]
    return {
        f"ports {direction} {number}": _with(direction, [_rule(direction, [], ports)])
        for direction in DIRECTIONS
        for number, ports in enumerate(lists)
    }


def _targets() -> dict[str, Policies]:
    everything = {"podSelector": {}, "policyTypes": ["Ingress"]}
    expression = {"matchExpressions": [{"key": "pod", "operator": "In", "values": ["a", "c"]}]}
    return {
        **{f"target {name}": [policy("deny", name, **everything)] for name in "xyz"},
        "target all": _with("ingress", [], {}),
        "target labels": _with("ingress", []),
        "target expression": _with("egress", [], expression),
    }


def _rules() -> dict[str, Policies]:
    every: tuple[tuple[str, list[dict[str, Any]]], ...] = (("deny all", []), ("allow all", [{}]))
    return {
        f"rules {direction} {name}": _with(direction, rules, {})
        for direction in DIRECTIONS
        for name, rules in every
    }


def _conflicts() -> dict[str, Policies]:
    allow: dict[str, Any] = {}
    found: dict[str, Policies] = {}
    for side, other in (("ingress", "egress"), ("egress", "ingress")):
        for name, nothing in (("empty", []), ("null", None)):
            found[f"conflict {side} {name}, other side allows"] = [
                *_with(side, nothing, {}, "x"),
                *_with(other, [allow], {}, "y"),
            ]
            found[f"conflict {side} {name}, allowed too"] = [
                *_with(side, nothing, {}, "x"),
                *_renamed(_with(side, [allow], {}, "x")),
            ]
        pods = [_rule(side, [{"podSelector": {"matchLabels": {"pod": "b"}}}])]
        block = [_rule(side, [{"ipBlock": {"cidr": "10.1.0.3/32"}}])]
        found[f"conflict {side} pod allowed, all denied"] = [
            *_with(side, pods, {}),
            *_renamed(_with(side, [], {})),
        ]
        found[f"conflict {side} address allowed, all denied"] = [
            *_with(side, block, {}),
            *_renamed(_with(side, [], {})),
        ]
        holes = [_rule(side, [{"ipBlock": {"cidr": "10.1.0.0/16", "except": ["10.1.1.0/24"]}}])]
        found[f"conflict {side} block with a hole"] = _with(side, holes, {})
        inner = [_rule(side, [{"ipBlock": {"cidr": "10.1.1.4/32"}}])]
        found[f"conflict {side} hole allowed by another"] = [
            *_with(side, holes, {}),
            *_renamed(_with(side, inner, {})),
        ]
    return found


def _renamed(policies: Policies) -> Policies:
    return [
        {**one, "metadata": {**one["metadata"], "name": f"other-{n}"}}
        for n, one in enumerate(policies)
    ]


def _ipv6() -> dict[str, Policies]:
    found = {}
    for direction in DIRECTIONS:
        for number, peer in enumerate(IPV6_PEERS):
            found[f"ipv6 {direction} {number}"] = _with(direction, [_rule(direction, [peer])])
        ports = [_port("TCP", 80)]
        found[f"ipv6 {direction} port"] = _with(
            direction, [_rule(direction, [IPV6_PEERS[1]], ports)], {}
        )
        both = [PEERS[-1], IPV6_PEERS[1]]
        found[f"ipv6 {direction} and ipv4"] = _with(direction, [_rule(direction, both)], {})
    return found


def _labels() -> dict[str, Policies]:
    named = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "y"}}}
    return {
        f"default label {direction}": _with(direction, [_rule(direction, [named])])
        for direction in DIRECTIONS
    }


def _upstream() -> dict[str, Policies]:
    def select(name: str) -> dict[str, Any]:
        return {"matchLabels": {"pod": name}}

    y = {"matchLabels": {"ns": "y"}}
    not_x = {"matchExpressions": [{"key": "ns", "operator": "NotIn", "values": ["x"]}]}
    exists = {"matchExpressions": [{"key": "ns", "operator": "Exists"}]}
    pod_b_or_c = {"matchExpressions": [{"key": "pod", "operator": "In", "values": ["b", "c"]}]}
    return {
        "upstream default deny": [policy("deny", "x", podSelector={})],
        "upstream from pods of the namespace": _with(
            "ingress", [{"from": [{"podSelector": select("b")}]}]
        ),
        "upstream from a namespace": _with("ingress", [{"from": [{"namespaceSelector": y}]}]),
        "upstream from other namespaces": _with(
            "ingress", [{"from": [{"namespaceSelector": not_x}]}]
        ),
        "upstream pod or namespace": _with(
            "ingress", [{"from": [{"podSelector": select("b")}, {"namespaceSelector": y}]}]
        ),
        "upstream pod and namespace": _with(
            "ingress", [{"from": [{"podSelector": select("b"), "namespaceSelector": y}]}]
        ),
        "upstream expressions": _with(
            "ingress", [{"from": [{"podSelector": pod_b_or_c, "namespaceSelector": exists}]}]
        ),
        "upstream port": _with("ingress", [{"ports": [_port(None, 81)]}]),
        "upstream stacked": [
            *_with("ingress", [{"ports": [_port(None, 80)], "from": [{"namespaceSelector": y}]}]),
            *_renamed(
                _with("ingress", [{"ports": [_port(None, 81)], "from": [{"namespaceSelector": y}]}])
            ),
        ],
        "upstream named port in": _with("ingress", [{"ports": [_port(None, "serve-81-tcp")]}]),
        "upstream named port out": _with("egress", [{"ports": [_port(None, "serve-80-tcp")]}]),
        "upstream both directions": [
            policy(
                "both",
                "x",
                podSelector={},
                policyTypes=["Ingress", "Egress"],
                ingress=[{"from": [{"podSelector": {}}]}],
                egress=[{"to": [{"podSelector": {}}]}],
            )
        ],
        "upstream no types, egress given": [
            policy("untyped", "x", podSelector={}, egress=[{"to": [{"namespaceSelector": y}]}])
        ],
    }


CASES: dict[str, Policies] = {
    **_peers(),
    **_ports(),
    **_targets(),
    **_rules(),
    **_conflicts(),
    **_ipv6(),
    **_labels(),
    **_upstream(),
}
