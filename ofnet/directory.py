"""Who has which address and which port: what answering a packet needs of a World.

Kept up to date object by object like the flows, so that an ARP request costs a look-up however
many endpoints there are. `ofnet.packetin` reads it.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from itertools import chain
from typing import NamedTuple

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.changes import Changes, ObjectId, ObjectKind, affected
from ofnet.ownership import Ownership
from ofnet.world import FwdMode, LocalEndpoint, Network, RemoteEndpoint, World

Endpoint = LocalEndpoint | RemoteEndpoint
Address = tuple[int, IPv4Address | IPv6Address]
"""An address within a VRF."""


class Behind(NamedTuple):
    """What is behind a port of the bridge: an endpoint with its network, or something else."""

    kind: ObjectKind
    endpoint: LocalEndpoint | None = None
    network: Network | None = None


class Directory:
    """Addresses of endpoints and routers, and what is behind each port of the bridge.

    The gateway of a routed network is this host's router; that of a bridged one is somebody outside
    whom nobody here knows (`ofnetAgent.go: AddNetwork`).
    """

    def __init__(self) -> None:
        self._addresses: Ownership[Address, Endpoint | None] = Ownership()
        self._ports: Ownership[int, Behind] = Ownership()

    def update(self, world: World, changes: Changes) -> set[Address]:
        """Take over a changed World; return the addresses of which something changed."""
        known = chain(self._addresses.owners(), self._ports.owners())
        touched: set[Address] = set()
        for oid in affected(world, changes, known):
            holder = _endpoint(oid, world)
            touched.update(self._addresses.claimed(oid))
            self._addresses.claim(oid, dict.fromkeys(_addresses(oid, holder, world), holder))
            touched.update(self._addresses.claimed(oid))
            self._ports.claim(oid, dict(_ports(oid, world)))
        return touched

    def knows(self, vrf: int, address: IPv4Address | IPv6Address) -> bool:
        """Return whether an endpoint, here or elsewhere, or a router of ours has the address."""
        return (vrf, address) in self._addresses.values

    def endpoint(self, vrf: int, address: IPv4Address | IPv6Address) -> Endpoint | None:
        """Return the endpoint, here or elsewhere, that has the address."""
        return self._addresses.values.get((vrf, address))

    def behind(self, ofport: int) -> Behind | None:
        """Return what is behind a port."""
        return self._ports.values.get(ofport)


def _addresses(oid: ObjectId, endpoint: Endpoint | None, world: World) -> Iterator[Address]:
    if oid.kind is ObjectKind.NETWORK and world.fwd_mode is FwdMode.ROUTING:
        network = world.networks.get(NetworkId(oid.name))
        if network is not None and network.gateway is not None:
            yield network.vrf, network.gateway
        return
    network = world.networks.get(endpoint.network) if endpoint is not None else None
    if endpoint is None or network is None:
        return
    yield network.vrf, endpoint.ip
    if endpoint.ip6 is not None:
        yield network.vrf, endpoint.ip6


def _endpoint(oid: ObjectId, world: World) -> Endpoint | None:
    match oid.kind:
        case ObjectKind.LOCAL:
            return world.local.get(EndpointKey(oid.name))
        case ObjectKind.REMOTE:
            return world.remote.get(EndpointKey(oid.name))
        case _:
            return None


def _ports(oid: ObjectId, world: World) -> Iterator[tuple[int, Behind]]:
    match oid.kind:
        case ObjectKind.LOCAL:
            endpoint = world.local.get(EndpointKey(oid.name))
            network = world.networks.get(endpoint.network) if endpoint is not None else None
            if endpoint is not None and network is not None:
                yield endpoint.ofport, Behind(ObjectKind.LOCAL, endpoint, network)
        case ObjectKind.VTEP:
            vtep = world.vteps.get(HostLabel(oid.name))
            if vtep is not None:
                yield vtep.ofport, Behind(ObjectKind.VTEP)
        case ObjectKind.HOST_PORT:
            if world.host_port is not None:
                yield world.host_port.ofport, Behind(ObjectKind.HOST_PORT)
        case ObjectKind.ROUTER:
            if world.router is not None:
                yield world.router.ofport, Behind(ObjectKind.ROUTER)
        case ObjectKind.UPLINKS:
            for uplink in world.uplinks:
                yield uplink.ofport, Behind(ObjectKind.UPLINKS)
        case _:
            return
