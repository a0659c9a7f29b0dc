"""What Kubernetes says of a connection, computed the slow way from the API objects.

Written from the documentation of NetworkPolicy and of AdminNetworkPolicy, on the plain JSON data,
without any of the code under test: each packet is judged by reading all policies again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any


@dataclass(frozen=True)
class Pod:
    """A pod; `address6` is its IPv6 address, `ports` has (protocol, number) by name."""

    namespace: str
    name: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    address6: str = ""


@dataclass
class KubeCluster:
    """The objects of a cluster as an API server has them."""

    namespaces: dict[str, dict[str, str]]
    pods: dict[tuple[str, str], Pod]
    policies: list[dict[str, Any]] = field(default_factory=list)
    admin: list[dict[str, Any]] = field(default_factory=list)
    baseline: list[dict[str, Any]] = field(default_factory=list)
    tiered: list[dict[str, Any]] = field(default_factory=list)
    """ClusterNetworkPolicies."""
    nodes: dict[str, tuple[dict[str, str], str]] = field(default_factory=dict)


def allowed(cluster: KubeCluster, source: str, target: str, protocol: str, port: int) -> bool:
    """Return whether a connection between two addresses passes both directions."""
    return all(
        _direction(cluster, direction, (source, target), protocol, port)
        for direction in ("egress", "ingress")
    )


def _direction(
    cluster: KubeCluster, direction: str, ends: tuple[str, str], protocol: str, port: int
) -> bool:
    source, target = ends
    subject, peer = (source, target) if direction == "egress" else (target, source)
    pod = _pod(cluster, subject)
    if pod is None:
        return True
    packet = _Packet(cluster, direction, pod, peer, _pod(cluster, target), protocol, port)
    verdict = packet.first(_ranked([*cluster.admin, *_of_tier(cluster, "Admin")]))
    if verdict in {"Allow", "Accept", "Deny"}:
        return verdict != "Deny"
    isolated, passes = packet.by_policies()
    if isolated:
        return passes
    baseline = [*_ranked(_of_tier(cluster, "Baseline")), *cluster.baseline]
    return packet.first(baseline) != "Deny"


def _of_tier(cluster: KubeCluster, tier: str) -> list[dict[str, Any]]:
    return [one for one in cluster.tiered if one["spec"]["tier"] == tier]


def _ranked(policies: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(policies, key=lambda one: (one["spec"]["priority"], one["metadata"]["name"]))


def _pod(cluster: KubeCluster, address: str) -> Pod | None:
    found = (pod for pod in cluster.pods.values() if address in {pod.address, pod.address6})
    return next(found, None)


@dataclass
class _Packet:
    cluster: KubeCluster
    direction: str
    subject: Pod
    peer: str
    target: Pod | None
    protocol: str
    port: int

    # -- NetworkPolicy

    def by_policies(self) -> tuple[bool, bool]:
        isolated = passes = False
        for policy in self.cluster.policies:
            spec = policy["spec"]
            if policy["metadata"]["namespace"] != self.subject.namespace:
                continue
            if not selects(spec.get("podSelector", {}), self.subject.labels):
                continue
            if not _isolates(spec, self.direction):
                continue
            isolated = True
            rules = spec.get(self.direction) or []
            passes = passes or any(self._rule(rule, self.subject.namespace) for rule in rules)
        return isolated, passes

    def _rule(self, rule: Mapping[str, Any], namespace: str) -> bool:
        peers = rule.get("from" if self.direction == "ingress" else "to") or []
        ports = rule.get("ports") or []
        return (not peers or any(self._peer(one, namespace) for one in peers)) and (
            not ports or any(self._port(one) for one in ports)
        )

    def _peer(self, peer: Mapping[str, Any], namespace: str) -> bool:
        block = peer.get("ipBlock")
        if block is not None:
            return _inside(self.peer, block["cidr"]) and not any(
                _inside(self.peer, hole) for hole in block.get("except") or []
            )
        pod = _pod(self.cluster, self.peer)
        if pod is None:
            return False
        if peer.get("namespaceSelector") is None:
            if pod.namespace != namespace:
                return False
        elif not selects(peer["namespaceSelector"], self.cluster.namespaces[pod.namespace]):
            return False
        return peer.get("podSelector") is None or selects(peer["podSelector"], pod.labels)

    def _port(self, port: Mapping[str, Any]) -> bool:
        if port.get("protocol", "TCP") != self.protocol:
            return False
        number = port.get("port")
        if number is None:
            return True
        if isinstance(number, str):
            served = self.target.ports.get(number) if self.target else None
            return served == (self.protocol, self.port)
        return bool(number <= self.port <= port.get("endPort", number))

    # -- administrators' policies

    def first(self, policies: Iterable[Mapping[str, Any]]) -> str | None:
        for policy in policies:
            spec = policy["spec"]
            if self._admin_end(spec["subject"], self.subject.address):
                for rule in spec.get(self.direction) or []:
                    if self._admin_rule(rule):
                        return str(rule["action"])
        return None

    def _admin_rule(self, rule: Mapping[str, Any]) -> bool:
        peers = rule["from" if self.direction == "ingress" else "to"]
        ports = rule.get("ports") or []
        protocols = rule.get("protocols") or []
        return (
            any(self._admin_end(one, self.peer) for one in peers)
            and (not ports or any(self._admin_port(one) for one in ports))
            and (not protocols or any(self._protocol(one) for one in protocols))
        )

    def _protocol(self, wanted: Mapping[str, Any]) -> bool:
        if "destinationNamedPort" in wanted:
            return self._admin_port({"namedPort": wanted["destinationNamedPort"]})
        ((name, attributes),) = wanted.items()
        port = attributes["destinationPort"]
        span = port.get("range") or {"start": port.get("number"), "end": port.get("number")}
        return bool(name.upper() == self.protocol and span["start"] <= self.port <= span["end"])

    def _admin_end(self, end: Mapping[str, Any], address: str) -> bool:
        if "networks" in end:
            return any(_inside(address, one) for one in end["networks"])
        if "nodes" in end:
            return any(
                at == address and selects(end["nodes"], labels)
                for labels, at in self.cluster.nodes.values()
            )
        pod = _pod(self.cluster, address)
        if pod is None:
            return False
        labels = self.cluster.namespaces[pod.namespace]
        if "namespaces" in end:
            return selects(end["namespaces"], labels)
        both = end["pods"]
        return selects(both["namespaceSelector"], labels) and selects(
            both["podSelector"], pod.labels
        )

    def _admin_port(self, port: Mapping[str, Any]) -> bool:
        if "namedPort" in port:
            served = self.target.ports.get(port["namedPort"]) if self.target else None
            return served == (self.protocol, self.port)
        if "portNumber" in port:
            one = port["portNumber"]
            return bool(one["protocol"] == self.protocol and one["port"] == self.port)
        span = port["portRange"]
        return bool(span["protocol"] == self.protocol and span["start"] <= self.port <= span["end"])


def _isolates(spec: Mapping[str, Any], direction: str) -> bool:
    types = spec.get("policyTypes")
    if types:
        return direction.capitalize() in types
    return direction == "ingress" or bool(spec.get("egress"))


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a label selector holds."""
    for name, value in (selector.get("matchLabels") or {}).items():
        if labels.get(name) != value:
            return False
    for one in selector.get("matchExpressions") or []:
        there, values = one["key"] in labels, one.get("values") or []
        holds = {
            "In": labels.get(one["key"]) in values,
            "NotIn": not there or labels[one["key"]] not in values,
            "Exists": there,
            "DoesNotExist": not there,
        }[one["operator"]]
        if not holds:
            return False
    return True


@cache
def _inside(address: str, network: str) -> bool:
    where, within = ip_address(address), ip_network(network)
    return where.version == within.version and where in within
