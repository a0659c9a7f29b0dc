"""Which objects of a World a change affects, so that only these are recomputed. Pure.

In come the objects that the agent's World builder changed (`Changes`); `affected` adds the objects
that depend on them. `ofnet.desired` and `ofnet.directory` recompute exactly these.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Network
from typing import NamedTuple

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.world import FwdMode, World


class ObjectKind(IntEnum):
    """The kinds of objects that own flows; if two own the same flow, the smaller kind wins.

    So a local endpoint wins over the stale record of the same address on another host.
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
    SERVED = 11
    """A client of a service."""

    ROUTER = 12
    """The host's own port for BGP."""

    ROUTE = 13
    """A prefix learned by BGP, and the way to the peer itself."""


class ObjectId(NamedTuple):
    """One object of a World."""

    kind: ObjectKind
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The objects added, removed or altered between two Worlds.

    `everything` stands for all of them, and is the only way to announce another forwarding or ARP
    mode.
    """

    networks: frozenset[NetworkId] = frozenset()
    local: frozenset[EndpointKey] = frozenset()
    access: frozenset[EndpointKey] = frozenset()
    remote: frozenset[EndpointKey] = frozenset()
    vteps: frozenset[HostLabel] = frozenset()
    peer_macs: frozenset[HostLabel] = frozenset()
    rules: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    served: frozenset[str] = frozenset()
    routes: frozenset[IPv4Network] = frozenset()
    host_port: bool = False
    uplinks: bool = False
    router: bool = False
    everything: bool = False

    def __or__(self, other: "Changes") -> "Changes":
        """Return the changes of both."""
        return Changes(
            networks=self.networks | other.networks,
            local=self.local | other.local,
            access=self.access | other.access,
            remote=self.remote | other.remote,
            vteps=self.vteps | other.vteps,
            peer_macs=self.peer_macs | other.peer_macs,
            rules=self.rules | other.rules,
            services=self.services | other.services,
            served=self.served | other.served,
            routes=self.routes | other.routes,
            host_port=self.host_port or other.host_port,
            uplinks=self.uplinks or other.uplinks,
            router=self.router or other.router,
            everything=self.everything or other.everything,
        )

    def __bool__(self) -> bool:
        return self != Changes()


EVERYTHING = Changes(everything=True)


def objects(world: World) -> Iterator[ObjectId]:
    """Yield every object of a World that may own flows."""
    yield ObjectId(ObjectKind.PIPELINE)
    yield ObjectId(ObjectKind.UPLINKS)
    yield ObjectId(ObjectKind.HOST_PORT)
    yield from _ids(ObjectKind.VTEP, world.vteps)
    yield from _ids(ObjectKind.NETWORK, world.networks)
    yield from _ids(ObjectKind.LOCAL, world.local)
    yield from _ids(ObjectKind.REMOTE, world.remote)
    yield from _ids(ObjectKind.FLOOD, world.networks)
    yield from _ids(ObjectKind.RULE, world.rules)
    yield from _ids(ObjectKind.ACCESS, world.access)
    yield from _ids(ObjectKind.SERVICE, world.services)
    yield from _ids(ObjectKind.SERVED, world.served)
    yield ObjectId(ObjectKind.ROUTER)
    yield from _ids(ObjectKind.ROUTE, map(str, world.routes))


def affected(world: World, changes: Changes, known: Iterable[ObjectId]) -> set[ObjectId]:
    """Return the objects to recompute: the changed ones and those that depend on them.

    `world` is the World after the change, `known` are the objects computed before, which may be
    gone. An endpoint that changed its network is itself a change, so looking at the new World
    finds all dependents.
    """
    if changes.everything:
        return {*objects(world), *known}
    out = {
        *_ids(ObjectKind.NETWORK, changes.networks),
        *_ids(ObjectKind.VTEP, changes.vteps),
        *_ids(ObjectKind.LOCAL, changes.local),
        *_ids(ObjectKind.REMOTE, changes.remote),
        *_ids(ObjectKind.FLOOD, changes.networks),
        *_ids(ObjectKind.RULE, changes.rules),
        *_ids(ObjectKind.ACCESS, changes.access),
        *_ids(ObjectKind.SERVICE, changes.services),
        *_ids(ObjectKind.SERVED, changes.served),
        *_ids(ObjectKind.ROUTE, map(str, changes.routes)),
    }
    if changes.uplinks:
        out.add(ObjectId(ObjectKind.UPLINKS))
        out.update(_ids(ObjectKind.NETWORK, world.networks))
        out.update(_ids(ObjectKind.LOCAL, world.local))
        out.update(_ids(ObjectKind.REMOTE, world.remote))
        out.update(_ids(ObjectKind.ROUTE, map(str, world.routes)))
    if changes.router or changes.uplinks:
        out.add(ObjectId(ObjectKind.ROUTER))
    if changes.host_port:
        out.add(ObjectId(ObjectKind.HOST_PORT))
        out.update(_ids(ObjectKind.LOCAL, world.local))
        out.update(_ids(ObjectKind.ACCESS, world.access))
    if changes.vteps:
        out.update(_ids(ObjectKind.NETWORK, world.networks))
    if changes.vteps or (changes.local and world.fwd_mode is FwdMode.BRIDGE):
        # which network a pod that is gone was on, the new World does not say
        out.update(_ids(ObjectKind.FLOOD, world.networks))
    if changes.networks or changes.vteps or changes.peer_macs:
        out.update(_dependents(world, changes))
    return out


def _dependents(world: World, changes: Changes) -> Iterator[ObjectId]:
    networks, hosts = changes.networks, changes.vteps | changes.peer_macs
    for key, local in world.local.items():
        if local.network in networks:
            yield ObjectId(ObjectKind.LOCAL, key)
    for key, remote in world.remote.items():
        if remote.network in networks or remote.host in hosts:
            yield ObjectId(ObjectKind.REMOTE, key)


def _ids(kind: ObjectKind, names: Iterable[str]) -> Iterator[ObjectId]:
    return (ObjectId(kind, name) for name in names)
