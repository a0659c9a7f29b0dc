"""What a switch must know: the types every pipeline is a function of.

The agent fills a World from store records and from its host (`netplugin.world.builder`); pipelines
read it and know nothing else. All values are immutable; a change is a new value, and what it
touches is recomputed (ADR 11).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.openflow.fields import Flags


class FwdMode(StrEnum):
    """Whether endpoints meet at layer 2 or through a distributed router."""

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
    """An endpoint whose port is on this host; `nat_ip` is its address on the host's private net.

    `group_vlan` is the VLAN of its group, which is the network's unless a fabric gives groups their
    own; 0 without a group.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEndpoint:
    """An endpoint on another host."""

    key: EndpointKey
    network: NetworkId
    host: HostLabel
    mac: str
    ip: IPv4Address
    ip6: IPv6Address | None = None
    group_id: int = 0


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
        """The host's own address on the private network: the last."""
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
    """A network card that ties the vlan bridge to the physical VLANs.

    Several are the cards of one bond and have one MAC address, that of the first. `up` says that
    frames may leave by it; flows do not ask, for the switch knows.
    """

    ofport: int
    mac: str
    up: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """`inb01`, by which this host speaks BGP with the peer on its network.

    `peer_mac` is None until the peer was heard of.
    """

    ofport: int
    mac: str
    ip: IPv4Address
    peer: IPv4Address
    peer_mac: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What packets between groups may do; 0 and None stand for any.

    `priority` is 1..100 with the greatest first. Addresses of both ends are of one family. Ports
    and flags count for the protocols that have them.
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
class ServicePort:
    """A port of a service, of TCP (6) or UDP (17), and the one its providers have for it."""

    protocol: int
    port: int
    provider_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service: an address of nobody's, and who serves what is sent there.

    `vrf` is that of its clients, 0 for those of every tenant. Without providers it does nothing.
    """

    key: str
    vrf: int
    address: IPv4Address
    ports: tuple[ServicePort, ...]
    providers: frozenset[IPv4Address]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A pod of this host that is a client of a service, and the provider that serves it.

    `mac` is the provider's if it is on the client's own network, `vlan` that network's. The answers
    of `ports` are known by the provider's port. Where another service has the same provider answer
    the same client from the same port, they are known by the client's port as well, connection by
    connection; and so are those of `direct` ones, to the provider under its own address.
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
    """Everything one bridge of this host has to realise.

    `peer_macs` has the MAC of each other host's uplink, where routed vlan traffic is sent to.
    `served` is the bridge's own: `ofnet.services.proxy` fills it in.
    `routes` has the MAC of the next hop of each prefix learned by BGP, once that is known; while
    `learning`, those that are still to be told again stay on the switch.
    `launches` counts how often the fabric was told of a group, by its id. With
    `guard` pods are held to their own addresses. `complete` is False until every source has been
    read once; nothing may be deleted from a switch on the word of an incomplete World (ADR 11).
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
    launches: Mapping[int, int] = field(default_factory=dict)
    guard: bool = False
    learning: bool = False
    complete: bool = False
