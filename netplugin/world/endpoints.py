"""The endpoints of the cluster, as this host's bridges have them. Pure: no I/O, no clock.

`netplugin.world.builder` feeds it records of endpoints and groups; of this host's ports it is told
by those who make them (`netplugin.pods.add`, `netplugin.pods.pod_ports`, `netplugin.bridges.infra`,
`netplugin.pods.host_interfaces`, `netplugin.bridges.host_access`).

An endpoint is local if this host made its port, remote if its record names another host. A record
that names this host without a port is neither: it has nothing to forward. Either is on the bridge
that has its network (`netplugin.world.networks`). What else is said of an endpoint here follows
from its group (DSCP, VLAN) and from the host's private network (its address there).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address

from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId
from core.multimap import discard
from netplugin.world.bridge_state import BridgeState
from netplugin.world.conversion import LocalPort, addressed, check_endpoint, local_of, remote_of
from ofnet.world import AccessPort, Bridge, HostPort, LocalEndpoint, RemoteEndpoint
from state.records import EndpointRecord, GroupRecord


class Endpoints:
    """Records, ports and groups; what follows from them is on the sides."""

    def __init__(self, host: HostLabel, sides: Mapping[Bridge, BridgeState]) -> None:
        self._host = host
        self._sides = sides
        self._vxlan = sides[Bridge.VXLAN]
        self._records: dict[EndpointKey, EndpointRecord] = {}
        self._by_network: dict[NetworkId, set[EndpointKey]] = {}
        self._ports: dict[EndpointKey, LocalPort] = {}
        self._groups: dict[GroupKey, GroupRecord] = {}
        self._revoked: set[EndpointKey] = set()

    # -- from the store ------------------------------------------------------------------------

    def put(self, record: EndpointRecord) -> EndpointRecord | None:
        """Learn or replace an endpoint, of this host or another; return what it was.

        Raises Invalid, changing nothing, if it cannot be read.
        """
        check_endpoint(record)
        key = record.key
        old = self._records.get(key)
        if old is not None and old.network != record.network:
            discard(self._by_network, old.network, key)
        self._records[key] = record
        self._revoked.discard(key)
        self._by_network.setdefault(record.network, set()).add(key)
        port = self._ports.get(key)
        if port is not None and record.homing_host == self._host:
            self._ports[key] = replace(port, record=record)
        self._place(key)
        return old

    def remove(self, key: EndpointKey) -> EndpointRecord | None:
        """Forget an endpoint; return what it was. A port of this host stays until `remove_port`."""
        old = self._records.pop(key, None)
        if old is not None:
            discard(self._by_network, old.network, key)
            if key in self._ports:
                self._revoked.add(key)
        self._place(key)
        return old

    def put_group(self, record: GroupRecord) -> None:
        """Learn or replace a group; its DSCP reaches the group's endpoints of this host."""
        self._groups[record.key] = record
        self._place_group(record.key)

    def remove_group(self, key: GroupKey) -> None:
        """Forget a group."""
        self._groups.pop(key, None)
        self._place_group(key)

    def networks_changed(self, networks: Iterable[NetworkId]) -> None:
        """Follow networks that came to a bridge, or went from it."""
        for nid in networks:
            ports = {key for key, port in self._ports.items() if port.record.network == nid}
            for key in self._by_network.get(nid, set()) | ports:
                self._place(key)

    # -- from this host ------------------------------------------------------------------------

    def put_port(self, key: EndpointKey, port: LocalPort) -> None:
        """Learn the port of an endpoint of this host. Raises Invalid as `put` does."""
        check_endpoint(port.record)
        self._ports[key] = port
        self._place(key)

    def remove_port(self, key: EndpointKey) -> None:
        """Forget the port of an endpoint of this host, and its pod's interface to the host."""
        self._ports.pop(key, None)
        self._vxlan.set_access(key, None)
        self._revoked.discard(key)
        self._place(key)

    def put_access(self, key: EndpointKey, port: AccessPort) -> None:
        """Learn the interface to this host that the pod of an endpoint has."""
        self._vxlan.set_access(key, port)

    def set_host_port(self, port: HostPort | None) -> None:
        """Set or clear the host's port on the vxlan bridge; pods get addresses of its subnet."""
        if self._vxlan.host_port != port:
            self._vxlan.set_host_port(port)
            for key in self._ports:
                self._place(key)

    # -- what is known -------------------------------------------------------------------------

    def get(self, key: EndpointKey) -> EndpointRecord | None:
        """Return the record of an endpoint, None if it is not known here."""
        return self._records.get(key)

    def here(self) -> list[EndpointRecord]:
        """Return the records of this host's endpoints."""
        return [one for one in self._records.values() if one.homing_host == self._host]

    def on(self, nid: NetworkId) -> list[EndpointRecord]:
        """Return the records of the endpoints of a network."""
        return [self._records[key] for key in self._by_network.get(nid, ())]

    def port(self, key: EndpointKey) -> LocalPort | None:
        """Return the port of an endpoint of this host, None if it has none."""
        return self._ports.get(key)

    def revoked(self) -> frozenset[EndpointKey]:
        """Return the endpoints that have a port here, but whose record has been removed."""
        return frozenset(self._revoked)

    def group(self, key: GroupKey) -> GroupRecord | None:
        """Return the record of a group, None if it is not known here."""
        return self._groups.get(key)

    @property
    def host_port(self) -> HostPort | None:
        """The host's own port on the vxlan bridge, None while it is not there."""
        return self._vxlan.host_port

    def private_addresses(self) -> dict[IPv4Address, IPv4Address]:
        """Return what this host's pods of the vxlan bridge are on its private network."""
        local = self._vxlan.local.values()
        return {one.ip: one.nat_ip for one in local if one.nat_ip is not None}

    # -- how facts meet ------------------------------------------------------------------------

    def _place_group(self, key: GroupKey) -> None:
        for epid, port in self._ports.items():
            if port.record.group_key == key:
                self._place(epid)

    def _place(self, key: EndpointKey) -> None:
        port = self._ports.get(key)
        record = port.record if port is not None else self._records.get(key)
        for side in self._sides.values():
            local: LocalEndpoint | None = None
            remote: RemoteEndpoint | None = None
            if record is not None and record.network in side.networks and addressed(record):
                if port is not None:
                    local = self._local(port)
                elif record.homing_host != self._host:
                    remote = remote_of(record)
            side.set_endpoint(key, local, remote)

    def _local(self, port: LocalPort) -> LocalEndpoint:
        group = self._groups.get(GroupKey(port.record.group_key))
        private = None if self.host_port is None else self.host_port.subnet
        return local_of(port, group, private)
