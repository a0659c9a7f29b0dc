"""What each bridge of this host has to realise, and what of it changed. Pure: no I/O, no clock.

A side is where facts end up: what follows from records, by the modules `netplugin.world.builder`
names, and what this host reports itself (tunnel ports, uplinks, the port for BGP and its routes).
What is set to what it was is no change. All else is marked, until a round of
`netplugin.bridges.reconciler` takes the marks away with the World they belong to.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from typing import TypeVar

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.changes import Changes
from ofnet.world import (
    AccessPort,
    HostPort,
    LocalEndpoint,
    Network,
    RemoteEndpoint,
    Router,
    Service,
    Uplink,
    Vtep,
    World,
)

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(slots=True)
class Dirty:
    """The names of what changed."""

    networks: set[NetworkId] = field(default_factory=set)
    local: set[EndpointKey] = field(default_factory=set)
    access: set[EndpointKey] = field(default_factory=set)
    remote: set[EndpointKey] = field(default_factory=set)
    vteps: set[HostLabel] = field(default_factory=set)
    peer_macs: set[HostLabel] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)
    routes: set[IPv4Network] = field(default_factory=set)
    host_port: bool = False
    uplinks: bool = False
    router: bool = False
    everything: bool = False

    def changes(self) -> Changes:
        """Return them as `ofnet` takes them."""
        return Changes(
            networks=frozenset(self.networks),
            local=frozenset(self.local),
            access=frozenset(self.access),
            remote=frozenset(self.remote),
            vteps=frozenset(self.vteps),
            peer_macs=frozenset(self.peer_macs),
            rules=frozenset(self.rules),
            services=frozenset(self.services),
            routes=frozenset(self.routes),
            host_port=self.host_port,
            uplinks=self.uplinks,
            router=self.router,
            everything=self.everything,
        )


class BridgeState:
    """What one bridge has to realise, and what of it changed since the last `take`.

    Its parts are there to be read; who changes one does it by the methods, which see to the marks.
    Each change calls `changed`.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.networks: dict[NetworkId, Network] = {}
        self.local: dict[EndpointKey, LocalEndpoint] = {}
        self.remote: dict[EndpointKey, RemoteEndpoint] = {}
        self.vteps: dict[HostLabel, Vtep] = {}
        self.host_port: HostPort | None = None
        self.access: dict[EndpointKey, AccessPort] = {}
        self.uplinks: tuple[Uplink, ...] = ()
        self.peer_macs: dict[HostLabel, str] = {}
        self.services: dict[str, Service] = {}
        self.router: Router | None = None
        self.routes: dict[IPv4Network, str] = {}
        self.learning = False
        self._dirty = Dirty(everything=True)

    # -- from records --------------------------------------------------------------------------

    def set_network(self, nid: NetworkId, network: Network | None) -> None:
        """Set or clear a network."""
        self._set(self.networks, self._dirty.networks, nid, network)

    def set_endpoint(
        self, key: EndpointKey, local: LocalEndpoint | None, remote: RemoteEndpoint | None
    ) -> None:
        """Set what an endpoint is here: one of this host, one of another, or nothing."""
        self._set(self.local, self._dirty.local, key, local)
        self._set(self.remote, self._dirty.remote, key, remote)

    def set_service(self, key: str, service: Service | None) -> None:
        """Set or clear a service."""
        self._set(self.services, self._dirty.services, key, service)

    def set_peer_mac(self, host: HostLabel, mac: str | None) -> None:
        """Set or clear what another host's uplinks send by."""
        self._set(self.peer_macs, self._dirty.peer_macs, host, mac)

    def announce(self, group_id: int) -> None:
        """Have the endpoints of a group here looked at again, though they are what they were."""
        members = (key for key, one in self.local.items() if one.group_id == group_id)
        self._mark(self._dirty.local, members)

    def alter_rules(self, rules: Iterable[str]) -> None:
        """Say which rules are new, different or gone."""
        self._mark(self._dirty.rules, rules)

    def alter_everything(self) -> None:
        """Say that what holds for the whole cluster is different."""
        self._dirty.everything = True
        self._changed()

    # -- from this host ------------------------------------------------------------------------

    def set_access(self, key: EndpointKey, port: AccessPort | None) -> None:
        """Set or clear the interface to this host that the pod of an endpoint has."""
        self._set(self.access, self._dirty.access, key, port)

    def set_vteps(self, vteps: Mapping[HostLabel, Vtep]) -> None:
        """Replace the tunnel ports by what OVSDB reports."""
        altered = _differing(self.vteps, vteps)
        self.vteps = dict(vteps)
        self._mark(self._dirty.vteps, altered)

    def set_host_port(self, port: HostPort | None) -> None:
        """Set or clear the host's port. `netplugin.world.endpoints` calls it first."""
        if self.host_port != port:
            self.host_port = port
            self._dirty.host_port = True
            self._changed()

    def set_uplinks(self, uplinks: Sequence[Uplink]) -> None:
        """Set the ports that tie the bridge to the physical network."""
        if self.uplinks != tuple(uplinks):
            self.uplinks = tuple(uplinks)
            self._dirty.uplinks = True
            self._changed()

    def set_router(self, router: Router | None) -> None:
        """Set or clear the host's port for BGP."""
        if self.router != router:
            self.router = router
            self._dirty.router = True
            self._changed()

    def set_routes(self, routes: Mapping[IPv4Network, str]) -> None:
        """Replace the learned prefixes, each with the MAC of its next hop."""
        altered = _differing(self.routes, routes)
        self.routes = dict(routes)
        self._mark(self._dirty.routes, altered)

    def set_learning(self, *, learning: bool) -> None:
        """Say whether prefixes may be missing that are still to be told again."""
        if self.learning != learning:
            self.learning = learning
            self._dirty.router = True
            self._changed()

    def _set(self, there: dict[_K, _V], marks: set[_K], key: _K, value: _V | None) -> None:
        if there.get(key) != value:
            if value is None:
                del there[key]
            else:
                there[key] = value
            self._mark(marks, [key])

    def _mark(self, marks: set[_K], names: Iterable[_K]) -> None:
        before = len(marks)
        marks.update(names)
        if len(marks) > before:
            self._changed()

    # -- what comes out ------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """True if anything changed since the last `take`."""
        return self._dirty != Dirty()

    def take(self, cluster: World) -> tuple[World, Changes]:
        """Return the bridge's World, and what changed in it since the last call.

        `cluster` has what holds for both bridges.
        """
        dirty, self._dirty = self._dirty, Dirty()
        return self._world(cluster), dirty.changes()

    def _world(self, cluster: World) -> World:
        return replace(
            cluster,
            networks=dict(self.networks),
            local=dict(self.local),
            remote=dict(self.remote),
            vteps=dict(self.vteps),
            host_port=self.host_port,
            access=dict(self.access),
            uplinks=self.uplinks,
            peer_macs=dict(self.peer_macs),
            services=dict(self.services),
            router=self.router,
            routes=dict(self.routes),
            learning=self.learning,
        )


def _differing(there: Mapping[_K, _V], wanted: Mapping[_K, _V]) -> set[_K]:
    return {key for key in there.keys() | wanted.keys() if there.get(key) != wanted.get(key)}
