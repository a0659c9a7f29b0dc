"""The endpoints of the cluster on this host's bridges, local or remote. Pure: no I/O, no clock.

It follows the records of endpoints (`netplugin.world.cluster_endpoints.endpoint_table`) and groups.
The ports of this host are set by the modules that make them (`netplugin.pods.add`,
`netplugin.pods.pod_ports`, `netplugin.pods.host_interfaces`, `netplugin.bridges.host.infra`,
`netplugin.bridges.host.host_access`).

An endpoint is local if it has a port on this host, remote if its record names another host. It is
on the bridge that has its network (`netplugin.world.bridges.networks`). Its DSCP and VLAN come from
its group, its private address from the host's private network.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId, TenantName
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.conversion import (
    LocalPort,
    address4,
    addressed,
    check_endpoint,
    local_of,
    remote_of,
)
from netplugin.world.bridges.networks import NetworkChange
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow, EndpointTable
from netplugin.world.cluster_endpoints.host_routes import (
    Address,
    Contested,
    HostRoutes,
    Pod,
    RoutedAddresses,
)
from ofnet.world import AccessPort, Bridge, HostPort, LocalEndpoint, RemoteEndpoint
from state.records import EndpointRecord, GroupRecord


class Endpoints:
    """Ports and groups of endpoints, and with their records the endpoints on the bridges."""

    def __init__(
        self, host: HostLabel, bridges: Mapping[Bridge, BridgeState], table: EndpointTable
    ) -> None:
        self._host = host
        self._table = table
        self._bridges = bridges
        self._vxlan = bridges[Bridge.VXLAN]
        self._ports: dict[EndpointKey, LocalPort] = {}
        self._groups: dict[GroupKey, GroupRecord] = {}
        self._revoked: set[EndpointKey] = set()
        self._routes = HostRoutes()
        self._routed = {bridge: RoutedAddresses() for bridge in bridges}
        self._claimed: dict[EndpointKey, Pod] = {}

    # -- from the store ------------------------------------------------------------------------

    def update(self, old: EndpointRow | None, new: EndpointRow | None) -> None:
        """Follow an endpoint of any host. A port of this host stays until `remove_port`."""
        if new is not None:
            key = new.record.key
            self._revoked.discard(key)
            port = self._ports.get(key)
            if port is not None and new.record.homing_host == self._host:
                self._ports[key] = replace(port, record=new.record)
            self._update(key)
        elif old is not None:
            key = old.record.key
            if key in self._ports:
                self._revoked.add(key)
            self._update(key)

    def put_group(self, record: GroupRecord) -> None:
        """Add or replace a group; its DSCP reaches the group's endpoints of this host."""
        self._groups[record.key] = record
        self._update_group(record.key)

    def remove_group(self, key: GroupKey) -> None:
        """Remove a group."""
        self._groups.pop(key, None)
        self._update_group(key)

    def networks_changed(self, change: NetworkChange) -> None:
        """Update the endpoints of networks that were added to a bridge or removed from it."""
        for nid in change.networks:
            ports = {key for key, port in self._ports.items() if port.record.network == nid}
            for key in ports | self._table.keys_on(nid):
                self._update(key)

    # -- from this host ------------------------------------------------------------------------

    def put_port(self, key: EndpointKey, port: LocalPort) -> None:
        """Set the port of an endpoint of this host. Raises Invalid as `put` does."""
        check_endpoint(port.record)
        self._ports[key] = port
        self._update(key)

    def remove_port(self, key: EndpointKey) -> None:
        """Remove the port of an endpoint of this host, and its pod's interface to the host."""
        self._ports.pop(key, None)
        self._vxlan.set_access(key, None)
        self._revoked.discard(key)
        self._update(key)

    def put_access(self, key: EndpointKey, port: AccessPort) -> None:
        """Set the interface to this host that the pod of an endpoint has."""
        self._vxlan.set_access(key, port)

    def set_host_port(self, port: HostPort | None, bridge: Bridge = Bridge.VXLAN) -> None:
        """Set or clear the host's port on a bridge.

        Pods get addresses of the private network once it is on the vxlan bridge.
        """
        before = self.host_port
        if self._bridges[bridge].host_port == port:
            return
        self._bridges[bridge].set_host_port(port)
        subnets = [None if one is None else one.subnet for one in (before, self.host_port)]
        for key in self._ports if subnets[0] != subnets[1] else ():
            self._update(key)

    # -- what is known -------------------------------------------------------------------------

    def port(self, key: EndpointKey) -> LocalPort | None:
        """Return the port of an endpoint of this host, None if it has none."""
        return self._ports.get(key)

    def record(self, key: EndpointKey) -> EndpointRecord | None:
        """Return the record of an endpoint as its port here has it, or else the store."""
        port = self._ports.get(key)
        return port.record if port is not None else self._table.get(key)

    def row(self, key: EndpointKey) -> EndpointRow | None:
        """Return the same record with the tenant of its network."""
        record = self.record(key)
        return None if record is None else self._table.row_of(record)

    def tenant_of(self, nid: NetworkId) -> TenantName:
        """Return the tenant of a network, which its id alone does not always tell."""
        return self._table.tenant_of(nid)

    @property
    def ports(self) -> Mapping[EndpointKey, LocalPort]:
        """The ports of this host's endpoints."""
        return self._ports

    def revoked(self) -> frozenset[EndpointKey]:
        """Return the endpoints that have a port here while their record was removed."""
        return frozenset(self._revoked)

    def group(self, key: GroupKey) -> GroupRecord | None:
        """Return the record of a group, None if it is not known here."""
        return self._groups.get(key)

    def groups(self) -> list[GroupRecord]:
        """Return the records of all groups."""
        return list(self._groups.values())

    @property
    def host_port(self) -> HostPort | None:
        """The host's own port on the vxlan bridge, None while it is not there."""
        return self._vxlan.host_port

    def private_addresses(self) -> dict[IPv4Address, IPv4Address]:
        """Return the private addresses of this host's pods on the vxlan bridge, by their own."""
        local = self._vxlan.local.values()
        return {one.ip: one.nat_ip for one in local if one.ip and one.nat_ip}

    def routed(self, bridge: Bridge) -> frozenset[Address]:
        """Return the addresses of pods to which the host has routes by its port on a bridge."""
        return self._routed[bridge].all

    def routed_of(self, key: EndpointKey) -> frozenset[Address]:
        """Return the addresses by which the host reaches a pod of its own."""
        pod = self._claimed.get(key)
        return self._routes.of(pod) if pod is not None else frozenset()

    def contested(self) -> list[Contested]:
        """Return the addresses that several pods of this host have."""
        return list(self._routes.contested())

    # -- from records and ports to bridges -----------------------------------------------------

    def _update_group(self, key: GroupKey) -> None:
        for epid, port in self._ports.items():
            if port.record.group_key == key:
                self._update(epid)

    def _update(self, key: EndpointKey) -> None:
        """Set an endpoint on the bridges, from all that is known of it."""
        # Record, port, network and group arrive in any order, so that each of them ends up here and
        # the outcome depends on their last values only.
        #
        # A port decides that an endpoint is local, whatever its record says: the record of a pod
        # that moves may name the new host before this one has removed the port. A record that names
        # this host without a port is neither local nor remote: there is nothing to forward to. Both
        # kinds are set in one call, so that no endpoint is both.
        port, record = self._ports.get(key), self.record(key)
        affected = self._claim_routes(key, port)
        for name, bridge in self._bridges.items():
            local: LocalEndpoint | None = None
            remote: RemoteEndpoint | None = None
            if record is not None and record.network in bridge.networks and addressed(record):
                if port is not None:
                    local = self._local(port)
                elif record.homing_host != self._host:
                    remote = remote_of(record)
            before = bridge.local.get(key)
            bridge.set_endpoint(key, local, remote)
            self._routed[name].put(key, _routed(before), _routed(local))
        for other in affected:
            self._update(other)

    def _claim_routes(self, key: EndpointKey, port: LocalPort | None) -> frozenset[EndpointKey]:
        """Set the addresses the host reaches a pod by; return the other pods this affects."""
        pod = None
        addresses: set[Address] = set()
        if port is not None and port.number is not None:
            pod = Pod(port.number, key)
            addresses = set(self._reachable(port.record))
        claimed = self._claimed.pop(key, None)
        affected: frozenset[EndpointKey] = frozenset()
        if claimed is not None and claimed != pod:
            affected |= self._routes.claim(claimed, frozenset())
        if pod is not None:
            self._claimed[key] = pod
            affected |= self._routes.claim(pod, addresses)
        return affected

    def _reachable(self, record: EndpointRecord) -> Iterator[Address]:
        """Yield the addresses of an endpoint, if its network is on a bridge of this host."""
        bridges = self._bridges.values()
        if addressed(record) and any(record.network in bridge.networks for bridge in bridges):
            if record.ip_address:
                yield address4(record.ip_address)
            if record.ipv6_address:
                yield IPv6Address(record.ipv6_address)

    def _local(self, port: LocalPort) -> LocalEndpoint:
        group = self._groups.get(GroupKey(port.record.group_key))
        private = None if self.host_port is None else self.host_port.subnet
        return replace(local_of(port, group, private), routed=self.routed_of(port.record.key))


def _routed(endpoint: LocalEndpoint | None) -> frozenset[Address]:
    return frozenset() if endpoint is None else endpoint.routed
