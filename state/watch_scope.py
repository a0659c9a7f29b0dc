"""WatchScope: the networks whose endpoints a host watches. Pure (ADR 27).

In come networks, the cluster's settings and the endpoints of this host, by `state.watch`, and the
networks that pods of this host are on, whatever the store says (`netplugin.startup.resync`).
Out come the networks to hold, and whether the entry of an endpoint is of one of them, told from its
key and its bytes: most endpoints of a large cluster are never decoded.
"""

# A packet of a pod stays in the VRF of its tenant: all flows of other endpoints match by their VRF.
# So a host holds all networks of the tenants that it has pods of. Two kinds of networks are held
# beyond that:
#
# * Where vlan networks are routed, they are one VRF for all tenants. A host with one pod on a vlan
#   network holds them all.
# * The endpoints of infra networks are hosts, whose management no pod may reach, of any tenant.
#
# In doubt more is held, never less: while the forwarding mode is not known it counts as routed, and
# a pod on a network without record counts as on a vlan network.

import json
import re
from collections.abc import Callable, Iterable, Iterator, Set

from core import keys
from core.ids import EndpointKey, HostLabel, NetworkId
from state.records import Encap, EndpointRecord, GlobalRecord, NetworkRecord, NetworkType

_BRIDGED = "bridge"


class WatchScope:
    """The networks whose endpoints a host watches: those that its pods may reach."""

    def __init__(self, host: HostLabel) -> None:
        self._host = host
        named = json.dumps(host, ensure_ascii=False).encode()
        self._names_host = re.compile(rb'"homingHost"\s*:\s*' + re.escape(named)).search
        self._networks: dict[NetworkId, NetworkRecord] = {}
        self._own: dict[EndpointKey, NetworkId] = {}
        self._ask: Callable[[], Iterable[NetworkId]] = tuple
        self._used: frozenset[NetworkId] = frozenset()
        self._bridged = False
        self._known: frozenset[NetworkId] | None = None

    def put(self, record: object) -> None:
        """Add or replace a record; of types that say nothing here it is passed over."""
        match record:
            case NetworkRecord():
                self._networks[record.id] = record
            case GlobalRecord():
                self._bridged = record.fwd_mode == _BRIDGED
            case EndpointRecord() if record.homing_host == self._host:
                self._own[record.key] = record.network
            case EndpointRecord() if record.key in self._own:
                del self._own[record.key]
            case _:
                return
        self._known = None

    def remove(self, record: object) -> None:
        """Remove a record; settings that are removed stay in force."""
        match record:
            case NetworkRecord():
                self._networks.pop(record.id, None)
            case EndpointRecord() if record.key in self._own:
                del self._own[record.key]
            case _:
                return
        self._known = None

    def follow(self, used: Callable[[], Iterable[NetworkId]]) -> None:
        """Set who tells which networks this host has pods on, beside those that the store names."""
        self._ask = used
        self.refresh()

    def refresh(self) -> None:
        """Ask which networks this host has pods on."""
        self._used = frozenset(self._ask())
        self._known = None

    @property
    def networks(self) -> frozenset[NetworkId]:
        """The networks in scope now."""
        if self._known is None:
            self._known = self._used.union(self._own.values(), self._beyond())
        return self._known

    def _beyond(self) -> Iterator[NetworkId]:
        """Yield the networks that concern this host by those that its pods are on."""
        there = self._used.union(self._own.values())
        records = [record for nid in there if (record := self._networks.get(nid)) is not None]
        tenants = {record.tenant for record in records}
        on_vlan = len(records) < len(there) or any(one.encap is Encap.VLAN for one in records)
        flat = on_vlan and not self._bridged
        for record in self._networks.values():
            if (
                record.tenant in tenants
                or record.type is NetworkType.INFRA
                or (flat and record.encap is Encap.VLAN)
            ):
                yield record.id

    def may_hold(self, key: str, value: bytes, networks: Set[NetworkId]) -> bool:
        """Return whether an endpoint, by its key and bytes, may be this host's or on a network.

        True may be wrong, False is not: an id `<network>-<container>` can be read in several ways.
        """
        name = EndpointKey(keys.after(keys.ENDPOINTS, key))
        return any(nid in networks for nid in networks_in(name)) or self.names(value)

    def names(self, value: bytes) -> bool:
        """Return whether an endpoint's bytes name this host."""
        return self._names_host(value) is not None

    def holds(self, record: EndpointRecord, networks: Set[NetworkId]) -> bool:
        """Return whether an endpoint is this host's or on one of the networks."""
        return record.homing_host == self._host or record.network in networks


def networks_in(key: EndpointKey) -> Iterator[NetworkId]:
    """Yield the networks that an endpoint's key may name: both parts of it may have dashes."""
    dash = key.find("-")
    while dash >= 0:
        yield NetworkId(key[:dash])
        dash = key.find("-", dash + 1)
