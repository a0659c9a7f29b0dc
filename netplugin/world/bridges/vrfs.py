"""The VRF id of each tenant on this host. Pure: no I/O, no clock.

It is the lowest free of 1..255, and stays while the tenant has a network
(`netplugin.world.bridges.networks`). The ids are stored across restarts, so that a restart changes
no flow (ADR 13): as external ids of the vxlan bridge, `contiv-vrf-<tenant>` = id, which
`netplugin.bridges.reconciler` writes.
"""

from collections.abc import Mapping, Set
from typing import Final

from core.ids import TenantName

MAX_VRF: Final = 255
VRF_ID: Final = "contiv-vrf-"
_TEXTS: Final = frozenset(map(str, range(1, MAX_VRF + 1)))


def stored_vrfs(ids: Mapping[str, str]) -> dict[TenantName, int]:
    """Return the VRF ids in a bridge's external_ids, by tenant; unreadable values are skipped.

    No id is given to two tenants: their addresses would share a VRF.
    """
    stored: dict[int, TenantName] = {}
    for name, value in sorted(ids.items()):
        if name.startswith(VRF_ID) and value in _TEXTS:
            stored.setdefault(int(value), TenantName(name.removeprefix(VRF_ID)))
    return {tenant: number for number, tenant in stored.items()}


def external_ids(
    stored: Mapping[TenantName, int], wanted: Mapping[TenantName, int]
) -> dict[str, str | None]:
    """Return the external ids to set, or to clear (None), to turn `stored` into `wanted`."""
    ids: dict[str, str | None] = {f"{VRF_ID}{t}": None for t in stored.keys() - wanted.keys()}
    ids.update({f"{VRF_ID}{t}": str(i) for t, i in wanted.items() if stored.get(t) != i})
    return ids


class VrfIds:
    """The ids in use; `stored` are those that the agent used before it was restarted."""

    def __init__(self, stored: Mapping[TenantName, int]) -> None:
        self._ids = dict(stored)

    @property
    def ids(self) -> Mapping[TenantName, int]:
        """The id of each tenant; they must be stored before flows with them are sent."""
        return self._ids

    def of(self, tenant: TenantName) -> int | None:
        """Return a tenant's id, a new one if it has none; None while all are in use."""
        # A tenant keeps its id while it has networks: another id would replace all its flows, and
        # interrupt its connections.
        known = self._ids.get(tenant)
        if known is not None:
            return known
        used = set(self._ids.values())
        free = next((i for i in range(1, MAX_VRF + 1) if i not in used), None)
        if free is not None:
            self._ids[tenant] = free
        return free

    def retain(self, tenants: Set[TenantName]) -> set[TenantName]:
        """Free the ids of all other tenants; return the tenants that had them."""
        freed = self._ids.keys() - tenants
        for tenant in freed:
            del self._ids[tenant]
        return freed
