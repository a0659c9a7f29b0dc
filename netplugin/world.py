"""Records and host facts in, one World per bridge out. Pure: no I/O, no clock.

`netplugin.reconcile` feeds it typed store events (`state.watch`), the endpoints of this host
(`netplugin.pods`) and the tunnel ports OVSDB reports, then takes the Worlds with what changed since
the last time and hands them to `ofnet.agent`. Nothing here knows where facts come from.

What a record says in a switch's terms is `netplugin.translation`, who has which name
`netplugin.namebook`. Three rules live here:

* An endpoint is local if this host made its port (it is in `local`), remote if its record names
  another host. A record that names this host without a port is neither: it has nothing to forward.
* A network belongs to the bridge of its encapsulation, and its endpoints with it.
* A tenant's VRF id is the lowest free of 1..255 and stays while the tenant has a network here; the
  ids are kept across restarts by the caller (design D6), so that a restart changes no flow. While
  all are in use, networks of further tenants are left out, with what stands on them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from typing import Final, TypeVar

from core.ids import (
    EndpointKey,
    GroupKey,
    HostLabel,
    NetworkId,
    ServiceKey,
    TenantName,
    split_network_id,
)
from netplugin.kube.services import KubeService
from netplugin.launches import LaunchBook
from netplugin.namebook import NameBook
from netplugin.policies import PolicyBook
from netplugin.servicebook import ServiceBook
from netplugin.sides import Dirty, Side
from netplugin.tenants import Tenants
from netplugin.translation import (
    LocalPort,
    addressed,
    check_endpoint,
    check_global,
    check_host,
    check_network,
    kube_service_of,
    local_of,
    network_of,
    peering_of,
    private_subnet,
    remote_of,
)
from ofnet.bgp.peering import Peering
from ofnet.changes import Changes
from ofnet.world import (
    AccessPort,
    ArpMode,
    Bridge,
    FwdMode,
    HostPort,
    Router,
    Service,
    Uplink,
    Vtep,
    World,
)
from state.intents import Attachment, Fact, Launch, Profile
from state.policy_rules import PolicyRule
from state.records import (
    BgpRecord,
    Encap,
    EndpointRecord,
    GlobalRecord,
    GroupRecord,
    HostRecord,
    NetworkRecord,
    ServiceRecord,
)

MAX_VRF: Final = 255
_K = TypeVar("_K")
_V = TypeVar("_V")

ACI: Final = "aci"

BRIDGE_OF: Final = {Encap.VXLAN: Bridge.VXLAN, Encap.VLAN: Bridge.VLAN}


class WorldBuilder:
    """Folds facts into the Worlds of both bridges of this host."""

    def __init__(
        self,
        host: HostLabel,
        fwd_mode: FwdMode,
        vrfs: Mapping[TenantName, int] | None = None,
        *,
        guard: bool = True,
    ) -> None:
        self._host = host
        self._guard = guard
        self._vrfs: dict[TenantName, int] = dict(vrfs or {})
        self.fwd_mode = fwd_mode
        self._sides = {bridge: Side() for bridge in Bridge}
        self._networks: dict[NetworkId, NetworkRecord] = {}
        self._endpoints: dict[EndpointKey, EndpointRecord] = {}
        self._by_network: dict[NetworkId, set[EndpointKey]] = {}
        self._groups: dict[GroupKey, GroupRecord] = {}
        self._ports: dict[EndpointKey, LocalPort] = {}
        self._policies = PolicyBook()
        self._tenants = Tenants()
        self._services = ServiceBook(self._tenants)
        self._altered_services: set[ServiceKey] = set()
        self._profiles = LaunchBook()
        self._launches: dict[int, int] = {}
        self._revoked: set[EndpointKey] = set()
        self.names = NameBook(self._tenants)
        self.kube_services: dict[str, KubeService] = {}
        self.hosts: dict[HostLabel, HostRecord] = {}
        self.global_config: GlobalRecord | None = None
        self._peering: Peering | None = None
        self._complete = False

    # -- facts from the store ------------------------------------------------------------------

    def put(self, fact: Fact) -> None:
        """Learn or replace what the store says. Raises Invalid, changing nothing, as below."""
        match fact:
            case NetworkRecord():
                self.put_network(fact)
            case EndpointRecord():
                self.put_endpoint(fact)
            case ServiceRecord():
                self.put_service(fact)
            case GroupRecord():
                self.put_group(fact)
            case Attachment():
                self._altered(self._policies.put_attachment(fact))
            case PolicyRule():
                self._altered(self._policies.put_rule(fact))
            case Profile():
                self._launched(self._profiles.put(fact))
            case GlobalRecord():
                self.put_global(fact)
            case HostRecord():
                self.put_host(fact)
            case BgpRecord():
                self.put_bgp(fact)
            case _:
                return

    def remove(self, fact: Fact) -> None:
        """Forget what the store no longer says."""
        match fact:
            case NetworkRecord():
                self.remove_network(fact.id)
            case EndpointRecord():
                self.remove_endpoint(fact.key)
            case ServiceRecord():
                self.remove_service(fact.key)
            case GroupRecord():
                self.remove_group(fact.key)
            case Attachment():
                self._altered(self._policies.remove_attachment(fact.key))
            case PolicyRule():
                self._altered(self._policies.remove_rule(fact))
            case Profile():
                self._profiles.remove(fact)
            case Launch():
                self._launched(self._profiles.launched(fact.profile))
            case HostRecord():
                self.remove_host(fact.label)
            case BgpRecord():
                self.remove_bgp(fact)
            case _:
                # the settings stay in force; the rest is nobody's here
                return

    def put_network(self, record: NetworkRecord) -> None:
        """Learn or replace a network. Raises Invalid, changing nothing, if it cannot be read."""
        check_network(record)
        self._belongs(record.id, record.tenant)
        self._networks[record.id] = record
        self._altered(self._policies.put_network(record))
        self._refresh_network(record.id)

    def remove_network(self, nid: NetworkId) -> None:
        """Forget a network and what stood on it; its tenant's VRF id becomes free with the last."""
        self._networks.pop(nid, None)
        self._altered(self._policies.remove_network(nid))
        self._refresh_network(nid)
        self._belongs(nid, split_network_id(nid)[1])

    def put_endpoint(self, record: EndpointRecord) -> None:
        """Learn or replace an endpoint record, of this host or another.

        Raises Invalid, changing nothing, if it cannot be read.
        """
        check_endpoint(record)
        self.names.put_endpoint(record)
        old = self._endpoints.get(record.key)
        if old is not None and old.network != record.network:
            self._leave(old)
            self._served(self._services.remove_endpoint(old))
        self._endpoints[record.key] = record
        self._served(self._services.put_endpoint(record))
        self._revoked.discard(record.key)
        self._by_network.setdefault(record.network, set()).add(record.key)
        port = self._ports.get(record.key)
        if port is not None and record.homing_host == self._host:
            self._ports[record.key] = replace(port, record=record)
        self._refresh_endpoint(record.key)

    def remove_endpoint(self, key: EndpointKey) -> None:
        """Forget an endpoint record. A port of this host stays until `remove_port`."""
        self.names.remove_endpoint(key)
        old = self._endpoints.pop(key, None)
        if old is not None:
            self._leave(old)
            self._served(self._services.remove_endpoint(old))
            if key in self._ports:
                self._revoked.add(key)
        self._refresh_endpoint(key)

    def put_service(self, record: ServiceRecord) -> None:
        """Learn or replace a service. Raises Invalid, changing nothing, if it cannot be read."""
        self._served(self._services.put_service(record))
        self.names.put_service(record)

    def remove_service(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._served(self._services.remove_service(key))
        self.names.remove_service(key)

    def put_group(self, record: GroupRecord) -> None:
        """Learn or replace a group; its DSCP reaches the group's endpoints of this host."""
        self._groups[record.key] = record
        self._altered(self._policies.put_group(record))
        self._refresh_group(record.key)

    def remove_group(self, key: GroupKey) -> None:
        """Forget a group."""
        self._groups.pop(key, None)
        self._altered(self._policies.remove_group(key))
        self._refresh_group(key)

    def put_global(self, record: GlobalRecord) -> None:
        """Learn the cluster-wide settings; another mode or fabric touches every flow.

        Raises Invalid, changing nothing, if they cannot be read.
        """
        check_global(record)
        before = self.arp_mode, self.fabric_enforces, self.fwd_mode
        self.global_config = record
        if record.fwd_mode in set(FwdMode):
            self.fwd_mode = FwdMode(record.fwd_mode)
        if (self.arp_mode, self.fabric_enforces, self.fwd_mode) != before:
            for side in self._sides.values():
                side.dirty.everything = True

    def put_host(self, record: HostRecord) -> None:
        """Learn or replace a host. Raises Invalid, changing nothing, if it cannot be read."""
        check_host(record)
        self.hosts[record.label] = record
        self._refresh_peer(record.label)

    def remove_host(self, label: HostLabel) -> None:
        """Forget a host."""
        self.hosts.pop(label, None)
        self._refresh_peer(label)

    def put_bgp(self, record: BgpRecord) -> None:
        """Learn or replace whom this host speaks BGP with; other hosts' peers are theirs.

        Raises Invalid, changing nothing, if it cannot be read.
        """
        if record.hostname == self._host:
            self._peering = peering_of(record)

    def remove_bgp(self, record: BgpRecord) -> None:
        """Forget whom this host speaks BGP with."""
        if record.hostname == self._host:
            self._peering = None

    # -- facts from Kubernetes -----------------------------------------------------------------

    def put_kube_service(self, service: KubeService) -> None:
        """Learn or replace a service of Kubernetes, which pods of every tenant may use."""
        self.kube_services[service.key] = service
        self.names.put_kube_service(service)
        self._serve_all(service.key, kube_service_of(service))

    def remove_kube_service(self, key: str) -> None:
        """Forget a service of Kubernetes."""
        self.kube_services.pop(key, None)
        self.names.remove_kube_service(key)
        self._serve_all(key, None)

    # -- facts from this host ------------------------------------------------------------------

    def put_port(self, key: EndpointKey, port: LocalPort) -> None:
        """Learn the port of an endpoint of this host. Raises Invalid as `put_endpoint` does."""
        check_endpoint(port.record)
        self._ports[key] = port
        self._refresh_endpoint(key)

    def remove_port(self, key: EndpointKey) -> None:
        """Forget the port of an endpoint of this host, and its pod's interface to the host."""
        self._ports.pop(key, None)
        self._set_access(key, None)
        self._revoked.discard(key)
        self._refresh_endpoint(key)

    def set_vteps(self, vteps: Mapping[HostLabel, Vtep]) -> None:
        """Replace the tunnel ports of the vxlan bridge by what OVSDB reports."""
        side = self._sides[Bridge.VXLAN]
        for host in side.vteps.keys() | vteps.keys():
            if side.vteps.get(host) != vteps.get(host):
                side.dirty.vteps.add(host)
        side.vteps = dict(vteps)

    def set_host_port(self, port: HostPort | None) -> None:
        """Set or clear the host's port on the vxlan bridge; pods get addresses of its subnet."""
        side = self._sides[Bridge.VXLAN]
        if side.host_port != port:
            side.host_port = port
            side.dirty.host_port = True
            for key in self._ports:
                self._refresh_endpoint(key)

    def put_access(self, key: EndpointKey, port: AccessPort) -> None:
        """Learn the interface to this host that the pod of an endpoint has."""
        self._set_access(key, port)

    def _set_access(self, key: EndpointKey, port: AccessPort | None) -> None:
        side = self._sides[Bridge.VXLAN]
        if side.access.get(key) != port:
            side.dirty.access.add(key)
            _set(side.access, key, port)

    def set_uplinks(self, uplinks: Sequence[Uplink]) -> None:
        """Set the ports that tie the vlan bridge to the physical network."""
        side = self._sides[Bridge.VLAN]
        if side.uplinks != tuple(uplinks):
            side.uplinks = tuple(uplinks)
            side.dirty.uplinks = True

    def set_router(self, router: Router | None) -> None:
        """Set or clear the host's port for BGP."""
        side = self._sides[Bridge.VLAN]
        if side.router != router:
            side.router = router
            side.dirty.router = True

    def set_routes(self, routes: Mapping[IPv4Network, str]) -> None:
        """Replace the learned prefixes, each with the MAC of its next hop."""
        side = self._sides[Bridge.VLAN]
        changed = {
            prefix
            for prefix in side.routes.keys() | routes.keys()
            if side.routes.get(prefix) != routes.get(prefix)
        }
        side.dirty.routes |= changed
        side.routes = dict(routes)

    def set_learning(self, *, learning: bool) -> None:
        """Say whether prefixes may be missing that are still to be told again."""
        side = self._sides[Bridge.VLAN]
        if side.learning != learning:
            side.learning = learning
            side.dirty.router = True

    def set_complete(self) -> None:
        """Say that every source has been read once: from now on absence means gone."""
        if not self._complete:
            self._complete = True
            self._free_unused_vrfs()
            for side in self._sides.values():
                side.dirty.everything = True

    # -- what comes out ------------------------------------------------------------------------

    @property
    def vrfs(self) -> Mapping[TenantName, int]:
        """VRF ids in use; to be kept across restarts before flows with them are sent."""
        return self._vrfs

    @property
    def arp_mode(self) -> ArpMode:
        """How ARP is treated; anything but `flood` is proxied, as in the original."""
        flood = self.global_config is not None and self.global_config.arp_mode == ArpMode.FLOOD
        return ArpMode.FLOOD if flood else ArpMode.PROXY

    @property
    def fabric_enforces(self) -> bool:
        """True on an ACI fabric, which enforces policies itself."""
        return self.global_config is not None and self.global_config.infra_type == ACI

    @property
    def private_subnet(self) -> IPv4Network | None:
        """The network of the hosts' own addresses for pods, None while it is not known."""
        return None if self.global_config is None else private_subnet(self.global_config)

    @property
    def host_port(self) -> HostPort | None:
        """The host's own port on the vxlan bridge, None while it is not there."""
        return self._sides[Bridge.VXLAN].host_port

    def private_addresses(self) -> dict[IPv4Address, IPv4Address]:
        """Return what this host reaches its own pods by, by their addresses: where we route."""
        local = self._sides[Bridge.VXLAN].local.values() if self.fwd_mode is FwdMode.ROUTING else ()
        return {one.ip: one.nat_ip for one in local if one.nat_ip is not None}

    @property
    def peering(self) -> Peering | None:
        """Whom this host is to speak BGP with."""
        return self._peering

    @property
    def router(self) -> Router | None:
        """The host's port for BGP, None while it is not there."""
        return self._sides[Bridge.VLAN].router

    @property
    def complete(self) -> bool:
        """True once every source has been read: absence means gone."""
        return self._complete

    def network(self, nid: NetworkId) -> NetworkRecord | None:
        """Return the record of a network, None if it is not known here."""
        return self._networks.get(nid)

    def networks(self) -> list[NetworkRecord]:
        """Return the records of all networks."""
        return list(self._networks.values())

    def realised(self, nid: NetworkId) -> bool:
        """Tell whether a bridge has the network; False for one without a VRF id."""
        return any(nid in side.networks for side in self._sides.values())

    def group(self, key: GroupKey) -> GroupRecord | None:
        """Return the record of a group, None if it is not known here."""
        return self._groups.get(key)

    def delivers_unasked(self, encap: Encap) -> bool:
        """Tell whether a switch delivers to a pod's port that it has no flow of: rules or none."""
        return encap is Encap.VLAN and self.fwd_mode is FwdMode.BRIDGE

    def endpoint(self, key: EndpointKey) -> EndpointRecord | None:
        """Return the record of an endpoint, None if it is not known here."""
        return self._endpoints.get(key)

    def endpoints_here(self) -> list[EndpointRecord]:
        """Return the records of this host's endpoints."""
        return [one for one in self._endpoints.values() if one.homing_host == self._host]

    def revoked(self) -> frozenset[EndpointKey]:
        """Return the endpoints that have a port here, but whose record has been removed."""
        return frozenset(self._revoked)

    def port(self, key: EndpointKey) -> LocalPort | None:
        """Return the port of an endpoint of this host, None if it has none."""
        return self._ports.get(key)

    def take(self, bridge: Bridge) -> tuple[World, Changes]:
        """Return the bridge's World and what changed in it since the last call."""
        self._serve_altered()
        side = self._sides[bridge]
        dirty, side.dirty = side.dirty, Dirty()
        cluster = World(
            fwd_mode=self.fwd_mode,
            arp_mode=self.arp_mode,
            rules={} if self.fabric_enforces else dict(self._policies.rules),
            launches=dict(self._launches),
            guard=self._guard,
            complete=self._complete,
        )
        return side.world(cluster), dirty.changes()

    def dirty(self, bridge: Bridge) -> bool:
        """Tell whether anything changed since the last `take`."""
        self._serve_altered()
        return self._sides[bridge].dirty != Dirty()

    # -- how facts meet ------------------------------------------------------------------------

    def _altered(self, rules: Iterable[str]) -> None:
        for side in self._sides.values():
            side.dirty.rules.update(rules)

    def _served(self, services: Iterable[ServiceKey]) -> None:
        """Have each bridge know services anew, once: endpoints come by the thousand."""
        self._altered_services.update(services)

    def _serve_altered(self) -> None:
        """Have each bridge know services as they are now."""
        altered, self._altered_services = self._altered_services, set()
        for key in altered:
            tenant = self._services.tenant(key)
            vrf = self._vrfs.get(tenant) if tenant is not None else None
            for side in self._sides.values():
                service = None if vrf is None else self._services.on(key, vrf, side.networks)
                _serve(side, key, service)

    def _serve_all(self, key: str, service: Service | None) -> None:
        for side in self._sides.values():
            _serve(side, key, service)

    def _launched(self, groups: Iterable[GroupKey]) -> None:
        """Have the endpoints of groups announced that an ACI fabric has been told of."""
        known = [group for key in groups if (group := self._groups.get(key)) is not None]
        for group in known if self.fabric_enforces else ():
            self._launches[group.group_id] = self._launches.get(group.group_id, 0) + 1
            side = self._sides[Bridge.VLAN]
            members = (key for key, one in side.local.items() if one.group_id == group.group_id)
            side.dirty.local.update(members)

    def _refresh_peer(self, label: HostLabel) -> None:
        record = self.hosts.get(label)
        mac = record.uplink_macs[0] if record is not None and record.uplink_macs else None
        side = self._sides[Bridge.VLAN]
        if label != self._host and side.peer_macs.get(label) != mac:
            side.dirty.peer_macs.add(label)
            _set(side.peer_macs, label, mac)

    def _refresh_network(self, nid: NetworkId) -> None:
        self._place_network(nid)
        self._free_unused_vrfs()

    def _place_network(self, nid: NetworkId) -> None:
        record = self._networks.get(nid)
        vrf = None if record is None else self._vrf_of(record.tenant)
        network = None if record is None or vrf is None else network_of(record, vrf)
        for bridge, side in self._sides.items():
            here = record is not None and BRIDGE_OF[record.encap] is bridge
            wanted = network if here else None
            if side.networks.get(nid) != wanted:
                side.dirty.networks.add(nid)
                _set(side.networks, nid, wanted)
        ports = {key for key, port in self._ports.items() if port.record.network == nid}
        for key in self._by_network.get(nid, set()) | ports:
            self._refresh_endpoint(key)
        self._served(self._services.of(self._tenants.of(nid)))

    def _belongs(self, nid: NetworkId, tenant: TenantName) -> None:
        """Have a network be a tenant's, and the names and services of its endpoints likewise."""
        if tenant == self._tenants.of(nid):
            return
        here = [self._endpoints[key] for key in self._by_network.get(nid, ())]
        for record in here:
            self.names.remove_endpoint(record.key)
            self._served(self._services.remove_endpoint(record))
        self._tenants.put(nid, tenant)
        for record in here:
            self.names.put_endpoint(record)
            self._served(self._services.put_endpoint(record))

    def _leave(self, record: EndpointRecord) -> None:
        there = self._by_network[record.network]
        there.discard(record.key)
        if not there:
            del self._by_network[record.network]

    def _refresh_group(self, key: GroupKey) -> None:
        for epid, port in self._ports.items():
            if port.record.group_key == key:
                self._refresh_endpoint(epid)

    def _refresh_endpoint(self, key: EndpointKey) -> None:
        port = self._ports.get(key)
        record = port.record if port is not None else self._endpoints.get(key)
        private = None if self.host_port is None else self.host_port.subnet
        for side in self._sides.values():
            local, remote = None, None
            if record is not None and record.network in side.networks:
                if port is not None:
                    group = self._groups.get(GroupKey(record.group_key))
                    local = local_of(port, group, private) if addressed(record) else None
                elif record.homing_host != self._host and addressed(record):
                    remote = remote_of(record)
            if side.local.get(key) != local:
                side.dirty.local.add(key)
                _set(side.local, key, local)
            if side.remote.get(key) != remote:
                side.dirty.remote.add(key)
                _set(side.remote, key, remote)

    def _vrf_of(self, tenant: TenantName) -> int | None:
        known = self._vrfs.get(tenant)
        if known is not None:
            return known
        used = set(self._vrfs.values())
        free = next((i for i in range(1, MAX_VRF + 1) if i not in used), None)
        if free is not None:
            self._vrfs[tenant] = free
        return free

    def _free_unused_vrfs(self) -> None:
        if not self._complete:
            return
        used = {record.tenant for record in self._networks.values()}
        unused = self._vrfs.keys() - used
        for tenant in unused:
            del self._vrfs[tenant]
            self._served(self._services.of(tenant))
        if unused and used - self._vrfs.keys():
            for nid in [r.id for r in self._networks.values() if r.tenant not in self._vrfs]:
                self._place_network(nid)


def _serve(side: Side, key: str, service: Service | None) -> None:
    if side.services.get(key) != service:
        side.dirty.services.add(key)
        _set(side.services, key, service)


def _set(mapping: dict[_K, _V], key: _K, value: _V | None) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
