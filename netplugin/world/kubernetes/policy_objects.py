"""The policy objects of Kubernetes as typed values. Pure.

NetworkPolicy is of `networking.k8s.io/v1`, AdminNetworkPolicy and BaselineAdminNetworkPolicy of
`policy.networking.k8s.io/v1alpha1`; `cluster_policies` reads v1alpha2. `read` checks an object and
names the field that is wrong: a policy that cannot be read must not silently have no effect.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from netplugin.world.kubernetes.kube_objects import (
    KubeObject,
    Part,
    exactly_one,
    parse,
    without_leading_zeros,
)
from netplugin.world.kubernetes.selectors import Selector

NETWORK_POLICIES: Final = "networkpolicies"
ADMIN_POLICIES: Final = "adminnetworkpolicies"
BASELINE_POLICIES: Final = "baselineadminnetworkpolicies"


def _read_network(value: object) -> IPv4Network | IPv6Network:
    """Return a network as Kubernetes' own programs read it. Raises ValueError."""
    # `ParseCIDRSloppy` of k8s.io/utils/net: leading zeros are decimal, and bits of a host are cut.
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if not isinstance(value, str) or "/" not in value:
        raise ValueError("not a network")
    return ip_network(without_leading_zeros(value), strict=False)


Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_read_network)]
Protocol = Literal["TCP", "UDP", "SCTP"]
PROTOCOLS: Final = {"TCP": 6, "UDP": 17, "SCTP": 132}


class PolicyMeta(Part):
    """Name and namespace; cluster-wide objects have no namespace."""

    name: str
    namespace: str = ""


class IpBlock(Part):
    """Addresses inside `cidr` and outside every one of `excluded`."""

    cidr: Network
    excluded: tuple[Network, ...] = Field((), alias="except")

    @model_validator(mode="after")
    def _inside(self) -> "IpBlock":
        for one in self.excluded:
            if one.version != self.cidr.version or not one.subnet_of(self.cidr):  # type: ignore[arg-type]
                raise ValueError(f"except {one} is not inside {self.cidr}")
        return self


class PolicyPeer(Part):
    """The other end of a NetworkPolicy's rule.

    Pods selected by `pods` in the policy's own namespace, or in those that `namespaces` selects;
    or addresses.
    """

    pods: Selector | None = Field(None, alias="podSelector")
    namespaces: Selector | None = Field(None, alias="namespaceSelector")
    block: IpBlock | None = Field(None, alias="ipBlock")

    @model_validator(mode="after")
    def _one_kind(self) -> "PolicyPeer":
        selects = self.pods is not None or self.namespaces is not None
        if selects == (self.block is not None):
            raise ValueError("a peer has either selectors or an ipBlock")
        return self


class PolicyPort(Part):
    """Ports of one protocol: all (None), one by number or name, or those up to `end`."""

    protocol: Protocol = "TCP"
    port: int | str | None = None
    end: int | None = Field(None, alias="endPort", ge=1, le=65535)

    @model_validator(mode="after")
    def _range(self) -> "PolicyPort":
        if isinstance(self.port, int) and not 1 <= self.port <= 65535:
            raise ValueError(f"{self.port} is not a port")
        if self.end is not None and (not isinstance(self.port, int) or self.end < self.port):
            raise ValueError("endPort needs a numbered port that is not above it")
        return self


class PolicyIngress(Part):
    """A rule for packets to the selected pods; no peers, or no ports, means any."""

    peers: tuple[PolicyPeer, ...] = Field((), alias="from")
    ports: tuple[PolicyPort, ...] = ()


class Egress(Part):
    """A rule for packets from the selected pods; no peers, or no ports, means any."""

    peers: tuple[PolicyPeer, ...] = Field((), alias="to")
    ports: tuple[PolicyPort, ...] = ()


class PolicySpec(Part):
    """What a NetworkPolicy allows the pods that it selects."""

    pods: Selector = Field(default_factory=Selector, alias="podSelector")
    ingress: tuple[PolicyIngress, ...] = ()
    egress: tuple[Egress, ...] = ()
    types: tuple[Literal["Ingress", "Egress"], ...] = Field((), alias="policyTypes")

    @property
    def isolates_ingress(self) -> bool:
        """Whether selected pods get only what a policy allows; so unless the types say other."""
        return not self.types or "Ingress" in self.types

    @property
    def isolates_egress(self) -> bool:
        """Whether selected pods send only what a policy allows."""
        return "Egress" in self.types if self.types else bool(self.egress)


class NetworkPolicy(Part):
    """A NetworkPolicy."""

    metadata: PolicyMeta
    spec: PolicySpec = Field(default_factory=PolicySpec)


class PodsOf(Part):
    """Pods of namespaces, both selected by labels."""

    namespaces: Selector = Field(alias="namespaceSelector")
    pods: Selector = Field(alias="podSelector")


class AdminPeer(Part):
    """The subject or a peer of an administrator's policy: exactly one of its fields."""

    namespaces: Selector | None = None
    pods: PodsOf | None = None
    nodes: Selector | None = None
    networks: tuple[Network, ...] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "AdminPeer":
        exactly_one(
            namespaces=self.namespaces, pods=self.pods, nodes=self.nodes, networks=self.networks
        )
        return self


class PortNumber(Part):
    """One port."""

    protocol: Protocol = "TCP"
    port: int = Field(ge=1, le=65535)


class PortRange(Part):
    """The ports from `start` to `end`."""

    protocol: Protocol = "TCP"
    start: int = Field(ge=1, le=65535)
    end: int = Field(ge=1, le=65535)

    @model_validator(mode="after")
    def _ordered(self) -> "PortRange":
        if self.end < self.start:
            raise ValueError("a port range must not end before its start")
        return self


class AdminPort(Part):
    """A port of an administrator's policy: exactly one of its fields."""

    number: PortNumber | None = Field(None, alias="portNumber")
    named: str | None = Field(None, alias="namedPort")
    range: PortRange | None = Field(None, alias="portRange")

    @model_validator(mode="after")
    def _one_kind(self) -> "AdminPort":
        exactly_one(portNumber=self.number, namedPort=self.named, portRange=self.range)
        return self


class AdminRule(Part):
    """A rule of an administrator's policy; no ports means any, and there is at least one peer."""

    action: Literal["Allow", "Deny", "Pass"]
    sources: tuple[AdminPeer, ...] = Field((), alias="from")
    destinations: tuple[AdminPeer, ...] = Field((), alias="to")
    ports: tuple[AdminPort, ...] = ()


class AdminSpec(Part):
    """The subject and the rules of an administrator's policy, the first that matches decides.

    A lower `priority` goes first; a baseline policy has none.
    """

    priority: int = Field(0, ge=0, le=1000)
    subject: AdminPeer
    ingress: tuple[AdminRule, ...] = Field((), max_length=100)
    egress: tuple[AdminRule, ...] = Field((), max_length=100)


class AdminPolicy(Part):
    """An AdminNetworkPolicy or BaselineAdminNetworkPolicy."""

    metadata: PolicyMeta
    spec: AdminSpec


Policy = NetworkPolicy | AdminPolicy

_KINDS: Final[dict[str, type[NetworkPolicy] | type[AdminPolicy]]] = {
    NETWORK_POLICIES: NetworkPolicy,
    ADMIN_POLICIES: AdminPolicy,
    BASELINE_POLICIES: AdminPolicy,
}


def read(resource: str, received: KubeObject) -> Policy:
    """Return a policy of a resource. Raises Invalid with the object's name and the field."""
    return parse(_KINDS[resource], resource, received)
