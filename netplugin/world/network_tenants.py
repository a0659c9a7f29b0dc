"""Whose a network is. Pure.

`<network>.<tenant>` does not say where the one ends and the other begins, for both may hold dots;
the network's record does, of which `netplugin.world.builder` tells. As long as nothing is known it
is what follows the last dot, and for most networks it stays so. `netplugin.world.dns_records` and
`netplugin.world.service_records` ask.
"""

from core.ids import NetworkId, NetworkName, TenantName, split_network_id


class NetworkTenants:
    """The tenants of networks: those are remembered whose ids do not say it."""

    def __init__(self) -> None:
        self._others: dict[NetworkId, TenantName] = {}

    def of(self, nid: NetworkId) -> TenantName:
        """Return whose a network is."""
        return self.split(nid)[1]

    def split(self, nid: NetworkId) -> tuple[NetworkName, TenantName]:
        """Return a network's name and whose it is."""
        tenant = self._others.get(nid)
        if tenant is None:
            return split_network_id(nid)
        return NetworkName(nid.removesuffix(f".{tenant}")), tenant

    def put(self, nid: NetworkId, tenant: TenantName) -> None:
        """Learn whose a network is."""
        self._others.pop(nid, None)
        if tenant != self.of(nid):
            self._others[nid] = tenant
