"""The records in the store, as immutable values.

`state.codec` maps field names to the original's JSON names; `core.keys` has the keys. Counters and
bitmaps that the original rewrites with every endpoint are left out: the codec writes their value at
creation (ADR 18) and `state.derive` computes the true one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from core import ids
from core.addresses import Subnet, ipv4, ipv6, subnet4, subnet6
from core.ids import (
    DocknetId,
    EndpointKey,
    GroupKey,
    GroupName,
    HostLabel,
    NetworkId,
    NetworkName,
    ServiceKey,
    TenantName,
)


class Encap(StrEnum):
    """How a network's packets travel between hosts."""

    VLAN = "vlan"
    VXLAN = "vxlan"


class NetworkType(StrEnum):
    """An `infra` network has an interface on each host itself."""

    DATA = "data"
    INFRA = "infra"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRecord:
    """CfgNetworkState (docs/original/netmaster-state.md §2).

    A network has a subnet of IPv4, of IPv6, or both; texts of a family that it lacks are "", and
    lengths 0.

    `subnet` is the network address; `first`..`last` the assignable range as text, where `first`
    is the literal address the user gave (`10.1.1.77/24` -> `10.1.1.77`). `pkt_tag` is the VLAN on
    the host (local VLAN of a vxlan network), `ext_pkt_tag` the VNI (0 for vlan networks).

    `bounded` distinguishes `10.1.1.77-10.1.1.255/24` (only the range is assigned) from
    `10.1.1.77/24` (the whole subnet is), which share `first` and `last`. It matters only if `last`
    is the subnet's last address, and is read back False where both mean the same.
    """

    tenant: TenantName
    name: NetworkName
    type: NetworkType
    encap: Encap
    pkt_tag: int
    ext_pkt_tag: int
    subnet: str
    subnet_len: int
    gateway: str
    first: str
    last: str
    ipv6_subnet: str
    ipv6_subnet_len: int
    ipv6_gateway: str
    network_tag: str
    bounded: bool = False
    ipv6_first: bool = False
    """Whether the address of IPv6 comes first where a pod's are told in an order."""
    exclude: tuple[str, ...] = ()
    """Addresses that nobody is given: `a`, `a-b` or `a/len`, of either family."""

    @property
    def id(self) -> NetworkId:
        """`<network>.<tenant>`."""
        return NetworkId(f"{self.name}.{self.tenant}")

    @property
    def v4(self) -> Subnet | None:
        """The IPv4 subnet. Raises ValueError, as `v6` does, if the record has text that is none."""
        return subnet4(ipv4(self.subnet), self.subnet_len) if self.subnet else None

    @property
    def v6(self) -> Subnet | None:
        """The IPv6 subnet."""
        if not self.ipv6_subnet:
            return None
        return subnet6(ipv6(self.ipv6_subnet), self.ipv6_subnet_len)

    @property
    def subnets(self) -> Iterator[Subnet]:
        """The subnets, IPv4 first."""
        return filter(None, (self.v4, self.v6))

    @property
    def by_host(self) -> bool:
        """Whether its pods leave by an interface of their own to the host: it has no gateway."""
        return bool(self.subnet) and not self.gateway

    def holds(self, address: str) -> bool:
        """Return whether an address is one of the network's subnets. Raises ValueError."""
        if ":" in address:
            return self.v6 is not None and ipv6(address) in self.v6
        return self.v4 is not None and ipv4(address) in self.v4


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRecord:
    """CfgEndpointState. Addresses are plain text without prefix length, "" when there is none."""

    key: EndpointKey
    network: NetworkId
    endpoint_id: str
    service_name: str
    group_id: int
    group_key: str
    ip_address: str
    ipv6_address: str
    mac_address: str
    homing_host: HostLabel
    intf_name: str
    vtep_ip: str
    labels: Mapping[str, str] | None
    container_id: str
    common_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """EndpointGroupState. `ip_pool` is `a-b` or "".

    `subnet_len` is the prefix length of the group's network; it may be 0 where there is no pool.
    """

    tenant: TenantName
    name: GroupName
    network: NetworkName
    group_id: int
    encap: Encap
    pkt_tag: int
    ext_pkt_tag: int
    dscp: int
    bandwidth: str
    burst: int
    ip_pool: str
    group_tag: str
    subnet_len: int = 0
    exclude: tuple[str, ...] = ()
    """Addresses that the group's endpoints are not given, written as a network's."""

    @property
    def key(self) -> GroupKey:
        """`<group>:<tenant>`."""
        return GroupKey(f"{self.name}:{self.tenant}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord:
    """CfgServiceLBState, without its providers: they are derived (`state.service_providers`)."""

    tenant: TenantName
    name: str
    network: NetworkName
    ports: tuple[str, ...]
    selectors: Mapping[str, str]
    ip_address: str

    @property
    def key(self) -> ServiceKey:
        """`<service>:<tenant>`."""
        return ServiceKey(f"{self.name}:{self.tenant}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BgpRecord:
    """CfgBgpState: a host's router address and its BGP neighbour.

    `router_ipv6` and `neighbor_ipv6`, which the original does not have, are empty where not asked.
    """

    hostname: str
    router_ip: str
    as_number: str
    neighbor_as: str
    neighbor: str
    router_ipv6: str = ""
    neighbor_ipv6: str = ""


DEFAULT_PRIVATE_SUBNET: Final = "172.19.0.0/16"
"""The default private subnet of pods on each host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalRecord:
    """GlobConfig: the settings of the global object that agents use."""

    infra_type: str
    fwd_mode: str
    arp_mode: str
    pvt_subnet: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRangesRecord:
    """gstate.Cfg: the configured ranges, as the user wrote them (`1-4094`)."""

    vlans: str
    vxlans: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocknetRecord:
    """DnetOperState: the docker network of a network, or of a group in it."""

    tenant: TenantName
    network: NetworkName
    group: GroupName | None
    uuid: str

    @property
    def id(self) -> DocknetId:
        """`<tenant>.<network>.<group>`."""
        return ids.docknet_id(self.tenant, self.network, self.group)


class GrantOwner(StrEnum):
    """The kind of an address's owner."""

    GATEWAY = "gateway"
    RESERVATION = "reservation"
    ENDPOINT = "endpoint"
    VIP = "vip"
    BLOCK = "block"
    """A host, ahead of its pods (ADR 29); the id is the token of the grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRecord:
    """One allocated address (ADR 10); the key has the network and the address.

    `seq` grows with every grant of the cluster: it distinguishes two grants of one address and
    orders them (the IPv6 allocator continues after the newest).
    """

    owner: GrantOwner
    owner_id: str
    seq: int
    granted_at: float = 0.0
    """Wall-clock seconds since the epoch, for display: another machine may have granted it."""
    reserved: bool = False
    """Whether the address of an endpoint is reserved as well, and stays so without the endpoint.

    So it is in swarm mode, where docker's managers decide when an address may be used again."""
    host: str = ""
    """Of a reservation: the host whose agent asked for it, "" where that is not known."""
    kept_for: str = ""
    """The pod or machine that the address is kept for (ADR 46), "" for none.

    While it is there, an endpoint has the address; while it is away, this is a reservation."""
    mac: str = ""
    """Of a reservation that is kept: a MAC address that goes with it, "" for the derived one."""
    away: float = 0.0
    """Of a reservation that is kept: the seconds that leaders have stored of its absence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """A host with an agent; the record survives the agent's leases (ADR 12)."""

    label: HostLabel
    control_ip: str
    vtep_ip: str
    vxlan_port: int
    uplink_macs: tuple[str, ...] = ()
    version: str = ""
    host_id: str = ""
    """Tells hosts with one label apart; "" in records of earlier versions."""
    schema: int = 1
    """The newest schema version of the store that this host's agent reads (`state.schema`)."""
    addresses: tuple[str, ...] = ()
    """Further addresses of the host; records of earlier versions have none."""
    next_hops: tuple[str, ...] = ()
    """The neighbours that its routes lead to, those of the agent itself left out."""
    answers_probes: bool = False
    """Whether its switch answers probes of tunnels (`ofnet.pipelines.features.tunnel_probes`)."""
    vtep_ip6: str = ""
    """A second tunnel address, of IPv6, where `vtep_ip` is one of IPv4; "" for none."""

    @property
    def vtep_ips(self) -> tuple[str, ...]:
        """The addresses at which tunnels to this host end, of one family each."""
        return tuple(one for one in (self.vtep_ip, self.vtep_ip6) if one)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInstance:
    """One registered instance of a service, under a lease (docs/original/objdb-state.md §3)."""

    service: str
    address: str
    port: int
    hostname: str = ""
    role: str = ""
    version: str = ""
    ttl: int = 10
    schema: int = 1
    """The newest schema version of the store that this daemon reads (`state.schema`)."""
    addresses: tuple[str, ...] = ()
    """Of a master: further addresses of its machine."""
    next_hops: tuple[str, ...] = ()
    """Of a master: the neighbours that routes of its machine lead to."""
    store: tuple[str, ...] = ()
    """Of a master: the addresses of the store's members."""


Record = (
    NetworkRecord
    | EndpointRecord
    | GroupRecord
    | ServiceRecord
    | BgpRecord
    | GlobalRecord
    | TagRangesRecord
    | DocknetRecord
    | GrantRecord
    | HostRecord
)
