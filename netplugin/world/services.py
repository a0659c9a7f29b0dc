"""The services that each bridge of this host serves. Pure: no I/O, no clock.

Those of the cluster are records, whose providers `netplugin.world.service_records` finds; a bridge
has a service in the VRF of its tenant (`netplugin.world.vrfs`), while there is one, with the
providers on its own networks (`netplugin.world.networks`). Those of Kubernetes
(`netplugin.kube.feed`) are every tenant's, on both bridges. Next is `ofnet.pipelines.service_nat`.
"""

from collections.abc import Callable, Iterable, Mapping

from core.ids import ServiceKey, TenantName
from netplugin.world.bridge_state import BridgeState
from netplugin.world.conversion import kube_service_of
from netplugin.world.kube_services import KubeService
from netplugin.world.network_tenants import NetworkTenants
from netplugin.world.service_records import ServiceRecords
from ofnet.world import Bridge, Service
from state.records import EndpointRecord, ServiceRecord


class Services:
    """The services of the cluster and of Kubernetes; `vrfs` has what VRF ids tenants have now."""

    def __init__(
        self,
        sides: Mapping[Bridge, BridgeState],
        vrfs: Mapping[TenantName, int],
        tenants: NetworkTenants,
        changed: Callable[[], None],
    ) -> None:
        self._changed = changed
        self._sides = sides
        self._vrfs = vrfs
        self._book = ServiceRecords(tenants)
        self._altered: set[ServiceKey] = set()
        self.kube: dict[str, KubeService] = {}
        """Those of Kubernetes, by their keys; to be read."""

    def put(self, record: ServiceRecord) -> None:
        """Learn or replace a service. Raises Invalid, changing nothing, if it cannot be read."""
        self._mark(self._book.put_service(record))

    def remove(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._mark(self._book.remove_service(key))

    def put_endpoint(self, record: EndpointRecord) -> None:
        """Learn or replace an endpoint, which may provide."""
        self._mark(self._book.put_endpoint(record))

    def remove_endpoint(self, record: EndpointRecord) -> None:
        """Forget an endpoint."""
        self._mark(self._book.remove_endpoint(record))

    def tenants_changed(self, tenants: Iterable[TenantName]) -> None:
        """Follow tenants that have other networks now, or another VRF id."""
        for tenant in tenants:
            self._mark(self._book.of(tenant))

    def put_kube(self, service: KubeService) -> None:
        """Learn or replace a service of Kubernetes."""
        self.kube[service.key] = service
        self._serve_all(service.key, kube_service_of(service))

    def remove_kube(self, key: str) -> None:
        """Forget a service of Kubernetes."""
        self.kube.pop(key, None)
        self._serve_all(key, None)

    def update_bridges(self) -> None:
        """Have each bridge know services as they are now, once: endpoints come by the thousand."""
        altered, self._altered = self._altered, set()
        for key in altered:
            tenant = self._book.tenant(key)
            vrf = self._vrfs.get(tenant) if tenant is not None else None
            for side in self._sides.values():
                service = None if vrf is None else self._book.on(key, vrf, side.networks)
                side.set_service(key, service)

    def _mark(self, keys: Iterable[ServiceKey]) -> None:
        before = len(self._altered)
        self._altered.update(keys)
        if len(self._altered) > before:
            self._changed()

    def _serve_all(self, key: str, service: Service | None) -> None:
        for side in self._sides.values():
            side.set_service(key, service)
