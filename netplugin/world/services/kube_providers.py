"""The services of Kubernetes as the switches have them, with the tenants of their providers. Pure.

In come the services (`netplugin.world.kubernetes.kube_services`) and the endpoints of the cluster
(`netplugin.world.cluster_endpoints.endpoint_table`); out come, for each bridge, one
`ofnet.world.Service` for each address of a service. `netplugin.world.services.bridge_services` owns
the instance.
"""

# A service of Kubernetes knows no tenants: its backends are addresses, and two tenants may have the
# same one. A client gets only pods of its own tenant, so each backend is looked up among the
# endpoints. The names of pods, and of nodes where that leaves two, tell which one is meant. A
# backend that could be either is left out: a client would reach the wrong pod in the service's
# name. An address that no endpoint has is no pod, a host or something outside, and for every
# tenant.
#
# Whoever writes a service names its external addresses, and flows for an address take all of it.
# The address of a pod stays the pod's: no service has it but one that has the pod as a target. What
# hosts and pods are to each other stays theirs (`pvtSubnet`, `HOSTS_OWN6`): a service there would
# take the answers of pods to what their host forwards.

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Final

from core.collections.multimap import discard
from core.ids import HostLabel, NetworkId, TenantName
from netplugin.world.bridges.conversion import PROTOCOLS
from netplugin.world.cluster_endpoints.endpoint_table import (
    EndpointRow,
    EndpointTable,
    addresses_of,
)
from netplugin.world.kubernetes.kube_objects import Ip
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from ofnet.world import HOSTS_OWN6, Provider, Service, ServicePort

_RESERVED: Final = "reserved for traffic between hosts and their pods"


class KubeProviders:
    """The services of Kubernetes and the endpoints; changes of these return the services altered.

    `host` is this host, whose targets count for a traffic policy `Local`.
    """

    def __init__(self, host: HostLabel, endpoints: EndpointTable) -> None:
        self.services: dict[str, KubeService] = {}
        """By their keys, without the addresses of others' pods and of hosts; to be read."""
        self.asked: dict[str, KubeService] = {}
        """As Kubernetes has them; to be read."""
        self._refused: dict[str, dict[str, str]] = {}
        """Of a service the addresses that it asks for and does not get, and what these are."""
        self._private: IPv4Network | None = None
        self._host = host
        self._endpoints = endpoints
        self._dependents: dict[str, set[str]] = {}
        """The services that have an address of their own, or of a target."""

    def put_service(self, service: KubeService) -> None:
        """Add or replace a service."""
        self.remove_service(service.key)
        self.asked[service.key] = service
        self._serve(service.key)
        for address in _targets(service) | set(_outside(service)):
            self._dependents.setdefault(address, set()).add(service.key)

    def remove_service(self, key: str) -> None:
        """Remove a service."""
        before = self.asked.pop(key, None)
        self.services.pop(key, None)
        self._refused.pop(key, None)
        if before is not None:
            for address in _targets(before) | set(_outside(before)):
                discard(self._dependents, address, key)

    def update_endpoint(self, old: EndpointRow | None, new: EndpointRow | None) -> set[str]:
        """Follow an endpoint."""
        rows = (one for one in (old, new) if one is not None)
        altered = (self._dependents.get(text, ()) for one in rows for text in addresses_of(one[0]))
        found = set[str]().union(*altered)
        for key in found:
            self._serve(key)
        return found

    def set_private(self, subnet: IPv4Network | None) -> set[str]:
        """Set the private network of hosts and their pods; return the services altered."""
        if subnet == self._private:
            return set()
        self._private, before = subnet, dict(self.services)
        for key in before:
            self._serve(key)
        return {key for key, one in self.services.items() if one != before[key]}

    def faults(self) -> list[str]:
        """Return which services are not served at which addresses, since others have these."""
        return [
            f"service {key} not served at {address}, which is {holder}"
            for key, refused in sorted(self._refused.items())
            for address, holder in refused.items()
        ]

    def _serve(self, key: str) -> None:
        service = self.asked[key]
        self._refused.pop(key, None)
        if taken := self._taken(service):
            self._refused[key] = taken
            service = replace(
                service,
                external_ips=tuple(one for one in service.external_ips if str(one) not in taken),
                load_balancer_ips=tuple(
                    one for one in service.load_balancer_ips if str(one) not in taken
                ),
            )
        self.services[key] = service

    def _taken(self, service: KubeService) -> dict[str, str]:
        """Return the external addresses that are hosts' or others' pods, and what each is."""
        outside = (*service.external_ips, *service.load_balancer_ips)
        taken = {str(one): _RESERVED for one in outside if self._is_private(one)}
        holders = {str(one): self._endpoints.at(str(one)) for one in outside}
        held = {one: found for one, found in holders.items() if found}
        own = _targets(service) if held else set()
        pods = {
            one: min(row.record.common_name or row.record.key for row in found)
            for one, found in held.items()
            if one not in own
        }
        return taken | {one: f"pod {name}'s" for one, name in pods.items()}

    def _is_private(self, address: Ip) -> bool:
        return address in HOSTS_OWN6 or (self._private is not None and address in self._private)

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
        holders = self._endpoints.at(str(target.address))
        if not holders:
            return Provider(target.address, target.port)
        endpoint = _meant(target, holders)
        if endpoint is None or endpoint.record.network not in networks:
            return None
        vrf = vrfs.get(endpoint.tenant)
        return None if vrf is None else Provider(target.address, target.port, vrf)

    def _is_here(self, target: KubeTarget) -> bool:
        endpoint = _meant(target, self._endpoints.at(str(target.address)))
        return self._host in {target.node, endpoint.record.homing_host if endpoint else ""}


def _meant(target: KubeTarget, found: list[EndpointRow]) -> EndpointRow | None:
    """Return which endpoint with its address a target is; None if none is, or several could be."""
    if target.pod:
        name = target.pod.partition("/")[2]
        found = [one for one in found if one.record.common_name == name]
    if len(found) > 1:
        found = [one for one in found if one.record.homing_host == target.node]
    return found[0] if len(found) == 1 else None


def _nearest(near: frozenset[Provider], every: frozenset[Provider]) -> frozenset[Provider]:
    """Return the near providers, and all of a tenant that would have none."""
    served = {one.vrf for one in near}
    if not near or 0 in served:
        return near or every
    return near | {one for one in every if one.vrf and one.vrf not in served}


def _targets(service: KubeService) -> set[str]:
    every = (one for port in service.ports for one in (*port.targets, *port.draining))
    return {str(one.address) for one in every}


def _outside(service: KubeService) -> list[str]:
    """Return the addresses of a service that others than Kubernetes have chosen."""
    return [str(one) for one in (*service.external_ips, *service.load_balancer_ips)]
