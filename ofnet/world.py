"""The World: the state of the cluster from which the flows of a bridge are made. Pure.

The agent fills it from store records and from its host (`netplugin.world.builder`); pipelines read
it and know nothing else. All values are immutable: a change is a new World, with the ids of what
changed beside it (`ofnet.changes`, ADR 11).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, NamedTuple

from core import addresses
from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId
from ofnet.openflow.fields import Flags


class FwdMode(StrEnum):
    """Whether endpoints are connected at layer 2 or by a distributed router."""

    BRIDGE = "bridge"
    ROUTING = "routing"


class ArpMode(StrEnum):
    """Whether ARP requests are answered on the host or flooded (bridge modes only)."""

    PROXY = "proxy"
    FLOOD = "flood"


class Bridge(StrEnum):
    """The two bridges every host has; the value is the OVS bridge name."""

    VXLAN = "contivVxlanBridge"
    VLAN = "contivVlanBridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network as seen on this host. `vlan` is host-local for vxlan networks; `vni` 0 for vlan.

    `vrf` is the tenant's VRF id on this host, 1..255; it never leaves the host. `granted` are the
    blocks of addresses that endpoints of the network are given, and nobody else may have.
    """

    id: NetworkId
    vrf: int
    vlan: int
    vni: int
    gateway: IPv4Address | None = None
    gateway6: IPv6Address | None = None
    granted: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEndpoint:
    """An endpoint on this host, with an address of IPv4, of IPv6, or both.

    `nat_ip` is its address on the host's private network.

    With an address of IPv6 it has one of `PRIVATE6` besides, which is made of that.

    `routed` are those of its addresses that the host reaches by its own port: all, unless another
    endpoint of this host has the same one.

    It sends at most `rate` kbit/s, beyond bursts of `burst` kbit; a rate of 0 is no limit here, a
    burst of 0 the default.

    `group_vlan` is the VLAN of its group: the network's, unless an ACI fabric gave the group one of
    its own; 0 without a group. `of_host` is an interface of the host itself on an infra network.
    """

    key: EndpointKey
    network: NetworkId
    ofport: int
    mac: str
    ip: IPv4Address | None = None
    ip6: IPv6Address | None = None
    group_id: int = 0
    dscp: int = 0
    group_vlan: int = 0
    rate: int = 0
    burst: int = 0
    nat_ip: IPv4Address | None = None
    routed: frozenset[IPv4Address | IPv6Address] = frozenset()
    of_host: bool = False

    @property
    def nat_ip6(self) -> IPv6Address | None:
        """Its address of IPv6 towards its host, if it has one."""
        if self.nat_ip is None or self.ip6 is None:
            return None
        return private6(self.nat_ip)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEndpoint:
    """An endpoint on another host; `of_host` as for a local one.

    `routed` says that this host sends to its addresses by the tunnel.
    """

    key: EndpointKey
    network: NetworkId
    host: HostLabel
    mac: str
    ip: IPv4Address | None = None
    ip6: IPv6Address | None = None
    group_id: int = 0
    routed: bool = True
    of_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vtep:
    """The tunnel port towards another host."""

    host: HostLabel
    ip: IPv4Address | IPv6Address
    ofport: int
    address4: IPv4Address | None = None
    """Its address of IPv4 at which tunnels end too, where `ip` is the one of IPv6."""

    @property
    def source(self) -> IPv4Address:
        """The address of IPv4 under which that host connects to other hosts' pods."""
        return tunnel_source4(self.address4 or self.ip)


TUNNEL_SOURCES4: Final = IPv4Network(str(addresses.TUNNEL_SOURCES4))
"""Where hosts whose tunnels end at IPv6 have an address of IPv4."""


def tunnel_source4(address: IPv4Address | IPv6Address) -> IPv4Address:
    """Return the address of IPv4 under which the host with this tunnel's address sends by it.

    That is the tunnel's own, or one that is made of it, so that each host knows those of all
    others. A host with tunnels of both families has that of IPv4.
    """
    if isinstance(address, IPv4Address):
        return address
    return IPv4Address(addresses.tunnel_source4(int(address)))


TUNNEL_SOURCES6: Final = IPv6Network(str(addresses.TUNNEL_SOURCES6))
"""Where hosts have the addresses of IPv6 under which they connect to other hosts' pods."""


def tunnel_source6(address: IPv4Address) -> IPv6Address:
    """Return the address of IPv6 of the host that sends by tunnels under this one of IPv4.

    So each host knows those of all others, and no record names them.
    """
    return TUNNEL_SOURCES6[int(address)]


HOSTS_OWN6: Final = IPv6Network(str(addresses.HOSTS_OWN6))
"""All addresses of IPv6 that hosts take for themselves: these, those of tunnels and of pods."""

PRIVATE6: Final = IPv6Network(str(addresses.PRIVATE6))
"""Where pods have addresses of IPv6 towards their host, each unique on it."""


def private6(private: IPv4Address) -> IPv6Address:
    """Return the address of IPv6 that goes with an address on the host's private network."""
    return PRIVATE6[int(private)]


FORWARDED_SOURCE6: Final = IPv6Address("fd63:6f6e:7469:7601::1")
"""What connections of pods have as source that the host translates and sends to a pod, by IPv6.

By IPv4 it is the host's own address on its private network (`HostPort.address`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """The host's own port on a bridge: `contivh0`, or `contivv0` on the vlan bridge.

    `subnet` is the host's private network. `sources` are the addresses under which the host itself
    connects to its pods, and those of `TUNNEL_SOURCES6` and of IPv4 the ones for pods of other
    hosts (`ofnet.pipelines.features.host_paths`). `others` are its other addresses, which it may
    use too. What comes in by the port from any other address the host forwards
    (`ofnet.pipelines.features.host_forwarding`).
    """

    ofport: int
    mac: str
    subnet: IPv4Network
    sources: frozenset[IPv4Address | IPv6Address] = frozenset()
    others: frozenset[IPv4Address | IPv6Address] = frozenset()

    @property
    def address(self) -> IPv4Address:
        """The host's own address on the private network: the last one."""
        return self.subnet.broadcast_address - 1

    @property
    def own(self) -> frozenset[IPv4Address | IPv6Address]:
        """The addresses of the host, under which it forwards nothing to its own pods."""
        return (self.sources | self.others) - {self.address, FORWARDED_SOURCE6}

    @property
    def has_ipv6(self) -> bool:
        """Whether pods come to the host by IPv6 too: some network has it."""
        return any(one.version == 6 for one in self.tunnel_sources)

    def of_pods(self, sender: IPv4Address | IPv6Address) -> bool:
        """Return whether an address is a pod's on the private network."""
        if isinstance(sender, IPv6Address):
            return sender in PRIVATE6
        return sender in self.subnet and sender != self.address

    @property
    def tunnel_sources(self) -> list[IPv4Address | IPv6Address]:
        """The sources for pods of other hosts."""
        return [one for one in self.sources if one.version == 4 or one in TUNNEL_SOURCES6]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePort:
    """The port of the agent's name service, which works for as long as the agent lives.

    A pod's DNS over TCP leaves by it for the agent (`ofnet.pipelines.features.name_port`).
    """

    ofport: int
    mac: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPort:
    """A pod's own interface to its host, for pods on networks without a gateway.

    `rate` and `burst` as of a local endpoint.
    """

    ofport: int
    mac: str
    ip: IPv4Address
    dscp: int = 0
    rate: int = 0
    burst: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """A NIC that connects the vlan bridge to the physical network.

    Several are the NICs of one bond and have one MAC address, that of the first. `up` says that
    frames can leave by it; it matters for the agent's own frames, not for flows.
    """

    ofport: int
    mac: str
    up: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """`inb01`, the host's interface for BGP with the peer on its network.

    `ip6` is the link-local address that the peer's network reaches this host's IPv6 pods by, and
    `global6` another one of IPv6 there. `peer_mac` is None until the peer has answered ARP or ND.
    """

    ofport: int
    mac: str
    peer: IPv4Address | IPv6Address
    ip: IPv4Address | None = None
    ip6: IPv6Address | None = None
    global6: IPv6Address | None = None
    peer_mac: str | None = None


class PolicyClass(NamedTuple):
    """That a group has the same policies as others: its id, and the smallest id among them all."""

    group_id: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A policy rule: allows or denies packets between groups; 0 and None mean any.

    `src_class` and `dst_class` stand for all groups of a `PolicyClass`, by its number; an end has a
    group, a class, or none of both.

    `priority` is 1..100; the greatest wins. Both addresses are of one family. Ports and flags apply
    to the protocols that have them. With `log` the agent is told of what it denies, and of new
    connections that it allows. With `audit` it decides nothing: packets that it would decide go on
    to the rules below it; with `log` too, the agent is told of what it would deny.
    """

    id: str
    priority: int
    allow: bool
    src_group: int = 0
    dst_group: int = 0
    src_class: int = 0
    dst_class: int = 0
    source: IPv4Network | IPv6Network | None = None
    destination: IPv4Network | IPv6Network | None = None
    protocol: int = 0
    src_port: int = 0
    dst_port: int = 0
    tcp_flags: Flags | None = None
    log: bool = False
    audit: bool = False


class PolicyStage(IntEnum):
    """The stages in which Kubernetes' policies judge a connection, in their order.

    The sender's stages come first, then the receiver's: administrators' policies, NetworkPolicies,
    the baseline.
    """

    EGRESS_ADMIN = 0
    EGRESS = 1
    EGRESS_BASELINE = 2
    INGRESS_ADMIN = 3
    INGRESS = 4
    INGRESS_BASELINE = 5


class Verdict(StrEnum):
    """What a rule says: `ALLOW` ends this direction, `PASS` goes on to its next stage."""

    ALLOW = "allow"
    DENY = "deny"
    PASS = "pass"  # noqa: S105 - no password


class PolicyMatch(NamedTuple):
    """The match of a flow of a policy stage; what is 0 or None matches anything.

    `version` is the IP version (4, 6) of a match without address; `port` counts under `port_mask`,
    and a mask of 0 means every port of the protocol. A match by `conjunction` has nothing else.
    """

    stage: PolicyStage
    priority: int
    vrf: int = 0
    version: int = 0
    source: IPv4Address | IPv6Address | IPv4Network | IPv6Network | None = None
    destination: IPv4Address | IPv6Address | IPv4Network | IPv6Network | None = None
    protocol: int = 0
    port: int = 0
    port_mask: int = 0
    conjunction: int = 0

    @property
    def name(self) -> str:
        """Text that identifies the match."""
        return " ".join(str(int(one)) if isinstance(one, int) else str(one or "-") for one in self)


class Membership(NamedTuple):
    """A match's part in a rule: the rule's conjunction, the clause (from 1), how many there are."""

    conjunction: int
    clause: int
    clauses: int


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """What a match of a policy stage leads to: a verdict, or its parts in rules."""

    match: PolicyMatch
    verdict: Verdict | None = None
    memberships: tuple[Membership, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicySubject:
    """An address of a pod of this host that policies of Kubernetes judge, in its tenant's VRF."""

    vrf: int
    address: IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class ManagementPort:
    """A port of the cluster's management, TCP (6) or UDP (17), that pods must not reach."""

    protocol: int
    port: int


@dataclass(frozen=True, slots=True, order=True)
class Provider:
    """Where a port of a service is provided: an address and a port.

    `vrf` is that of the pod that has the address. 0 stands for what is no pod, a host or an outside
    address, which clients of every tenant may reach.
    """

    address: IPv4Address | IPv6Address
    port: int
    vrf: int = 0


@dataclass(frozen=True, slots=True)
class ServicePort:
    """A port of a service, TCP (6) or UDP (17), with its providers.

    Without any, or without one for the client's tenant, connections are refused. Those in
    `draining` get no new connections and keep the ones they have.
    """

    protocol: int
    port: int
    providers: frozenset[Provider] = frozenset()
    draining: frozenset[Provider] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service: a virtual address, and the providers of each of its ports.

    `vrf` is that of its clients, 0 for clients of every tenant, each of which gets providers in its
    own VRF and those that are no pods. With an `affinity` a client gets the same provider for that
    many seconds after its last new connection. `clients` are the addresses that may be clients, ()
    for all.
    """

    key: str
    vrf: int
    address: IPv4Address | IPv6Address
    ports: tuple[ServicePort, ...]
    affinity: int = 0
    clients: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that one bridge of this host has to realise.

    * `barred`: the ports of endpoints here whose addresses are the underlay's: they send nothing.
    * `peer_macs`: the MAC of each other host's uplink, to which routed vlan traffic is sent.
    * `routes`: the next hop's MAC of each prefix learned by BGP, once that is known.
    * `management`, `management_ports`: the addresses of hosts, masters and store, and the ports
      there that pods must not reach (`ofnet.pipelines.features.pod_guard`).
    * `policy_classes`: the groups that share the flows of their policies' rules.
    * `policy_entries`, `policy_subjects`: Kubernetes' policies, and the addresses of pods of this
      host that they judge (`ofnet.pipelines.features.network_policy`).
    * `launches`: how often a group was announced to the ACI fabric, by group id.
    * `dns_address`: the address under which the agent is the pods' own name server, if it is
      (`ofnet.pipelines.features.cluster_dns`).
    * `guard`: pods send from their own addresses only (`ofnet.pipelines.packet_path.source_guard`).
    * `flow_records`: connections are told apart, and drops reported
      (`ofnet.pipelines.features.flow_records`).
    * `nd_extension`: the datapath can set the flags of ND messages and the kind of their options.
      The bridge's agent asks the switch; without it the agent completes the answers
      (`ofnet.pipelines.packet_path.neighbours`).
    * `unchanged_nat`: the datapath may track a connection with a translation that leaves it as it
      is (`ofnet.datapath`). The bridge's agent finds out (`ofnet.pipelines.features.service_nat`).
    * `learning`: the BGP peer has not sent all routes yet; routes on the switch are not deleted.
    * `kubernetes_partial`: services and policies of Kubernetes may exist that are not known; their
      flows on the switch stay.
    * `complete`: every source has been read once. No flow is written before (ADR 11).
    """

    fwd_mode: FwdMode
    arp_mode: ArpMode = ArpMode.PROXY
    networks: Mapping[NetworkId, Network] = field(default_factory=dict)
    local: Mapping[EndpointKey, LocalEndpoint] = field(default_factory=dict)
    barred: Mapping[EndpointKey, int] = field(default_factory=dict)
    remote: Mapping[EndpointKey, RemoteEndpoint] = field(default_factory=dict)
    vteps: Mapping[HostLabel, Vtep] = field(default_factory=dict)
    host_port: HostPort | None = None
    name_port: NamePort | None = None
    access: Mapping[EndpointKey, AccessPort] = field(default_factory=dict)
    uplinks: tuple[Uplink, ...] = ()
    peer_macs: Mapping[HostLabel, str] = field(default_factory=dict)
    router: Router | None = None
    routes: Mapping[IPv4Network | IPv6Network, str] = field(default_factory=dict)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    policy_classes: Mapping[GroupKey, PolicyClass] = field(default_factory=dict)
    services: Mapping[str, Service] = field(default_factory=dict)
    management: Mapping[str, IPv4Network | IPv6Network] = field(default_factory=dict)
    management_ports: Mapping[str, ManagementPort] = field(default_factory=dict)
    policy_entries: Mapping[str, PolicyEntry] = field(default_factory=dict)
    policy_subjects: Mapping[str, PolicySubject] = field(default_factory=dict)
    launches: Mapping[int, int] = field(default_factory=dict)
    dns_address: IPv4Address | IPv6Address | None = None
    guard: bool = False
    flow_records: bool = False
    nd_extension: bool = True
    unchanged_nat: bool = True
    learning: bool = False
    kubernetes_partial: bool = False
    complete: bool = False

    @property
    def commits_errors(self) -> bool:
        """Tell whether errors of ICMP are translated by what commits alone.

        So it is on the kernel's datapath, the one without the extension.
        """
        return not self.nd_extension
