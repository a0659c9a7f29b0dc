"""Which pods of this host are clients of services, and who serves them. Pure.

A client keeps its provider for all ports of a service, for as long as both are there
(`ofnetSvcProxy.go: HandlePkt`); `ofnet.services.least_connections` chooses. `ofnet.services.proxy`
brings the clients here; changed Worlds come to `update`.

Answers carry no sign of the service. Where two ports of services would have one provider answer one
client from one port, the first is known by that port, and for the other one every connection is
brought up and known by the client's port. The original gives such answers the wrong name.
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
"""Connections of a client that are known one by one; one that falls out comes up again."""

Answer = tuple[int, IPv4Address, IPv4Address, int, int]
"""What an answer is known by: VRF, client, provider, protocol, the provider's port."""


@dataclass(frozen=True, slots=True)
class Now:
    """The World, and its addresses by VRF."""

    world: World
    directory: Directory


class ServiceClients:
    """The clients on one bridge, in `served` by names of their own, and the services they know."""

    def __init__(self, bridge: Bridge) -> None:
        self.served: dict[str, Served] = {}
        self.known = ServiceDirectory(bridge)
        self._balance = LeastConnections()
        self._about: dict[Address | str, set[str]] = {}
        self._owners: dict[Answer, tuple[str, int]] = {}

    def update(self, now: Now, changes: Changes, touched: Iterable[Address]) -> frozenset[str]:
        """Take over a changed World; return the names of the clients for whom something changed.

        The directory has taken it over already, and says which addresses it `touched`.
        """
        keys: Iterable[str] = changes.names(ObjectKind.SERVICE)
        if changes.everything:
            keys = {*now.world.services, *self.known.services}
        concerned = self._concerned(touched, self.known.update(now.world, keys))
        # what one client's answers are known by no longer, another service's may be
        clients = {(self.served[name].vrf, self.served[name].client) for name in concerned}
        gone = {name for name in concerned if not self._stays(name, now)}
        for name in gone:
            self._forget(name)
        rest = sorted(self._concerned(clients, ()) - gone)
        for name in rest:
            self._let_go(name, now)
        return frozenset(gone.union(name for name in rest if self._renew(name, now)))

    # -- who is a client -----------------------------------------------------------------------

    def assign(self, service: Service, client: IPv4Address, network: Network, now: Now) -> str:
        """Have a pod of a network be a client of a service; return its name."""
        name = name_of(service.key, network.vrf, client)
        if name not in self.served:
            among = _within_reach(service, network, now)
            provider = self._balance.assign(service.key, (network.vrf, client), among)
            self._take_on(name, _served(service, client, provider, network), network, now)
        return name

    def hold(
        self,
        service: Service,
        client: IPv4Address,
        provider: IPv4Address,
        network: Network,
        now: Now,
    ) -> str:
        """Have a client stay with the provider that it has had; return its name."""
        name = name_of(service.key, network.vrf, client)
        if name not in self.served:
            self._balance.hold(service.key, (network.vrf, client), provider)
            self._take_on(name, _served(service, client, provider, network), network, now)
        return name

    def _take_on(self, name: str, served: Served, network: Network, now: Now) -> None:
        self.served[name] = self._resolved(name, served, network, now)
        for about in _subjects(served):
            self._about.setdefault(about, set()).add(name)

    def _concerned(self, addresses: Iterable[Address], keys: Iterable[str]) -> set[str]:
        subjects: list[Address | str] = [*addresses, *keys]
        return set[str]().union(*(self._about.get(one, ()) for one in subjects))

    def _stays(self, name: str, now: Now) -> bool:
        served = self.served[name]
        service = self.known.services.get(served.service)
        return (
            service is not None
            and service.address == served.address
            and served.provider in service.providers
            and _network(served, now) is not None
        )

    def _forget(self, name: str) -> None:
        served = self.served.pop(name)
        self._balance.release(served.service, (served.vrf, served.client))
        for port in served.ports:
            self._owners.pop(answer_of(served, port), None)
        for about in _subjects(served):
            discard(self._about, about, name)

    # -- what answers are known by -------------------------------------------------------------

    def reserve(self, answer: Answer, name: str, port: ServicePort) -> None:
        """Have answers be known as those of a client's port, unless they are another's already."""
        self._owners.setdefault(answer, (name, port.port))

    def whose(self, answer: Answer) -> str | None:
        """Return the name of the client whose answer it is, without its connection."""
        name, _ = self._owners.get(answer, (None, 0))
        return name if name in self.served else None

    def connect(self, name: str, port: ServicePort, source: int) -> None:
        """Note a connection of a client to a service, if its answers must be known one by one."""
        served = self.served[name]
        if port not in served.ports:
            others = (one for one in served.connections if one != (port, source))
            known = (*others, (port, source))[-MAX_CONNECTIONS:]
            self.served[name] = replace(served, connections=known)

    def connect_directly(self, name: str, answer: Answer, source: int) -> bool:
        """Note a client's connection to its provider's own address; return whether it is new."""
        served = self.served[name]
        port = next(port for port in served.ports if answer_of(served, port) == answer)
        if (port, source) in served.direct:
            return False
        known = (*served.direct, (port, source))[-MAX_CONNECTIONS:]
        self.served[name] = replace(served, direct=known)
        return True

    def _let_go(self, name: str, now: Now) -> None:
        """Give up answers of ports that are the service's no longer."""
        served = self.served[name]
        ports = frozenset(self._ports(served, now))
        for port in served.ports:
            if port not in ports:
                self._owners.pop(answer_of(served, port), None)

    def _renew(self, name: str, now: Now) -> bool:
        """Look again at a client; return whether that led to anything."""
        before = self.served[name]
        network = _network(before, now)
        if network is not None:
            self.served[name] = self._resolved(name, before, network, now)
        return self.served[name] != before

    def _ports(self, served: Served, now: Now) -> tuple[ServicePort, ...]:
        service = self.known.services[served.service]
        return self.known.ports(service, served.vrf, now.world)

    def _resolved(self, name: str, served: Served, network: Network, now: Now) -> Served:
        provider = now.directory.endpoint(served.vrf, served.provider)
        beside = provider is not None and provider.network == network.id
        ports = self._ports(served, now)
        whole = tuple(port for port in ports if self._claims(name, served, port))
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

    def _claims(self, name: str, served: Served, port: ServicePort) -> bool:
        """Tell whether the answers of a port are known by the provider's port alone."""
        own = (name, port.port)
        return self._owners.setdefault(answer_of(served, port), own) == own


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
    """Return what the answers to a client from a port of a service are known by."""
    return served.vrf, served.client, served.provider, port.protocol, port.provider_port


def _within_reach(service: Service, network: Network, now: Now) -> frozenset[IPv4Address]:
    """Return the providers a client can be sent to.

    What is bridged reaches the client's own network, if there are any; else, and from there,
    somebody outside has to route.
    """
    if now.world.fwd_mode is FwdMode.ROUTING:
        return service.providers
    found = ((one, now.directory.endpoint(network.vrf, one)) for one in service.providers)
    beside = frozenset(one for one, end in found if end is not None and end.network == network.id)
    return beside or service.providers


def _network(served: Served, now: Now) -> Network | None:
    """Return the network of a client that is a pod here."""
    end = now.directory.endpoint(served.vrf, served.client)
    return now.world.networks.get(end.network) if isinstance(end, LocalEndpoint) else None


def _subjects(served: Served) -> Iterator[Address | str]:
    """Yield what a client depends on."""
    yield served.service
    yield served.vrf, served.client
    if served.provider != served.client:
        yield served.vrf, served.provider
