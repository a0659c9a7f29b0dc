"""The services on each bridge of this host. Pure: no I/O, no clock.

The cluster's services are records, with providers found by
`netplugin.world.services.service_records`. A bridge has a service in the VRF of its tenant
(`netplugin.world.bridges.vrfs`), with the providers that are on networks of this bridge. Services
of Kubernetes (`netplugin.kube.feed`) are on both bridges, for every tenant, with the providers of
each (`netplugin.world.services.kube_providers`). Next is `ofnet.pipelines.features.service_nat`.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import TypeVar

from core.ids import HostLabel, ServiceKey, TenantName
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.change_signal import ChangeSignal
from netplugin.world.bridges.networks import NetworkChange
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow, EndpointTable
from netplugin.world.kubernetes.kube_services import KubeService
from netplugin.world.services.kube_providers import KubeProviders
from netplugin.world.services.service_records import ServiceRecords
from ofnet.world import Bridge
from state.records import ServiceRecord

Key = TypeVar("Key", bound=str)


class Services:
    """The services of the cluster and of Kubernetes, on this `host`.

    `vrfs` has the current VRF ids of tenants. `signal` is set when a service may have changed.
    """

    def __init__(
        self,
        host: HostLabel,
        bridges: Mapping[Bridge, BridgeState],
        vrfs: Mapping[TenantName, int],
        endpoints: EndpointTable,
        signal: ChangeSignal,
    ) -> None:
        self._signal = signal
        self._bridges = bridges
        self._vrfs = vrfs
        self._records = ServiceRecords(endpoints)
        self._altered: set[ServiceKey] = set()
        self._kube = KubeProviders(host, endpoints)
        self._altered_kube: set[str] = set()
        self._named: dict[str, set[str]] = {}

    @property
    def kube(self) -> Mapping[str, KubeService]:
        """The services of Kubernetes, without the addresses of others' pods and of hosts."""
        return self._kube.services

    @property
    def asked_kube(self) -> Mapping[str, KubeService]:
        """The services of Kubernetes as it has them, by their keys."""
        return self._kube.asked

    def faults(self) -> list[str]:
        """Return what is wrong with services of Kubernetes."""
        return self._kube.faults()

    def put(self, record: ServiceRecord) -> None:
        """Add or replace a service. Raises Invalid, changing nothing, if it cannot be read."""
        self._mark(self._records.put_service(record))

    def remove(self, key: ServiceKey) -> None:
        """Remove a service."""
        self._mark(self._records.remove_service(key))

    def update_endpoint(self, old: EndpointRow | None, new: EndpointRow | None) -> None:
        """Follow an endpoint, which may be a provider."""
        self._mark(self._records.update_endpoint(old, new))
        self._mark_kube(self._kube.update_endpoint(old, new))

    def networks_changed(self, change: NetworkChange) -> None:
        """Update the services of tenants whose networks or VRF ids changed."""
        for tenant in change.tenants:
            self._mark(self._records.of_tenant(tenant))
            self._mark_kube(self._kube.services)

    def set_private(self, subnet: IPv4Network | None) -> None:
        """Set the private network of hosts and their pods, which no service is on."""
        self._mark_kube(self._kube.set_private(subnet))

    def put_kube(self, service: KubeService) -> None:
        """Add or replace a service of Kubernetes."""
        self._kube.put_service(service)
        self._mark_kube({service.key})

    def remove_kube(self, key: str) -> None:
        """Remove a service of Kubernetes."""
        self._kube.remove_service(key)
        self._mark_kube({key})

    def update_bridges(self) -> None:
        """Set the changed services on the bridges."""
        altered, self._altered = self._altered, set()
        for key in altered:
            tenant = self._records.tenant(key)
            vrf = self._vrfs.get(tenant) if tenant is not None else None
            for bridge in self._bridges.values():
                service = (
                    None if vrf is None else self._records.on_bridge(key, vrf, bridge.networks)
                )
                bridge.set_service(key, service)
        altered_kube, self._altered_kube = self._altered_kube, set()
        for name in altered_kube:
            self._set_kube(name)

    def _set_kube(self, key: str) -> None:
        before = self._named.pop(key, set())
        for bridge in self._bridges.values():
            services = self._kube.on_bridge(key, self._vrfs, bridge.networks)
            for name in before | services.keys():
                bridge.set_service(name, services.get(name))
            if services:
                self._named[key] = set(services)

    def _mark(self, keys: Iterable[ServiceKey]) -> None:
        self._add(self._altered, keys)

    def _mark_kube(self, keys: Iterable[str]) -> None:
        self._add(self._altered_kube, keys)

    def _add(self, altered: set[Key], keys: Iterable[Key]) -> None:
        before = len(altered)
        altered.update(keys)
        if len(altered) > before:
            self._signal.set()
