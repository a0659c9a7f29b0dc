"""The cluster's services and the endpoints that provide them. Pure.

`netplugin.world.services.bridge_services` feeds it changes. Whether an endpoint is a provider of a
service is decided by `state.service_providers`, from its labels; the result is kept for each
service, so that a record that changes is compared once.
"""

from collections.abc import Container, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from core.ids import EndpointKey, NetworkId, ServiceKey, TenantName
from netplugin.world.bridges.conversion import MappedPort, ports_of
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow, EndpointTable
from ofnet.world import Provider, Service, ServicePort
from state.records import EndpointRecord, ServiceRecord
from state.service_providers import provides


class ServiceRecords:
    """The services and their providers; each change returns the services it altered."""

    def __init__(self, endpoints: EndpointTable) -> None:
        self._endpoints = endpoints
        self._services: dict[ServiceKey, ServiceRecord] = {}
        self._ports: dict[ServiceKey, tuple[MappedPort, ...]] = {}
        self._providers: dict[ServiceKey, dict[EndpointKey, EndpointRecord]] = {}

    def put_service(self, record: ServiceRecord) -> set[ServiceKey]:
        """Add or replace a service. Raises Invalid, changing nothing, if it cannot be read."""
        ports = ports_of(record)
        self._services[record.key] = record
        self._ports[record.key] = ports
        self._providers[record.key] = {
            one.record.key: one.record
            for one in self._endpoints.labelled(record.tenant)
            if provides(*one, record)
        }
        return {record.key}

    def remove_service(self, key: ServiceKey) -> set[ServiceKey]:
        """Remove a service."""
        self._services.pop(key, None)
        self._ports.pop(key, None)
        self._providers.pop(key, None)
        return {key}

    def update_endpoint(self, old: EndpointRow | None, new: EndpointRow | None) -> set[ServiceKey]:
        """Follow an endpoint, which may be a provider."""
        # Providers are selected by labels. Most endpoints have none, and need not be compared with
        # every service.
        altered = set[ServiceKey]()
        labelled = [one for one in (old, new) if one is not None and one.record.labels]
        for key, service in self._services.items() if labelled else ():
            providing = new.record if new is not None and provides(*new, service) else None
            if self._set_provider(key, labelled[0].record.key, providing):
                altered.add(key)
        return altered

    def of_tenant(self, tenant: TenantName) -> set[ServiceKey]:
        """Return the keys of a tenant's services."""
        return {key for key, service in self._services.items() if service.tenant == tenant}

    def tenant(self, key: ServiceKey) -> TenantName | None:
        """Return the tenant of a service, None if the service is not known."""
        service = self._services.get(key)
        return None if service is None else service.tenant

    def on_bridge(
        self, key: ServiceKey, vrf: int, networks: Container[NetworkId]
    ) -> Service | None:
        """Return a service on a bridge that has these networks; None if it is not known.

        Providers on the networks of the other bridge are left out: they cannot be reached.
        """
        service = self._services.get(key)
        if service is None:
            return None
        address = ip_address(service.ip_address)
        providing = (one for one in self._providers[key].values() if one.network in networks)
        providers = _addresses(providing, address.version)
        return Service(
            key=key,
            vrf=vrf,
            address=address,
            ports=tuple(
                ServicePort(
                    port.protocol,
                    port.port,
                    frozenset(Provider(one, port.provider_port, vrf) for one in providers),
                )
                for port in self._ports[key]
            ),
        )

    def _set_provider(
        self, key: ServiceKey, name: EndpointKey, provider: EndpointRecord | None
    ) -> bool:
        # The records are compared, not the keys alone: a provider's address may have changed.
        providers = self._providers[key]
        before = providers.pop(name, None)
        if provider is not None:
            providers[name] = provider
        return before != provider


def _addresses(
    providers: Iterable[EndpointRecord], version: int
) -> frozenset[IPv4Address | IPv6Address]:
    """Return the providers' addresses of one family."""
    texts = (one.ip_address if version == 4 else one.ipv6_address for one in providers)
    return frozenset(ip_address(text) for text in texts if text)
