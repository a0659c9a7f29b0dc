"""Conversations as the fewest policies of Kubernetes that allow them, and nothing else. Pure.

In come conversations (`state.conversations`) of pods; out come NetworkPolicies: one for each
namespace and group of pods, which are chosen by the label that placed them in their group.
"""

# Unlike the rules of Contiv, NetworkPolicies follow connections and are judged at each end alone:
# each end has to allow what it sends and what it gets, and answers need nothing.

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from netmaster.view import View, network_named
from state.conversations import Conversation, Party

Json = dict[str, Any]
GROUP_LABEL: Final = "io.contiv.net-group"
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""The label that Kubernetes gives each namespace."""
_PROTOCOLS: Final = {"tcp": "TCP", "udp": "UDP", "sctp": "SCTP"}
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_LONGEST: Final = 63
_TYPES: Final = {"ingress": "from", "egress": "to"}


class _Pods(NamedTuple):
    """The pods of a group in a namespace; of no group if it is empty."""

    namespace: str
    group: str


_Peer = _Pods | str
"""Pods, or a block of addresses."""
_Port = tuple[str, int]
_Allowed = dict[_Peer, set[_Port]]


def network_policies(
    view: View, tenant: str, seen: Iterable[Conversation], groups: Collection[str]
) -> tuple[list[Json], list[str]]:
    """Return the policies, and what they cannot say.

    `groups` are those whose pods get policies, all pods if there are none.
    """
    allowed: dict[_Pods, dict[str, _Allowed]] = {}
    unsaid = set()
    for one in seen:
        ends = {"ingress": (one.destination, one.source), "egress": (one.source, one.destination)}
        for way, (own, far) in ends.items():
            if not own.namespace or (groups and own.group not in groups):
                continue
            pods = _Pods(own.namespace, own.group)
            of_pods = allowed.setdefault(pods, {name: defaultdict(set) for name in _TYPES})
            if one.protocol not in _PROTOCOLS:
                unsaid.add(
                    f"{one.protocol} of pods of {_called(pods)}: policies know no ports of it"
                )
                continue
            for peer in _peers(view, tenant, far):
                of_pods[way][peer].add((_PROTOCOLS[one.protocol], one.port))
    names = _names(sorted(allowed))
    return [_policy(name, pods, allowed[pods]) for pods, name in names.items()], sorted(unsaid)


def _called(pods: _Pods) -> str:
    return f"{pods.namespace}/{pods.group}" if pods.group else pods.namespace


def _peers(view: View, tenant: str, far: Party) -> list[_Peer]:
    if far.namespace:
        return [_Pods(far.namespace, far.group)]
    if far.address:
        return [f"{far.address}/{128 if ':' in far.address else 32}"]
    network = network_named(view, far.network, tenant)
    if network is None:
        return []
    v6 = f"{network.ipv6_subnet}/{network.ipv6_subnet_len}" if network.ipv6_subnet else ""
    return [block for block in (str(network.v4 or ""), v6) if block]


def _names(all_pods: Iterable[_Pods]) -> dict[_Pods, str]:
    """Return a name for each policy, which no other of its namespace has."""
    # Groups have more letters than Kubernetes' names, which would make one of `a.b` and `a-b`.
    taken: set[tuple[str, str]] = set()
    found = {}
    for pods in all_pods:
        plain = _NO_NAME.sub("-", f"seen-{pods.group or 'no-group'}".lower())
        tails = ("", *(f"-{number}" for number in range(2, len(taken) + 2)))
        names = (plain[: _LONGEST - len(tail)].strip("-") + tail for tail in tails)
        found[pods] = next(one for one in names if (pods.namespace, one) not in taken)
        taken.add((pods.namespace, found[pods]))
    return found


def _policy(name: str, pods: _Pods, allowed: Mapping[str, _Allowed]) -> Json:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": pods.namespace},
        "spec": {
            "podSelector": _chosen(pods),
            "policyTypes": [way.capitalize() for way in _TYPES],
            **{way: _rules(allowed[way], word) for way, word in _TYPES.items()},
        },
    }


def _chosen(pods: _Pods) -> Json:
    if pods.group:
        return {"matchLabels": {GROUP_LABEL: pods.group}}
    return {"matchExpressions": [{"key": GROUP_LABEL, "operator": "DoesNotExist"}]}


def _rules(allowed: _Allowed, word: str) -> list[Json]:
    """Return a rule for each set of ports, with all ends that have it."""
    by_ports: dict[tuple[_Port, ...], list[_Peer]] = defaultdict(list)
    for peer, ports in allowed.items():
        by_ports[tuple(sorted(ports))].append(peer)
    return [
        {word: [_end(one) for one in sorted(peers, key=str)], "ports": _ports(ports)}
        for ports, peers in sorted(by_ports.items())
    ]


def _end(peer: _Peer) -> Json:
    if isinstance(peer, str):
        return {"ipBlock": {"cidr": peer}}
    return {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: peer.namespace}},
        "podSelector": _chosen(peer),
    }


def _ports(ports: Iterable[_Port]) -> list[Json]:
    """Return sorted ports, those that follow each other as one range."""
    runs: list[tuple[str, int, int]] = []
    for protocol, port in ports:
        if runs and runs[-1][0] == protocol and runs[-1][2] + 1 == port:
            runs[-1] = (protocol, runs[-1][1], port)
        else:
            runs.append((protocol, port, port))
    return [
        {"protocol": protocol, "port": first, **({"endPort": last} if last > first else {})}
        for protocol, first, last in runs
    ]
