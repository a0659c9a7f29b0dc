"""Keeps which pods of this host are clients of services, and each client's provider. Pure.

In come first packets (through `ofnet.services.proxy`) and changed Worlds (`update`); out comes
`served`, one entry for each pair of client and service. `ofnet.services.least_connections` chooses
providers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Final

from core.multimap import discard
from ofnet.changes import Changes, ObjectKind
from ofnet.directory import Address, Directory
from ofnet.services.directory import ServiceDirectory
from ofnet.services.least_connections import LeastConnections
from ofnet.world import Bridge, FwdMode, LocalEndpoint, Network, Served, Service, ServicePort, World

MAX_CONNECTIONS: Final = 128
"""Connections of a client with flows of their own; the oldest is dropped for a new one.

A pod could otherwise make the switch hold a flow for each of its 65 535 source ports. The next
packet of a dropped connection comes to the controller and brings it back.
"""

Answer = tuple[int, IPv4Address, IPv4Address, int, int]
"""What identifies a reply: VRF, client, provider, protocol, the provider's port."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A World and the directory that is made of it."""

    world: World
    directory: Directory


class ServiceClients:
    """The clients on one bridge (`served`, by name) and the services (`catalogue`)."""

    # A client keeps its provider for all ports of a service, as long as both exist
    # (`ofnetSvcProxy.go: HandlePkt`). Its open connections depend on it: the provider has their
    # state, and another one would reset them. So `update` removes a client only if its service,
    # its provider's membership or the pod itself is gone, and never rebalances.
    #
    # A reply carries no sign of the service: the switch sees provider, client and ports, and must
    # translate the source back to the service's address. Normally the provider's port tells which
    # service port it answers (`_reply_owners`: one owner for each `Answer`). If two service ports
    # lead the same client to the same provider port, the first one owns these replies. For the
    # second, every connection comes to the controller and gets flows that match the client's port
    # too (`Served.connections`). So do connections to the provider's own address
    # (`Served.direct`), whose replies must not be translated. The original translates all of these
    # replies to the same service.

    def __init__(self, bridge: Bridge) -> None:
        self.served: dict[str, Served] = {}
        self.catalogue = ServiceDirectory(bridge)
        self._assignments = LeastConnections()
        self._dependents: dict[Address | str, set[str]] = {}
        self._reply_owners: dict[Answer, tuple[str, int]] = {}

    def update(self, now: Snapshot, changes: Changes, touched: Iterable[Address]) -> frozenset[str]:
        """Take over a changed World; return the names of the clients that changed.

        The directory has taken it over already, and `touched` has what changed there.
        """
        keys: Iterable[str] = changes.names(ObjectKind.SERVICE)
        if changes.everything:
            keys = {*now.world.services, *self.catalogue.services}
        affected = self._affected(touched, self.catalogue.update(now.world, keys))
        # Replies that one service gives up, another service of the same pod may take over. So all
        # entries of a pod are refreshed together, in three passes: remove, release, then claim, in
        # the order of the names. Only so does the outcome not depend on the order of changes.
        clients = {(self.served[name].vrf, self.served[name].client) for name in affected}
        gone = {name for name in affected if not self._is_valid(name, now)}
        for name in gone:
            self._remove(name)
        rest = sorted(self._affected(clients, ()) - gone)
        for name in rest:
            self._release_replies(name, now)
        return frozenset(gone.union(name for name in rest if self._refresh(name, now)))

    # -- clients -------------------------------------------------------------------------------

    def assign(self, service: Service, client: IPv4Address, network: Network, now: Snapshot) -> str:
        """Make a pod a client of a service, with a provider for it; return the client's name."""
        name = name_of(service.key, network.vrf, client)
        if name not in self.served:
            among = _within_reach(service, network, now)
            provider = self._assignments.assign(service.key, (network.vrf, client), among)
            self._add(name, _served(service, client, provider, network), network, now)
        return name

    def restore(
        self,
        service: Service,
        client: IPv4Address,
        provider: IPv4Address,
        network: Network,
        now: Snapshot,
    ) -> str:
        """Make a pod a client of a service with the provider it had before; return the name."""
        name = name_of(service.key, network.vrf, client)
        if name not in self.served:
            self._assignments.pin(service.key, (network.vrf, client), provider)
            self._add(name, _served(service, client, provider, network), network, now)
        return name

    def _add(self, name: str, served: Served, network: Network, now: Snapshot) -> None:
        self.served[name] = self._resolved(name, served, network, now)
        for dependency in _dependencies(served):
            self._dependents.setdefault(dependency, set()).add(name)

    def _affected(self, addresses: Iterable[Address], keys: Iterable[str]) -> set[str]:
        dependencies: list[Address | str] = [*addresses, *keys]
        return set[str]().union(*(self._dependents.get(one, ()) for one in dependencies))

    def _is_valid(self, name: str, now: Snapshot) -> bool:
        served = self.served[name]
        service = self.catalogue.services.get(served.service)
        return (
            service is not None
            and service.address == served.address
            and served.provider in service.providers
            and _network(served, now) is not None
        )

    def _remove(self, name: str) -> None:
        served = self.served.pop(name)
        self._assignments.release(served.service, (served.vrf, served.client))
        for port in served.ports:
            self._reply_owners.pop(answer_of(served, port), None)
        for dependency in _dependencies(served):
            discard(self._dependents, dependency, name)

    # -- replies and connections ---------------------------------------------------------------

    def reserve(self, answer: Answer, name: str, port: ServicePort) -> None:
        """Give replies to a client's port, unless another one has them already."""
        self._reply_owners.setdefault(answer, (name, port.port))

    def owner_of(self, answer: Answer) -> str | None:
        """Return the name of the client that has these replies, whatever the connection."""
        name, _ = self._reply_owners.get(answer, (None, 0))
        return name if name in self.served else None

    def add_connection(self, name: str, port: ServicePort, source: int) -> None:
        """Add a client's connection to a service, if its replies need flows of their own."""
        served = self.served[name]
        if port not in served.ports:
            others = (one for one in served.connections if one != (port, source))
            known = (*others, (port, source))[-MAX_CONNECTIONS:]
            self.served[name] = replace(served, connections=known)

    def add_direct_connection(self, name: str, answer: Answer, source: int) -> bool:
        """Add a client's connection to its provider's own address; return whether it is new."""
        served = self.served[name]
        port = next(port for port in served.ports if answer_of(served, port) == answer)
        if (port, source) in served.direct:
            return False
        known = (*served.direct, (port, source))[-MAX_CONNECTIONS:]
        self.served[name] = replace(served, direct=known)
        return True

    def _release_replies(self, name: str, now: Snapshot) -> None:
        """Give up the replies of ports that do not belong to the service any more."""
        served = self.served[name]
        ports = frozenset(self._ports(served, now))
        for port in served.ports:
            if port not in ports:
                self._reply_owners.pop(answer_of(served, port), None)

    def _refresh(self, name: str, now: Snapshot) -> bool:
        """Recompute a client; return whether it changed."""
        before = self.served[name]
        network = _network(before, now)
        if network is not None:
            self.served[name] = self._resolved(name, before, network, now)
        return self.served[name] != before

    def _ports(self, served: Served, now: Snapshot) -> tuple[ServicePort, ...]:
        service = self.catalogue.services[served.service]
        return self.catalogue.ports(service, served.vrf, now.world)

    def _resolved(self, name: str, served: Served, network: Network, now: Snapshot) -> Served:
        provider = now.directory.endpoint(served.vrf, served.provider)
        beside = provider is not None and provider.network == network.id
        ports = self._ports(served, now)
        whole = tuple(port for port in ports if self._claim_replies(name, served, port))
        return replace(
            served,
            vlan=network.vlan,
            mac=provider.mac if provider is not None and beside else "",
            ports=whole,
            connections=tuple(
                (port, source)
                for port, source in served.connections
                if port in ports and port not in whole
            ),
            direct=tuple((port, source) for port, source in served.direct if port in whole),
        )

    def _claim_replies(self, name: str, served: Served, port: ServicePort) -> bool:
        """Claim the replies of a port; return whether the provider's port alone identifies them."""
        own = (name, port.port)
        return self._reply_owners.setdefault(answer_of(served, port), own) == own


def _served(
    service: Service, client: IPv4Address, provider: IPv4Address, network: Network
) -> Served:
    return Served(
        service=service.key,
        address=service.address,
        vrf=network.vrf,
        client=client,
        provider=provider,
        vlan=network.vlan,
    )


def name_of(service: str, vrf: int, client: IPv4Address) -> str:
    """Return the name of a client of a service."""
    return f"{service} {vrf} {client}"


def answer_of(served: Served, port: ServicePort) -> Answer:
    """Return what identifies the replies to a client from a port of a service."""
    return served.vrf, served.client, served.provider, port.protocol, port.provider_port


def _within_reach(service: Service, network: Network, now: Snapshot) -> frozenset[IPv4Address]:
    """Return the providers that a client can reach.

    A bridge forwards within the client's own network alone, so providers there are preferred. To
    reach any other one, the physical network has to route.
    """
    if now.world.fwd_mode is FwdMode.ROUTING:
        return service.providers
    found = ((one, now.directory.endpoint(network.vrf, one)) for one in service.providers)
    beside = frozenset(one for one, end in found if end is not None and end.network == network.id)
    return beside or service.providers


def _network(served: Served, now: Snapshot) -> Network | None:
    """Return the network of a client; None if it is no pod of this host."""
    end = now.directory.endpoint(served.vrf, served.client)
    return now.world.networks.get(end.network) if isinstance(end, LocalEndpoint) else None


def _dependencies(served: Served) -> Iterator[Address | str]:
    """Yield the service and the addresses a client depends on."""
    yield served.service
    yield served.vrf, served.client
    if served.provider != served.client:
        yield served.vrf, served.provider
