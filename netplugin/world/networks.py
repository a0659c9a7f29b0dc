"""The networks of the cluster, each on its bridge of this host. Pure: no I/O, no clock.

`netplugin.world.builder` feeds it records. A network belongs to the bridge of its encapsulation, in
the VRF of its tenant (`netplugin.world.vrfs`). While all VRF ids are in use, networks of further
tenants are left out, with what stands on them, until somebody's last network goes. What a change
moved is returned, for those whose facts depend on it: `netplugin.world.endpoints` and
`netplugin.world.services`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from core.ids import NetworkId, TenantName
from netplugin.world.bridge_state import BridgeState
from netplugin.world.conversion import check_network, network_of
from netplugin.world.vrfs import VrfIds
from ofnet.world import Bridge
from state.records import Encap, NetworkRecord

BRIDGE_OF: Final = {Encap.VXLAN: Bridge.VXLAN, Encap.VLAN: Bridge.VLAN}


@dataclass(frozen=True, slots=True)
class Moved:
    """What a change concerns: networks that were placed, and the tenants that have others now."""

    networks: list[NetworkId] = field(default_factory=list)
    tenants: set[TenantName] = field(default_factory=set)


class Networks:
    """The records of all networks, and what the bridges have of them."""

    def __init__(self, sides: Mapping[Bridge, BridgeState], vrfs: VrfIds) -> None:
        self._sides = sides
        self._vrfs = vrfs
        self._records: dict[NetworkId, NetworkRecord] = {}
        self._complete = False

    def put(self, record: NetworkRecord) -> Moved:
        """Learn or replace a network. Raises Invalid, changing nothing, if it cannot be read."""
        check_network(record)
        old = self._records.get(record.id, record)
        self._records[record.id] = record
        return self._changed(record.id, {old.tenant, record.tenant})

    def remove(self, nid: NetworkId) -> Moved:
        """Forget a network; its tenant's VRF id becomes free with the last."""
        old = self._records.pop(nid, None)
        return self._changed(nid, set() if old is None else {old.tenant})

    def set_complete(self) -> Moved:
        """Say that all networks are known: who has none has no VRF id from now on."""
        self._complete = True
        return self._free_unused()

    def get(self, nid: NetworkId) -> NetworkRecord | None:
        """Return the record of a network, None if it is not known here."""
        return self._records.get(nid)

    def all(self) -> list[NetworkRecord]:
        """Return the records of all networks."""
        return list(self._records.values())

    def realised(self, nid: NetworkId) -> bool:
        """Tell whether a bridge has the network; False for one without a VRF id."""
        return any(nid in side.networks for side in self._sides.values())

    def _changed(self, nid: NetworkId, tenants: set[TenantName]) -> Moved:
        self._place(nid)
        more = self._free_unused()
        return Moved([nid, *more.networks], tenants | more.tenants)

    def _place(self, nid: NetworkId) -> None:
        record = self._records.get(nid)
        vrf = None if record is None else self._vrfs.of(record.tenant)
        network = None if record is None or vrf is None else network_of(record, vrf)
        for bridge, side in self._sides.items():
            here = record is not None and BRIDGE_OF[record.encap] is bridge
            side.set_network(nid, network if here else None)

    def _free_unused(self) -> Moved:
        if not self._complete:
            return Moved()
        used = {record.tenant for record in self._records.values()}
        freed = self._vrfs.keep(used)
        waiting = used - self._vrfs.ids.keys() if freed else set()
        placed = [record.id for record in self._records.values() if record.tenant in waiting]
        for nid in placed:
            self._place(nid)
        return Moved(placed, waiting | freed)
