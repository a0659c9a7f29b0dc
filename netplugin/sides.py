"""What each bridge of this host has to realise, and what of it changed (no decisions, no I/O).

`netplugin.world` fills a side and marks what it touched; a round of `netplugin.reconcile` takes the
marks away with the World they belong to.
"""

from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network

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


class Side:
    """What one bridge has to realise, and what of it changed since the last `take`."""

    def __init__(self) -> None:
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
        self.dirty = Dirty(everything=True)

    def world(self, cluster: World) -> World:
        """Return the World of this bridge; `cluster` has what holds for both."""
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
