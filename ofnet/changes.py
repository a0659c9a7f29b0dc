"""Which objects of a World a change affects, so that only these are recomputed. Pure.

In come the objects that the agent's World builder changed (`Changes`); `affected` adds the objects
that depend on them. `ofnet.desired` and `ofnet.packets.directory` recompute exactly these. `KINDS`
declares each kind of object: where a World holds it, and what depends on it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import chain
from typing import Final, NamedTuple

from ofnet.world import FwdMode, World


class ObjectKind(IntEnum):
    """The kinds of objects that own flows; where two claim one flow, the smaller kind wins.

    A local endpoint thus beats the stale record of the same address on another host.
    """

    PIPELINE = 0
    UPLINKS = 1
    HOST_PORT = 2
    VTEP = 3
    NETWORK = 4
    LOCAL = 5
    REMOTE = 6
    FLOOD = 7
    """The flooding of a network: named like it, made of its ports here and its peers."""

    RULE = 8
    ACCESS = 9
    """A pod's own interface to its host."""

    SERVICE = 10
    AFFINITY = 11
    """A client's choice of a provider: flows that the switch learned itself, never computed."""

    ROUTER = 12
    """The host's own port for BGP."""

    ROUTE = 13
    """A prefix learned by BGP, and the way to the peer itself."""

    PEER = 14
    """The MAC address another host's uplinks send by; it owns no flows."""

    MANAGEMENT = 15
    """An address that pods may reach, but not at management ports."""

    MANAGEMENT_PORT = 16
    POLICY_CLASS = 17
    """A group that shares the flows of its policies' rules with others."""

    BARRED = 18
    """An endpoint of this host that gets no traffic: its address is one of the underlay."""

    POLICY_SUBJECT = 30
    """An address of a pod of this host that policies of Kubernetes select."""

    POLICY_ENTRY = 31
    """A match of a stage of Kubernetes' policies."""

    NAME_PORT = 24
    """The port of the agent's name service."""


class ObjectId(NamedTuple):
    """One object of a World; kinds of which there is one object have no name."""

    kind: ObjectKind
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The objects added, removed or altered between two Worlds.

    `everything` stands for all of them, and is the only way to announce another forwarding or ARP
    mode.
    """

    objects: frozenset[ObjectId] = frozenset()
    everything: bool = False

    @classmethod
    def of(cls, kind: ObjectKind, names: Iterable[str] = ("",)) -> "Changes":
        """Return the change of the named objects of a kind, or of the only one of its kind."""
        return cls(objects=frozenset(_ids(kind, names)))

    def names(self, kind: ObjectKind) -> frozenset[str]:
        """Return the names of the changed objects of a kind."""
        return frozenset(oid.name for oid in self.objects if oid.kind is kind)

    def __or__(self, other: "Changes") -> "Changes":
        """Return the changes of both."""
        return Changes(
            objects=self.objects | other.objects,
            everything=self.everything or other.everything,
        )

    def __bool__(self) -> bool:
        return self.everything or bool(self.objects)


EVERYTHING = Changes(everything=True)

Dependents = Callable[[World, Set[str]], Iterator[ObjectId]]
"""Yields what must be recomputed with the named objects of a kind, given the new World."""


def _none(_world: World, _names: Set[str]) -> Iterator[ObjectId]:
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSpec:
    """How a World holds the objects of one kind, and what depends on them.

    `field` is the World's mapping that has the objects by their names; None for a kind of which
    there is one object. `read` returns an object where the mapping's values do not suffice. A kind
    that owns no flows is never computed itself.
    """

    field: str | None = None
    read: Callable[[World, str], object] | None = None
    dependents: Dependents = _none
    owns_flows: bool = True


def _all_of(*kinds: ObjectKind) -> Dependents:
    return lambda world, _names: chain.from_iterable(_present(kind, world) for kind in kinds)


def _of_uplinks(world: World, _names: Set[str]) -> Iterator[ObjectId]:
    yield ObjectId(ObjectKind.ROUTER)
    for kind in (ObjectKind.NETWORK, ObjectKind.LOCAL, ObjectKind.REMOTE, ObjectKind.ROUTE):
        yield from _present(kind, world)


def _of_vteps(world: World, hosts: Set[str]) -> Iterator[ObjectId]:
    yield from _present(ObjectKind.NETWORK, world)
    yield from _present(ObjectKind.FLOOD, world)
    yield from _behind(world, hosts)


def _behind(world: World, hosts: Set[str]) -> Iterator[ObjectId]:
    keys = (key for key, remote in world.remote.items() if remote.host in hosts)
    return _ids(ObjectKind.REMOTE, keys)


def _of_networks(world: World, networks: Set[str]) -> Iterator[ObjectId]:
    yield from _ids(ObjectKind.FLOOD, networks)
    local = (key for key, one in world.local.items() if one.network in networks)
    yield from _ids(ObjectKind.LOCAL, local)
    remote = (key for key, one in world.remote.items() if one.network in networks)
    yield from _ids(ObjectKind.REMOTE, remote)
    # A service has flows in the VRF of each network, and prefers providers on the client's own.
    yield from _present(ObjectKind.SERVICE, world)


def _of_local(world: World, _names: Set[str]) -> Iterator[ObjectId]:
    # The new World does not say which network a removed endpoint was on, so all are recomputed.
    if world.fwd_mode is FwdMode.BRIDGE:
        yield from _present(ObjectKind.FLOOD, world)


class BgpRoute(NamedTuple):
    """A prefix learned by BGP, and the MAC address of its next hop."""

    prefix: IPv4Network | IPv6Network
    mac: str


def _route(world: World, name: str) -> BgpRoute | None:
    prefix = ip_network(name)
    mac = world.routes.get(prefix)
    return None if mac is None else BgpRoute(prefix, mac)


KINDS: Final[Mapping[ObjectKind, KindSpec]] = {
    ObjectKind.PIPELINE: KindSpec(),
    ObjectKind.UPLINKS: KindSpec(dependents=_of_uplinks),
    ObjectKind.HOST_PORT: KindSpec(
        dependents=_all_of(
            ObjectKind.VTEP,
            ObjectKind.NETWORK,
            ObjectKind.LOCAL,
            ObjectKind.REMOTE,
            ObjectKind.ACCESS,
            ObjectKind.MANAGEMENT,
        )
    ),
    ObjectKind.VTEP: KindSpec(field="vteps", dependents=_of_vteps),
    ObjectKind.NETWORK: KindSpec(field="networks", dependents=_of_networks),
    ObjectKind.LOCAL: KindSpec(field="local", dependents=_of_local),
    ObjectKind.REMOTE: KindSpec(field="remote"),
    ObjectKind.BARRED: KindSpec(field="barred"),
    ObjectKind.FLOOD: KindSpec(field="networks"),
    ObjectKind.RULE: KindSpec(field="rules"),
    ObjectKind.POLICY_CLASS: KindSpec(field="policy_classes"),
    ObjectKind.ACCESS: KindSpec(field="access"),
    ObjectKind.SERVICE: KindSpec(field="services"),
    ObjectKind.AFFINITY: KindSpec(owns_flows=False),
    ObjectKind.ROUTER: KindSpec(read=lambda world, _: world.router),
    ObjectKind.ROUTE: KindSpec(field="routes", read=_route),
    ObjectKind.MANAGEMENT: KindSpec(field="management"),
    ObjectKind.MANAGEMENT_PORT: KindSpec(field="management_ports"),
    ObjectKind.POLICY_SUBJECT: KindSpec(field="policy_subjects"),
    ObjectKind.POLICY_ENTRY: KindSpec(field="policy_entries"),
    ObjectKind.NAME_PORT: KindSpec(dependents=_all_of(ObjectKind.PIPELINE, ObjectKind.LOCAL)),
    ObjectKind.PEER: KindSpec(field="peer_macs", dependents=_behind, owns_flows=False),
}
"""The one place that declares a kind; `ofnet.pipelines` has the flows of each."""


def held(oid: ObjectId, world: World) -> object | None:
    """Return an object of a World, None if it is not there.

    A kind that has no objects of its own stands for the World itself.
    """
    spec = KINDS[oid.kind]
    if spec.read is not None:
        return spec.read(world, oid.name)
    return world if spec.field is None else getattr(world, spec.field).get(oid.name)


def objects(world: World) -> Iterator[ObjectId]:
    """Yield every object of a World that may own flows."""
    for kind, spec in KINDS.items():
        if spec.owns_flows:
            yield from _present(kind, world)


def affected(world: World, changes: Changes, known: Iterable[ObjectId]) -> set[ObjectId]:
    """Return the objects to recompute: the changed ones and those that depend on them.

    `world` is the World after the change, `known` are the objects computed before, which may be
    gone. An endpoint that changed its network is itself a change, so looking at the new World
    finds all dependents.
    """
    if changes.everything:
        return {*objects(world), *known}
    names: dict[ObjectKind, set[str]] = {}
    for oid in changes.objects:
        names.setdefault(oid.kind, set()).add(oid.name)
    out = {oid for oid in changes.objects if KINDS[oid.kind].owns_flows}
    for kind, changed in names.items():
        out.update(KINDS[kind].dependents(world, changed))
    return out


def _present(kind: ObjectKind, world: World) -> Iterator[ObjectId]:
    """Yield the objects of a kind that a World has."""
    field = KINDS[kind].field
    return _ids(kind, ("",) if field is None else map(str, getattr(world, field)))


def _ids(kind: ObjectKind, names: Iterable[str]) -> Iterator[ObjectId]:
    return (ObjectId(kind, name) for name in names)
