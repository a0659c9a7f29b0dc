"""Indexes of a World by address and by port, for handling packets. Pure.

In come Worlds with their changes, out of which the indexes are kept up to date object by object,
as the flows are: a packet costs one look-up however many endpoints there are.
`ofnet.packets.packetin` and `ofnet.services` read them.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from itertools import chain
from typing import Final, NamedTuple

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.changes import Changes, ObjectId, ObjectKind, affected
from ofnet.ownership import Ownership
from ofnet.world import FwdMode, LocalEndpoint, Network, RemoteEndpoint, World

Endpoint = LocalEndpoint | RemoteEndpoint
Address = tuple[int, IPv4Address | IPv6Address]
"""An address within a VRF."""


_PRIVATE: Final = 0
"""Stands for the host's private network among VRFs, which begin with 1."""


class PortAttachment(NamedTuple):
    """What is attached to a port of the bridge: an endpoint with its network, or something else."""

    kind: ObjectKind
    endpoint: LocalEndpoint | None = None
    network: Network | None = None


class Directory:
    """Addresses of endpoints and routers, and what is attached to each port of the bridge.

    The gateway of a routed network is this host's router. That of a bridged network is on the
    physical network, and unknown here (`ofnetAgent.go: AddNetwork`).
    """

    # Both indexes are `Ownership` maps, because two objects can claim one key for a while: a pod
    # that moved is local here and still recorded as remote. The winner is the same
    # as in `ofnet.desired`, so an answer given here agrees with the flows.

    def __init__(self) -> None:
        self._addresses: Ownership[Address, Endpoint | None] = Ownership()
        self._ports: Ownership[int, PortAttachment] = Ownership()

    def update(self, world: World, changes: Changes) -> set[Address]:
        """Take over a changed World; return the addresses whose owner may have changed."""
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
        """Return whether an endpoint, local or remote, or this host's router has the address."""
        return (vrf, address) in self._addresses.values

    def endpoint(self, vrf: int, address: IPv4Address | IPv6Address) -> Endpoint | None:
        """Return the endpoint, local or remote, that has the address."""
        return self._addresses.values.get((vrf, address))

    def behind(self, private: IPv4Address | IPv6Address) -> LocalEndpoint | None:
        """Return the endpoint of this host that has an address on the host's private network."""
        found = self._addresses.values.get((_PRIVATE, private))
        return found if isinstance(found, LocalEndpoint) else None

    def attachment(self, ofport: int) -> PortAttachment | None:
        """Return what is attached to a port."""
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
    if endpoint.ip is not None:
        yield network.vrf, endpoint.ip
    if endpoint.ip6 is not None:
        yield network.vrf, endpoint.ip6
    if isinstance(endpoint, LocalEndpoint) and endpoint.nat_ip is not None:
        yield _PRIVATE, endpoint.nat_ip
        if endpoint.nat_ip6 is not None:
            yield _PRIVATE, endpoint.nat_ip6


def _endpoint(oid: ObjectId, world: World) -> Endpoint | None:
    match oid.kind:
        case ObjectKind.LOCAL:
            return world.local.get(EndpointKey(oid.name))
        case ObjectKind.REMOTE:
            return world.remote.get(EndpointKey(oid.name))
        case _:
            return None


def _ports(oid: ObjectId, world: World) -> Iterator[tuple[int, PortAttachment]]:
    match oid.kind:
        case ObjectKind.LOCAL:
            endpoint = world.local.get(EndpointKey(oid.name))
            network = world.networks.get(endpoint.network) if endpoint is not None else None
            if endpoint is not None and network is not None:
                yield endpoint.ofport, PortAttachment(ObjectKind.LOCAL, endpoint, network)
        case ObjectKind.VTEP:
            vtep = world.vteps.get(HostLabel(oid.name))
            if vtep is not None:
                yield vtep.ofport, PortAttachment(ObjectKind.VTEP)
        case ObjectKind.HOST_PORT:
            if world.host_port is not None:
                yield world.host_port.ofport, PortAttachment(ObjectKind.HOST_PORT)
        case ObjectKind.ROUTER:
            if world.router is not None:
                yield world.router.ofport, PortAttachment(ObjectKind.ROUTER)
        case ObjectKind.UPLINKS:
            for uplink in world.uplinks:
                yield uplink.ofport, PortAttachment(ObjectKind.UPLINKS)
        case _:
            return
