"""ClusterNetworkPolicy of `policy.networking.k8s.io/v1alpha2`, read as an administrator's policy.

In comes the server's object, out goes a `ClusterPolicy` in the words of the older kinds
(`objects`). A rule that cannot be followed fails closed, as the API asks of peers that are unknown:
one that accepts matches nothing, one that denies or passes denies everything in its place. Pure.
"""

from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from netplugin.world.kubernetes.kube_objects import KubeObject, Part, exactly_one, parse
from netplugin.world.kubernetes.policy_objects import (
    AdminPeer,
    AdminPolicy,
    AdminPort,
    AdminRule,
    AdminSpec,
    Network,
    PodsOf,
    PolicyMeta,
    PortNumber,
    PortRange,
    Protocol,
)
from netplugin.world.kubernetes.selectors import Selector

CLUSTER_POLICIES: Final = "clusternetworkpolicies"

BASELINE: Final = "Baseline"
Tier = Literal["Admin", "Baseline"]

_ACTIONS: Final[dict[str, Literal["Allow", "Deny", "Pass"]]] = {
    "Accept": "Allow",
    "Deny": "Deny",
    "Pass": "Pass",
}
_EVERYONE: Final = AdminPeer(networks=(IPv4Network("0.0.0.0/0"), IPv6Network("::/0")))
_DENY_ALL: Final = AdminRule.model_validate({"action": "Deny", "to": [_EVERYONE]})


class ClusterPolicy(AdminPolicy):
    """A ClusterNetworkPolicy; `unfollowed` says which of its rules fail closed, and why."""

    tier: Tier
    unfollowed: tuple[str, ...] = ()

    @property
    def baseline(self) -> bool:
        """Whether it is asked after the NetworkPolicies."""
        return self.tier == BASELINE


class _Strict(Part):
    """A part of a rule: what a later version of the API adds would make the rule another one."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _Peer(_Strict):
    namespaces: Selector | None = None
    pods: PodsOf | None = None
    nodes: Selector | None = None
    networks: tuple[Network, ...] | None = None
    domain_names: tuple[str, ...] | None = Field(None, alias="domainNames")

    @model_validator(mode="after")
    def _followed(self) -> "_Peer":
        if self.domain_names is not None:
            raise ValueError("domainNames are not followed: name the addresses in networks")
        exactly_one(
            namespaces=self.namespaces, pods=self.pods, nodes=self.nodes, networks=self.networks
        )
        return self

    def admin_peer(self) -> AdminPeer:
        return AdminPeer(
            namespaces=self.namespaces, pods=self.pods, nodes=self.nodes, networks=self.networks
        )


class _Ports(_Strict):
    number: int | None = Field(None, ge=1, le=65535)
    range: "_Range | None" = None

    @model_validator(mode="after")
    def _one_kind(self) -> "_Ports":
        exactly_one(number=self.number, range=self.range)
        return self


class _Range(_Strict):
    start: int = Field(ge=1, le=65535)
    end: int = Field(ge=1, le=65535)

    @model_validator(mode="after")
    def _ordered(self) -> "_Range":
        if self.end < self.start:
            raise ValueError("a range of ports must not end before its start")
        return self


class _Attributes(_Strict):
    """What a protocol's packets must have; at least a port, for the API has nothing else."""

    ports: _Ports = Field(alias="destinationPort")


class _Protocol(_Strict):
    tcp: _Attributes | None = None
    udp: _Attributes | None = None
    sctp: _Attributes | None = None
    named: str | None = Field(None, alias="destinationNamedPort", min_length=1)

    @model_validator(mode="after")
    def _one_kind(self) -> "_Protocol":
        exactly_one(tcp=self.tcp, udp=self.udp, sctp=self.sctp, destinationNamedPort=self.named)
        return self

    def admin_port(self) -> AdminPort:
        if self.named is not None:
            return AdminPort(namedPort=self.named)
        given: tuple[tuple[Protocol, _Attributes | None], ...]
        given = (("TCP", self.tcp), ("UDP", self.udp), ("SCTP", self.sctp))
        name, ports = next((name, one.ports) for name, one in given if one is not None)
        if ports.range is None:
            return AdminPort(portNumber=PortNumber(protocol=name, port=ports.number or 0))
        start, end = ports.range.start, ports.range.end
        return AdminPort(portRange=PortRange(protocol=name, start=start, end=end))


class _Rule(_Strict):
    name: str = ""
    action: Literal["Accept", "Deny", "Pass"]
    sources: tuple[_Peer, ...] = Field((), alias="from")
    destinations: tuple[_Peer, ...] = Field((), alias="to")
    protocols: tuple[_Protocol, ...] | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _has_peers(self) -> "_Rule":
        if bool(self.sources) == bool(self.destinations):
            raise ValueError("a rule has peers, in either from or to")
        return self


class _Subject(Part):
    namespaces: Selector | None = None
    pods: PodsOf | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "_Subject":
        exactly_one(namespaces=self.namespaces, pods=self.pods)
        return self


class _Spec(Part):
    tier: Tier
    priority: int = Field(ge=0, le=1000)
    subject: _Subject
    ingress: tuple[Any, ...] = Field((), max_length=100)
    egress: tuple[Any, ...] = Field((), max_length=100)


class _Object(Part):
    metadata: PolicyMeta
    spec: _Spec


def read_cluster_policy(received: KubeObject) -> ClusterPolicy:
    """Return a ClusterNetworkPolicy. Raises Invalid if it cannot be told whom it is about."""
    found = parse(_Object, CLUSTER_POLICIES, received)
    spec, unfollowed = found.spec, list[str]()
    rules = {
        way: tuple(
            _rule(one, f"{way}[{at}]", unfollowed) for at, one in enumerate(getattr(spec, way))
        )
        for way in ("ingress", "egress")
    }
    return ClusterPolicy(
        metadata=found.metadata,
        tier=spec.tier,
        unfollowed=tuple(unfollowed),
        spec=AdminSpec(
            priority=spec.priority,
            subject=AdminPeer(namespaces=spec.subject.namespaces, pods=spec.subject.pods),
            **rules,
        ),
    )


def _rule(received: Any, where: str, unfollowed: list[str]) -> AdminRule:
    """Return a rule, which fails closed if it cannot be followed; say so in `unfollowed`."""
    try:
        rule = _Rule.model_validate(received)
    except (ValidationError, RecursionError) as exc:
        accepts = isinstance(received, dict) and received.get("action") == "Accept"
        effect = "the rule matches nothing" if accepts else "the rule denies everything"
        unfollowed.append(f"spec.{where}{_reason(exc)}; until it is mended {effect}")
        return AdminRule(action="Allow") if accepts else _DENY_ALL
    return AdminRule.model_validate(
        {
            "action": _ACTIONS[rule.action],
            "from": [one.admin_peer() for one in rule.sources],
            "to": [one.admin_peer() for one in rule.destinations],
            "ports": [one.admin_port() for one in rule.protocols or ()],
        }
    )


def _reason(exc: ValidationError | RecursionError) -> str:
    if not isinstance(exc, ValidationError):
        return ": nested too deep"
    first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    path = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"])
    return f"{path}: {first['msg'].removeprefix('Value error, ')}"
