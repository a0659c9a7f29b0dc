"""Services of Kubernetes as this host needs them, from the objects of its API server. Pure.

`netplugin.kube.feed` passes on the server's objects of services and of their endpoints, in any
order; out come `KubeService`s. The targets of a port are those that the endpoints have for the port
of that name: a service may give its target port by name. Services are keyed by namespace and name.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.collections.multimap import discard
from netplugin.world.kubernetes.kube_backends import (
    Backends,
    KubeTarget,
    Near,
    hinted,
    members,
    of_endpoints,
    of_slice,
    targets,
)
from netplugin.world.kubernetes.kube_objects import (
    LEFT_ALONE,
    Block,
    EndpointsObject,
    Ip,
    KubeObject,
    Port,
    ServiceObject,
    SliceObject,
    parse,
)

__all__ = [
    "ENDPOINTS",
    "SERVICES",
    "SLICES",
    "KubePort",
    "KubeService",
    "KubeServices",
    "KubeTarget",
]

SERVICES: Final = "services"
ENDPOINTS: Final = "endpoints"
SLICES: Final = "endpointslices"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePort:
    """A port of a service and its targets. A `node_port` of 0 means none.

    `targets` are the ready ones of both families, or, if none is ready, those that terminate but
    still serve, as kube-proxy does (KEP-1669). `draining` are the latter in any case: where a
    traffic policy leaves only the targets of one node, and none of these is ready there, they are
    to be used.
    """

    name: str = ""
    protocol: str
    port: int
    node_port: int = 0
    targets: frozenset[KubeTarget] = frozenset()
    draining: frozenset[KubeTarget] = frozenset()
    hinted: frozenset[KubeTarget] | None = None
    """Those of `targets` that clients of this node shall have by hints; None for all."""

    @property
    def near(self) -> frozenset[KubeTarget]:
        """The targets for clients of this node, where no policy leaves only those of one node."""
        return self.targets if self.hinted is None else self.hinted


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeService:
    """A service; a headless one has no address of its own, one of type ExternalName no targets."""

    namespace: str
    name: str
    addresses: tuple[Ip, ...] = ()
    """Its cluster IPs, the one of the primary family first; () if it is headless."""

    external_ips: tuple[Ip, ...] = ()
    load_balancer_ips: tuple[Ip, ...] = ()
    source_ranges: tuple[Block, ...] = ()
    """loadBalancerSourceRanges: who may use the addresses of the load balancer; () for all."""

    left_alone: bool = False
    """Another proxy serves it, or none, by its labels. It has its name all the same."""

    headless: bool = False
    external_name: str = ""
    """The DNS name for which a service of type ExternalName stands."""

    external_local: bool = False
    """externalTrafficPolicy Local: traffic from outside goes to targets of its own node only."""

    internal_local: bool = False
    """internalTrafficPolicy Local: the same for traffic from inside the cluster."""

    health_check_node_port: int = 0
    affinity_seconds: int = 0
    """How long a client stays with its target (sessionAffinity ClientIP); 0 for no affinity."""

    publish_not_ready: bool = False
    """publishNotReadyAddresses: the server counts endpoints as ready that are not."""

    ports: tuple[KubePort, ...] = ()
    members: frozenset[KubeTarget] = frozenset()
    """Of a headless service all ready endpoints, with port 0: also where it names no ports."""

    @property
    def key(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"

    def clients_of(self, address: Ip) -> tuple[Block, ...]:
        """Return who may use an address of the service; () for all.

        Ranges count at addresses of the load balancer that are not the service's otherwise, and
        within their family: where it has none, all may, as with kube-proxy.
        """
        if address in {*self.addresses, *self.external_ips}:
            return ()
        return tuple(one for one in self.source_ranges if one.version == address.version)


class KubeServices:
    """All services; each change returns the keys of those it altered. `node` is that of clients."""

    def __init__(self, node: str = "") -> None:
        self._near = Near(node)
        self.services: dict[str, KubeService] = {}
        """By `<namespace>/<name>`."""
        self._services: dict[str, ServiceObject] = {}
        self._endpoints: dict[str, tuple[Backends, ...]] = {}
        self._slices: dict[str, tuple[str, Backends]] = {}
        self._slices_of: dict[str, set[str]] = {}

    def put(self, resource: str, received: KubeObject) -> set[str]:
        """Add or replace an object. Raises Invalid, changing nothing, if it cannot be read."""
        match resource:
            case "services":
                service = parse(ServiceObject, resource, received)
                self._services[service.metadata.key] = service
                return self._derive(service.metadata.key)
            case "endpoints":
                endpoints = parse(EndpointsObject, resource, received)
                self._endpoints[endpoints.metadata.key] = of_endpoints(endpoints)
                return self._derive(endpoints.metadata.key)
            case _:
                piece = parse(SliceObject, resource, received)
                return self._put_slice(piece.metadata.key, piece.service, of_slice(piece))

    def set_zone(self, zone: str) -> set[str]:
        """Set the zone of the clients' node, "" for none."""
        if zone == self._near.zone:
            return set()
        self._near = self._near._replace(zone=zone)
        return set[str]().union(*(self._derive(key) for key in tuple(self._services)))

    def retain(self, resource: str, keys: Container[str]) -> set[str]:
        """Remove the objects of a resource whose keys are not among these."""
        held = self._held(resource)
        return set().union(*(self.remove(resource, key) for key in tuple(held) if key not in keys))

    def remove(self, resource: str, key: str) -> set[str]:
        """Remove an object."""
        if resource == SLICES:
            return self._remove_slice(key)
        self._held(resource).pop(key, None)
        return self._derive(key)

    def _held(self, resource: str) -> dict[str, Any]:
        held: dict[str, dict[str, Any]] = {
            SERVICES: self._services,
            ENDPOINTS: self._endpoints,
            SLICES: self._slices,
        }
        return held[resource]

    def _put_slice(self, key: str, service: str, backends: Backends) -> set[str]:
        altered = set[str]()
        if key in self._slices and self._slices[key][0] != service:
            altered = self._remove_slice(key)
        self._slices[key] = service, backends
        self._slices_of.setdefault(service, set()).add(key)
        return altered | self._derive(service)

    def _remove_slice(self, key: str) -> set[str]:
        if key not in self._slices:
            return set()
        service, _ = self._slices.pop(key)
        discard(self._slices_of, service, key)
        return self._derive(service)

    def _derive(self, key: str) -> set[str]:
        # Services and endpoints arrive by watches that know nothing of each other. Endpoints
        # without a service are kept, because the service may follow.
        before = self.services.pop(key, None)
        service = self._services.get(key)
        if service is not None:
            slices = (self._slices[one][1] for one in self._slices_of.get(key, ()))
            backends = (*self._endpoints.get(key, ()), *slices)
            self.services[key] = _service(service, backends, self._near)
        return {key} if self.services.get(key) != before else set()


def _service(service: ServiceObject, backends: Sequence[Backends], near: Near) -> KubeService:
    spec = service.spec
    addresses = spec.cluster_ips or (spec.cluster_ip,)
    ingress = service.status.load_balancer.ingress
    headless = spec.cluster_ip == "None"
    if not headless:  # the server gives slices of headless services this label too
        backends = [one for one in backends if not one.left_alone]
    return KubeService(
        namespace=service.metadata.namespace,
        name=service.metadata.name,
        addresses=tuple(one for one in addresses if not isinstance(one, str)),
        external_ips=spec.external_ips,
        load_balancer_ips=tuple(one.ip for one in ingress if one.ip and one.mode == "VIP"),
        source_ranges=spec.source_ranges,
        left_alone=any(label in service.metadata.labels for label in LEFT_ALONE),
        headless=headless,
        external_name=spec.external_name if spec.type == "ExternalName" else "",
        external_local=spec.external_policy == "Local",
        internal_local=spec.internal_policy == "Local",
        health_check_node_port=spec.health_check_node_port,
        affinity_seconds=(
            spec.affinity_config.client_ip.seconds if spec.affinity == "ClientIP" else 0
        ),
        publish_not_ready=spec.publish_not_ready,
        ports=tuple(_port(port, backends, near) for port in spec.ports),
        members=members(backends) if headless else frozenset(),
    )


def _port(port: Port, backends: Sequence[Backends], near: Near) -> KubePort:
    ready, draining = targets(port, backends)
    chosen = hinted(ready, near)
    return KubePort(
        name=port.name,
        protocol=port.protocol,
        port=port.port,
        node_port=port.node_port,
        targets=ready or draining,
        draining=draining,
        hinted=None if chosen == ready else chosen,
    )
