"""The providers of a service: endpoints selected by labels; computed, never stored (pure).

An endpoint is a provider of a service of its tenant while its container runs (it has a container
id) and has all labels of the service's selector. The original keeps the lists in CfgServiceLBState
and SvcProvider and rewrites them with each container (docs/original/netmaster-state.md §8). Used by
netmaster's replies and by agents.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.ids import NetworkName, ServiceKey, TenantName
from state.records import EndpointRecord, ServiceRecord


@dataclass(frozen=True, slots=True)
class Candidate:
    """An endpoint with its network and tenant."""

    endpoint: EndpointRecord
    network: NetworkName
    tenant: TenantName

    @property
    def provider_id(self) -> str:
        """`<address>:<tenant>`, the original's id of a provider."""
        return f"{_address(self.endpoint)}:{self.tenant}"


def _address(endpoint: EndpointRecord) -> str:
    """Return the address that a provider goes by: of IPv6 if it has that alone."""
    return endpoint.ip_address or endpoint.ipv6_address


def provides(endpoint: EndpointRecord, tenant: TenantName, service: ServiceRecord) -> bool:
    """Return whether an endpoint of a tenant is a provider of a service."""
    labels = endpoint.labels
    if not endpoint.container_id or not labels or tenant != service.tenant:
        return False
    return all(labels.get(name) == value for name, value in service.selectors.items())


def providers(service: ServiceRecord, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the providers of a service, ordered by endpoint key."""
    serving = [one for one in candidates if provides(one.endpoint, one.tenant, service)]
    return sorted(serving, key=lambda candidate: candidate.endpoint.key)


def services_of(candidate: Candidate, services: Iterable[ServiceRecord]) -> list[ServiceKey]:
    """Return the sorted ids of the services of which an endpoint is a provider."""
    endpoint, tenant = candidate.endpoint, candidate.tenant
    return sorted(one.key for one in services if provides(endpoint, tenant, one))


def provider_fields(candidate: Candidate, services: Iterable[ServiceKey]) -> Mapping[str, object]:
    """Return a provider with the original's JSON names."""
    endpoint = candidate.endpoint
    return {
        "IPAddress": _address(endpoint),
        "ContainerID": endpoint.container_id,
        "Labels": dict(endpoint.labels or {}),
        "Tenant": candidate.tenant,
        "Network": candidate.network,
        "Services": list(services),
        "Container": "",
        "EpIDKey": endpoint.key,
    }
