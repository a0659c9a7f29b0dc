"""The World: the state of the cluster from which the flows of a bridge are made. Pure.

The agent fills it from store records and from its host (`netplugin.world.builder`); pipelines read
it and know nothing else. All values are immutable: a change is a new World, with the ids of what
changed beside it (`ofnet.changes`, ADR 11).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from core.ids import EndpointKey, HostLabel, NetworkId
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

    `vrf` is the tenant's VRF id on this host, 1..255; it never leaves the host.
    """

    id: NetworkId
    vrf: int
    vlan: int
    vni: int
    gateway: IPv4Address | None = None
    gateway6: IPv6Address | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEndpoint:
    """An endpoint on this host; `nat_ip` is its address on the host's private network.

    `group_vlan` is the VLAN of its group: the network's, unless an ACI fabric gave the group one of
    its own; 0 without a group. `of_host` is an interface of the host itself on an infra network.
    """

    key: EndpointKey
    network: NetworkId
    ofport: int
    mac: str
    ip: IPv4Address
    ip6: IPv6Address | None = None
    group_id: int = 0
    dscp: int = 0
    group_vlan: int = 0
    nat_ip: IPv4Address | None = None
    of_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEndpoint:
    """An endpoint on another host; `of_host` as for a local one."""

    key: EndpointKey
    network: NetworkId
    host: HostLabel
    mac: str
    ip: IPv4Address
    ip6: IPv6Address | None = None
    group_id: int = 0
    of_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vtep:
    """The tunnel port towards another host."""

    host: HostLabel
    ip: IPv4Address
    ofport: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """`contivh0`, the host's own port on the vxlan bridge, for NAT between pods and the host."""

    ofport: int
    mac: str
    subnet: IPv4Network

    @property
    def address(self) -> IPv4Address:
        """The host's own address on the private network: the last one."""
        return self.subnet.broadcast_address - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPort:
    """A pod's own interface to its host, for pods on networks without a gateway."""

    ofport: int
    mac: str
    ip: IPv4Address
    dscp: int = 0


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

    `peer_mac` is None until the peer has answered ARP.
    """

    ofport: int
    mac: str
    ip: IPv4Address
    peer: IPv4Address
    peer_mac: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A policy rule: allows or denies packets between groups; 0 and None mean any.

    `priority` is 1..100; the greatest wins. Both addresses are of one family. Ports and flags apply
    to the protocols that have them.
    """

    id: str
    priority: int
    allow: bool
    src_group: int = 0
    dst_group: int = 0
    source: IPv4Network | IPv6Network | None = None
    destination: IPv4Network | IPv6Network | None = None
    protocol: int = 0
    src_port: int = 0
    dst_port: int = 0
    tcp_flags: Flags | None = None


@dataclass(frozen=True, slots=True)
class ManagementPort:
    """A port of the cluster's management, TCP (6) or UDP (17), that pods must not reach."""

    protocol: int
    port: int


@dataclass(frozen=True, slots=True)
class ServicePort:
    """A port of a service, TCP (6) or UDP (17), with the port of its providers."""

    protocol: int
    port: int
    provider_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service: a virtual address, and the providers for packets to it.

    `vrf` is that of its clients, 0 for clients of every tenant. Without providers it has no flows.
    """

    key: str
    vrf: int
    address: IPv4Address
    ports: tuple[ServicePort, ...]
    providers: frozenset[IPv4Address]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A pod of this host that is a client of a service, with its provider.

    `vlan` is that of the client's network; `mac` is the provider's if it is on that network too.
    Replies of `ports` are identified by the provider's port alone. Each of `connections` (port of
    the service, port of the client) is identified by the client's port too, because another service
    has the same replies; so is each of `direct`, the connections to the provider's own address.
    """

    service: str
    address: IPv4Address
    vrf: int
    client: IPv4Address
    provider: IPv4Address
    vlan: int
    mac: str = ""
    ports: tuple[ServicePort, ...] = ()
    connections: tuple[tuple[ServicePort, int], ...] = ()
    direct: tuple[tuple[ServicePort, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that one bridge of this host has to realise.

    * `peer_macs`: the MAC of each other host's uplink, to which routed vlan traffic is sent.
    * `served`: the clients of services on this bridge, filled in by `ofnet.services.proxy`.
    * `routes`: the next hop's MAC of each prefix learned by BGP, once that is known.
    * `management`, `management_ports`: the addresses of hosts, masters and store, and the ports
      there that pods must not reach (`ofnet.pipelines.pod_guard`).
    * `launches`: how often a group was announced to the ACI fabric, by group id.
    * `guard`: pods send from their own addresses only (`ofnet.pipelines.source_guard`).
    * `learning`: the BGP peer has not sent all routes yet; routes on the switch are not deleted.
    * `complete`: every source has been read once. No flow may be deleted before (ADR 11).
    """

    fwd_mode: FwdMode
    arp_mode: ArpMode = ArpMode.PROXY
    networks: Mapping[NetworkId, Network] = field(default_factory=dict)
    local: Mapping[EndpointKey, LocalEndpoint] = field(default_factory=dict)
    remote: Mapping[EndpointKey, RemoteEndpoint] = field(default_factory=dict)
    vteps: Mapping[HostLabel, Vtep] = field(default_factory=dict)
    host_port: HostPort | None = None
    access: Mapping[EndpointKey, AccessPort] = field(default_factory=dict)
    uplinks: tuple[Uplink, ...] = ()
    peer_macs: Mapping[HostLabel, str] = field(default_factory=dict)
    router: Router | None = None
    routes: Mapping[IPv4Network, str] = field(default_factory=dict)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    services: Mapping[str, Service] = field(default_factory=dict)
    served: Mapping[str, Served] = field(default_factory=dict)
    management: Mapping[str, IPv4Network | IPv6Network] = field(default_factory=dict)
    management_ports: Mapping[str, ManagementPort] = field(default_factory=dict)
    launches: Mapping[int, int] = field(default_factory=dict)
    guard: bool = False
    learning: bool = False
    complete: bool = False
