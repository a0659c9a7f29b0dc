"""The networks of the cluster, each on its bridge of this host. Pure: no I/O, no clock.

`netplugin.world.graph` feeds it records. A network belongs to the bridge of its encapsulation, in
the VRF of its tenant (`netplugin.world.bridges.vrfs`). While all VRF ids are in use, networks of
further tenants are on no bridge, nor are their endpoints, until a tenant's last network is removed.
Each change goes on to the parts whose values depend on it (`Networks.feed`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from core.ids import NetworkId, NetworkName, TenantName, network_id
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.conversion import network_of
from netplugin.world.bridges.vrfs import VrfIds
from ofnet.world import Bridge
from state.records import Encap, NetworkRecord

BRIDGE_OF: Final = {Encap.VXLAN: Bridge.VXLAN, Encap.VLAN: Bridge.VLAN}


@dataclass(frozen=True, slots=True)
class NetworkChange:
    """The networks that were set or cleared on a bridge, and the tenants that this concerns."""

    networks: list[NetworkId] = field(default_factory=list)
    tenants: set[TenantName] = field(default_factory=set)


class Networks:
    """The records of all networks; those with a VRF id are on a bridge.

    Of networks that no pod of this host may meet that is not so, once `hold` has told which.
    """

    def __init__(self, bridges: Mapping[Bridge, BridgeState], vrfs: VrfIds) -> None:
        self._bridges = bridges
        self._vrfs = vrfs
        self._records: dict[NetworkId, NetworkRecord] = {}
        self._held: frozenset[NetworkId] | None = None
        self._complete = False
        self._followers: tuple[Callable[[NetworkChange], None], ...] = ()

    def feed(self, *followers: Callable[[NetworkChange], None]) -> None:
        """Have followers called at each change, in this order."""
        self._followers = followers

    def put(self, record: NetworkRecord) -> None:
        """Add or replace a network, whose record was checked."""
        old = self._records.get(record.id, record)
        self._records[record.id] = record
        self._update(record.id, {old.tenant, record.tenant})

    def remove(self, nid: NetworkId) -> None:
        """Remove a network; its tenant's VRF id becomes free with the last."""
        old = self._records.pop(nid, None)
        self._update(nid, set() if old is None else {old.tenant})

    def hold(self, networks: frozenset[NetworkId]) -> None:
        """Have these networks alone on the bridges, as far as they are known (ADR 27)."""
        before, self._held = self._held, networks
        differing = self._records.keys() if before is None else before ^ networks
        changed = [nid for nid in differing if nid in self._records]
        for nid in changed:
            self._set_on_bridges(nid)
        self._tell(NetworkChange(changed, {self._records[nid].tenant for nid in changed}))

    def held_tenants(self) -> frozenset[TenantName] | None:
        """Return the tenants of the networks that concern this host; None if all networks do."""
        if self._held is None:
            return None
        known = (self._records.get(nid) for nid in self._held)
        return frozenset(record.tenant for record in known if record is not None)

    def set_complete(self) -> None:
        """Note that all networks are known: tenants without one lose their VRF ids from now on."""
        self._complete = True
        self._tell(self._free_unused())

    def get(self, nid: NetworkId) -> NetworkRecord | None:
        """Return the record of a network, None if it is not known here."""
        return self._records.get(nid)

    def named(self, name: NetworkName, tenant: TenantName) -> NetworkRecord | None:
        """Return the network of a name in a tenant, None if this tenant has none that is known.

        By the id that the two make alone it could be another tenant's: names have dots.
        """
        record = self._records.get(network_id(name, tenant))
        return None if record is None or record.tenant != tenant else record

    def all(self) -> list[NetworkRecord]:
        """Return the records of all networks."""
        return list(self._records.values())

    def on_bridge(self, nid: NetworkId) -> bool:
        """Return whether a bridge has the network; False for one without a VRF id."""
        return any(nid in bridge.networks for bridge in self._bridges.values())

    def _update(self, nid: NetworkId, tenants: set[TenantName]) -> None:
        self._set_on_bridges(nid)
        more = self._free_unused()
        self._tell(NetworkChange([nid, *more.networks], tenants | more.tenants))

    def _tell(self, change: NetworkChange) -> None:
        for follow in self._followers:
            follow(change)

    def _set_on_bridges(self, nid: NetworkId) -> None:
        record = self._records.get(nid)
        vrf = None if record is None else self._vrfs.of(record.tenant)
        network = None if record is None or vrf is None else network_of(record, vrf)
        held = self._held is None or nid in self._held
        for name, bridge in self._bridges.items():
            here = held and record is not None and BRIDGE_OF[record.encap] is name
            bridge.set_network(nid, network if here else None)

    def _free_unused(self) -> NetworkChange:
        # An agent that starts has the VRF ids of the agent before, but not yet all networks. An id
        # freed then would go to another tenant, and the flows of both would share a VRF.
        if not self._complete:
            return NetworkChange()
        used = {record.tenant for record in self._records.values()}
        freed = self._vrfs.retain(used)
        waiting = used - self._vrfs.ids.keys() if freed else set()
        placed = [record.id for record in self._records.values() if record.tenant in waiting]
        for nid in placed:
            self._set_on_bridges(nid)
        return NetworkChange(placed, waiting | freed)
