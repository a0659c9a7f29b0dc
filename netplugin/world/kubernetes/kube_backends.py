"""The backends of one service of Kubernetes, from its EndpointSlices or its Endpoints. Pure.

`netplugin.world.kubernetes.kube_services` asks for those of a service and of each of its ports.
Both sources become `Backends`, groups of endpoints that serve the same ports. One address may be in
several slices while the server moves it from one to another; it counts once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from core.errors import Invalid
from netplugin.world.kubernetes.kube_objects import (
    LEFT_ALONE,
    EndpointsObject,
    Ip,
    Port,
    SliceObject,
    read_address,
)

_FAMILIES: Final[Mapping[str, int]] = {"IPv4": 4, "IPv6": 6}
"""IP versions by `addressType`; slices of type FQDN have no addresses."""


class Near(NamedTuple):
    """Where clients are: the name of their node, and its zone, "" where it has none."""

    node: str
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeTarget:
    """A backend of one port of a service: an address and a port, and where it runs."""

    address: Ip
    port: int
    node: str = ""
    """The name of its node, "" if the server does not name one."""

    pod: str = ""
    """`<namespace>/<name>` of the pod, "" for what is no pod (an outside address)."""

    hostname: str = ""
    """The name it has below that of a headless service, "" for none."""

    for_nodes: frozenset[str] = frozenset()
    for_zones: frozenset[str] = frozenset()
    """Hints: whose clients shall have it; empty where the server gives none."""


@dataclass(frozen=True, slots=True)
class Backends:
    """Endpoints that serve the same ports, each with port 0; `ports` by name and protocol."""

    ready: tuple[KubeTarget, ...]
    draining: tuple[KubeTarget, ...]
    ports: Mapping[tuple[str, str], int]
    left_alone: bool = False
    """A label leaves them to others: they have their names, and no address leads to them."""


def of_endpoints(received: EndpointsObject) -> tuple[Backends, ...]:
    """Return the backends of an Endpoints object, which has no draining ones."""
    return tuple(
        Backends(
            tuple(
                KubeTarget(
                    address=one.ip,
                    port=0,
                    node=one.node,
                    pod=one.target.pod,
                    hostname=one.hostname,
                )
                for one in subset.addresses
            ),
            (),
            {(port.name, port.protocol): port.port for port in subset.ports},
        )
        for subset in received.subsets
    )


def of_slice(received: SliceObject) -> Backends:
    """Return the backends of a slice. Raises Invalid for an address that cannot be read."""
    version = _FAMILIES.get(received.family)
    ready, draining = [], []
    for one in received.endpoints if version else ():
        # The API has lists of addresses that stand for one another; kube-proxy takes the first.
        for text in one.addresses[:1]:
            target = KubeTarget(
                address=_address(received, text, version),
                port=0,
                node=one.node,
                pod=one.target.pod,
                hostname=one.hostname,
                for_nodes=frozenset(hint.name for hint in one.hints.nodes),
                for_zones=frozenset(hint.name for hint in one.hints.zones),
            )
            if one.ready:
                ready.append(target)
            elif one.draining:
                draining.append(target)
    ports = {(p.name, p.protocol): p.port for p in received.ports if p.port is not None}
    left_alone = any(label in received.metadata.labels for label in LEFT_ALONE)
    return Backends(tuple(ready), tuple(draining), ports, left_alone)


def targets(port: Port, backends: Iterable[Backends]) -> tuple[frozenset[KubeTarget], ...]:
    """Return the ready and the draining targets of a service's port."""
    served = [
        (number, one)
        for one in backends
        if (number := one.ports.get((port.name, port.protocol))) is not None
    ]
    ready = _once(_at(number, one.ready) for number, one in served)
    draining = _once(_at(number, one.draining) for number, one in served)
    return frozenset(ready.values()), frozenset(
        one for place, one in draining.items() if place not in ready
    )


def members(backends: Iterable[Backends]) -> frozenset[KubeTarget]:
    """Return all ready endpoints, whatever ports they serve."""
    return frozenset(_once(one.ready for one in backends).values())


def _at(port: int, backends: Iterable[KubeTarget]) -> Iterator[KubeTarget]:
    for one in backends:
        yield replace(one, port=port)


def _once(groups: Iterable[Iterable[KubeTarget]]) -> dict[tuple[Ip, int], KubeTarget]:
    """Return one target for each address and port: of several the one with the larger names."""
    # Which one is kept must not depend on the order in which slices arrived.
    found: dict[tuple[Ip, int], KubeTarget] = {}
    for group in groups:
        for one in group:
            place = one.address, one.port
            other = found.get(place, one)
            found[place] = max(one, other, key=_names)
    return found


def _names(one: KubeTarget) -> tuple[object, ...]:
    return one.pod, one.node, one.hostname, sorted(one.for_nodes), sorted(one.for_zones)


def hinted(ready: Iterable[KubeTarget], near: Near) -> frozenset[KubeTarget]:
    """Return the targets that clients at a place shall have by the server's hints.

    As kube-proxy decides it, for each family: hints count where all targets have one and one of
    them is for this node, or else for this zone; otherwise clients have all.
    """
    families: dict[int, list[KubeTarget]] = {}
    for one in ready:
        families.setdefault(one.address.version, []).append(one)
    return frozenset(one for of in families.values() for one in _hinted(of, near))


def _hinted(targets: list[KubeTarget], near: Near) -> list[KubeTarget]:
    by_node = [one for one in targets if near.node in one.for_nodes]
    if by_node and all(one.for_nodes for one in targets):
        return by_node
    by_zone = [one for one in targets if near.zone and near.zone in one.for_zones]
    if by_zone and all(one.for_zones for one in targets):
        return by_zone
    return targets


def _address(received: SliceObject, text: str, version: int | None) -> Ip:
    try:
        address = read_address(text)
    except ValueError as exc:
        raise Invalid(f"endpointslices {received.metadata.key} of Kubernetes: {exc}") from exc
    if address.version != version:
        raise Invalid(
            f"endpointslices {received.metadata.key} of Kubernetes: {text} is not {received.family}"
        )
    return address
