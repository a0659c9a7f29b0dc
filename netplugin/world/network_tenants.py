"""Maps a network id to its tenant. Pure.

The id `<network>.<tenant>` alone is ambiguous, because both names may contain dots. The network's
record is not; `netplugin.world.builder` passes its tenant on. Until a record is known, the tenant
is the part after the last dot, which is right for most networks. Used by
`netplugin.world.dns_records` and `netplugin.world.service_records`.
"""

from core.ids import NetworkId, NetworkName, TenantName, split_network_id


class NetworkTenants:
    """The tenants of networks. Only those that differ from the default are stored."""

    def __init__(self) -> None:
        self._exceptions: dict[NetworkId, TenantName] = {}

    def of(self, nid: NetworkId) -> TenantName:
        """Return the tenant of a network."""
        return self.split(nid)[1]

    def split(self, nid: NetworkId) -> tuple[NetworkName, TenantName]:
        """Return the name and the tenant of a network."""
        tenant = self._exceptions.get(nid)
        if tenant is None:
            return split_network_id(nid)
        return NetworkName(nid.removesuffix(f".{tenant}")), tenant

    def put(self, nid: NetworkId, tenant: TenantName) -> None:
        """Set the tenant of a network."""
        self._exceptions.pop(nid, None)
        if tenant != self.of(nid):
            self._exceptions[nid] = tenant
