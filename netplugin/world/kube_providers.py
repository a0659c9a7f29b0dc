"""The services of Kubernetes as the switches have them, with the tenants of their providers. Pure.

In come the services (`netplugin.world.kube_services`) and the endpoints of the cluster; out come,
for each bridge, one `ofnet.world.Service` for each address of a service. `netplugin.world.services`
owns the instance.
"""

# A service of Kubernetes knows no tenants: its backends are addresses, and two tenants may have the
# same one. A client gets only pods of its own tenant, so each backend is looked up among the
# endpoints. The names of pods, and of nodes where that leaves two, tell which one is meant. A
# backend that could be either is left out: a client would reach the wrong pod in the service's
# name. An address that no endpoint has is no pod, a host or something outside, and for every
# tenant.

from collections.abc import Container, Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from core.ids import EndpointKey, HostLabel, NetworkId, TenantName
from core.multimap import discard
from netplugin.world.kube_services import KubePort, KubeService, KubeTarget
from netplugin.world.network_tenants import NetworkTenants
from ofnet.world import Provider, Service, ServicePort
from state.records import EndpointRecord

PROTOCOLS: Final = {"TCP": 6, "UDP": 17}

Address = IPv4Address | IPv6Address


class KubeProviders:
    """The services of Kubernetes and the endpoints; changes of these return the services altered.

    `host` is this host, whose targets count for a traffic policy `Local`.
    """

    def __init__(self, host: HostLabel, tenants: NetworkTenants) -> None:
        self.services: dict[str, KubeService] = {}
        """By their keys; to be read."""
        self._host = host
        self._tenants = tenants
        self._endpoints: dict[EndpointKey, EndpointRecord] = {}
        self._by_address: dict[Address, set[EndpointKey]] = {}
        self._dependents: dict[Address, set[str]] = {}

    def put_service(self, service: KubeService) -> None:
        """Add or replace a service."""
        self.remove_service(service.key)
        self.services[service.key] = service
        for address in _targets(service):
            self._dependents.setdefault(address, set()).add(service.key)

    def remove_service(self, key: str) -> None:
        """Remove a service."""
        before = self.services.pop(key, None)
        for address in _targets(before) if before is not None else ():
            discard(self._dependents, address, key)

    def put_endpoint(self, record: EndpointRecord) -> set[str]:
        """Add or replace an endpoint."""
        altered = self.remove_endpoint(record)
        self._endpoints[record.key] = record
        for address in _addresses(record):
            self._by_address.setdefault(address, set()).add(record.key)
            altered |= self._dependents.get(address, set())
        return altered

    def remove_endpoint(self, record: EndpointRecord) -> set[str]:
        """Remove an endpoint."""
        before = self._endpoints.pop(record.key, None)
        altered: set[str] = set()
        for address in _addresses(before) if before is not None else ():
            discard(self._by_address, address, record.key)
            altered |= self._dependents.get(address, set())
        return altered

    def on_bridge(
        self, key: str, vrfs: Mapping[TenantName, int], networks: Container[NetworkId]
    ) -> dict[str, Service]:
        """Return a service on a bridge that has these networks, by name for each of its addresses.

        The first address has the service's key as its name. Nothing for a service that is not
        known, has no address of its own, or is left to another proxy.
        """
        service = self.services.get(key)
        if service is None or service.left_alone:
            return {}
        outside = (*service.external_ips, *service.load_balancer_ips)
        out: dict[str, Service] = {}
        for address in dict.fromkeys((*service.addresses, *outside)):
            # Inside the cluster a policy for traffic from outside does not hold.
            local = service.internal_local and address in service.addresses
            name = f"{key}@{address}" if out else key
            out[name] = Service(
                key=name,
                vrf=0,
                address=address,
                ports=tuple(
                    self._port(port, address.version, vrfs, networks, local=local)
                    for port in service.ports
                    if port.protocol in PROTOCOLS
                ),
                affinity=service.affinity_seconds,
                clients=service.clients_of(address),
            )
        return out

    def _port(
        self,
        port: KubePort,
        version: int,
        vrfs: Mapping[TenantName, int],
        networks: Container[NetworkId],
        *,
        local: bool,
    ) -> ServicePort:
        targets: Iterable[KubeTarget] = port.targets
        if local:
            here = [one for one in port.targets if self._is_here(one)]
            targets = here or [one for one in port.draining if self._is_here(one)]

        def providers(named: Iterable[KubeTarget]) -> frozenset[Provider]:
            of_family = (one for one in named if one.address.version == version)
            found = (self._provider(one, vrfs, networks) for one in of_family)
            return frozenset(one for one in found if one is not None)

        given = every = providers(targets)
        if not local and port.hinted is not None:
            given = _nearest(providers(port.hinted), every)
        # Those that hints leave out keep the connections that they have.
        keeping = (every | providers(port.draining)) - given
        return ServicePort(PROTOCOLS[port.protocol], port.port, given, keeping)

    def _provider(
        self,
        target: KubeTarget,
        vrfs: Mapping[TenantName, int],
        networks: Container[NetworkId],
    ) -> Provider | None:
        """Return the provider that a target is; None for one that no pod of the bridge can reach.

        Pods on networks of the other bridge are among these.
        """
        if not self._by_address.get(target.address):
            return Provider(target.address, target.port)
        record = self._endpoint(target)
        if record is None or record.network not in networks:
            return None
        vrf = vrfs.get(self._tenants.of(record.network))
        return None if vrf is None else Provider(target.address, target.port, vrf)

    def _endpoint(self, target: KubeTarget) -> EndpointRecord | None:
        """Return the endpoint that a target is; None if none is, or more than one could be."""
        keys = self._by_address.get(target.address, ())
        found = [self._endpoints[key] for key in keys]
        if target.pod:
            name = target.pod.partition("/")[2]
            found = [one for one in found if one.common_name == name]
        if len(found) > 1:
            found = [one for one in found if one.homing_host == target.node]
        return found[0] if len(found) == 1 else None

    def _is_here(self, target: KubeTarget) -> bool:
        record = self._endpoint(target)
        return self._host in {target.node, record.homing_host if record is not None else ""}


def _nearest(near: frozenset[Provider], every: frozenset[Provider]) -> frozenset[Provider]:
    """Return the near providers, and all of a tenant that would have none."""
    served = {one.vrf for one in near}
    if not near or 0 in served:
        return near or every
    return near | {one for one in every if one.vrf and one.vrf not in served}


def _targets(service: KubeService) -> set[Address]:
    every = (one for port in service.ports for one in (*port.targets, *port.draining))
    return {one.address for one in every}


def _addresses(record: EndpointRecord) -> list[Address]:
    found: list[Address] = [IPv4Address(record.ip_address)] if record.ip_address else []
    return [*found, IPv6Address(record.ipv6_address)] if record.ipv6_address else found
