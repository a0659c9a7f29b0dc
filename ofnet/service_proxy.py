"""Which provider serves which pod of this host: assigned with a client's first packet. Pure.

In come packets for services (`ofnet.agent` passes on what table 3 sends up), changed Worlds, and
once what an agent before has left in the switch; out comes `served`, which becomes part of the
World and so flows (`ofnet.pipelines.services`). `ofnet.balance` chooses. A client keeps its
provider for all ports of a service, for as long as both are there (`ofnetSvcProxy.go: HandlePkt`).

Answers carry no sign of the service. Where two ports of services would have one provider answer one
client from one port, the first is known by that port, and for the other one every connection is
brought up and known by the client's port. The original gives such answers the wrong name.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Final

from ofnet import packets
from ofnet.actions import Action, GoOn
from ofnet.balance import Balance
from ofnet.changes import Changes
from ofnet.directory import Address, Directory
from ofnet.fields import SOURCE_GROUP, VRF
from ofnet.packetin import PacketOut
from ofnet.packets import Segment
from ofnet.pipelines import services
from ofnet.reported import Adopted
from ofnet.service_directory import ServiceDirectory
from ofnet.tables import TableId
from ofnet.wire import PacketIn
from ofnet.world import (
    Bridge,
    FwdMode,
    LocalEndpoint,
    Network,
    Served,
    Service,
    ServicePort,
    World,
)

MAX_CONNECTIONS: Final = 128
"""Connections of a client that are known one by one; one that falls out comes up again."""

_Answer = tuple[int, IPv4Address, IPv4Address, int, int]
"""What an answer is known by: VRF, client, provider, protocol, the provider's port."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a packet leads to: a counter, whose flows must be there (`altered`: anew), what then."""

    counter: str
    name: str = ""
    altered: bool = False
    send: PacketOut | None = None


class ServiceProxy:
    """The services of one bridge; `served` has the clients by names of their own."""

    def __init__(self, bridge: Bridge) -> None:
        self.served: dict[str, Served] = {}
        self._known = ServiceDirectory(bridge)
        self._balance = Balance()
        self._about: dict[Address | str, set[str]] = {}
        self._owners: dict[_Answer, tuple[str, int]] = {}

    # -- Worlds come in ------------------------------------------------------------------------

    def update(
        self, world: World, changes: Changes, directory: Directory, touched: Iterable[Address]
    ) -> frozenset[str]:
        """Take over a changed World; return the names of the clients for whom something changed.

        `directory` has taken it over already, and says which addresses it `touched`.
        """
        keys: Iterable[str] = changes.services
        if changes.everything:
            keys = {*world.services, *self._known.services}
        subjects: list[Address | str] = [*touched, *keys]
        concerned = set[str]().union(*(self._about.get(one, ()) for one in subjects))
        self._known.update(world, keys)
        return frozenset(n for n in sorted(concerned) if self._renew(n, world, directory))

    def _renew(self, name: str, world: World, directory: Directory) -> bool:
        """Look again at a client; return whether that led to anything."""
        served = self.served[name]
        service = self._known.services.get(served.service)
        network = _network(directory.endpoint(served.vrf, served.client), world)
        if (
            service is None
            or network is None
            or served.address != service.address
            or served.provider not in service.providers
        ):
            self._forget(name)
            return True
        for port in set(served.ports) - set(service.ports):
            self._owners.pop(_answer(served, port), None)
        fresh = self._resolved(name, served, service, network, directory)
        self.served[name] = fresh
        return fresh != served

    def _resolved(
        self, name: str, served: Served, service: Service, network: Network, directory: Directory
    ) -> Served:
        provider = directory.endpoint(served.vrf, served.provider)
        beside = provider is not None and provider.network == network.id
        whole = tuple(port for port in service.ports if self._claims(name, served, port))
        return replace(
            served,
            vlan=network.vlan,
            mac=provider.mac if provider is not None and beside else "",
            ports=whole,
            connections=tuple(
                (port, source)
                for port, source in served.connections
                if port in service.ports and port not in whole
            ),
            direct=tuple((port, source) for port, source in served.direct if port in whole),
        )

    def _claims(self, name: str, served: Served, port: ServicePort) -> bool:
        """Tell whether the answers of a port are known by the provider's port alone."""
        own = (name, port.port)
        return self._owners.setdefault(_answer(served, port), own) == own

    def _forget(self, name: str) -> None:
        served = self.served.pop(name)
        self._balance.release(served.service, (served.vrf, served.client))
        for port in served.ports:
            self._owners.pop(_answer(served, port), None)
        for about in _subjects(served):
            _discard(self._about, about, name)

    def adopt(
        self, found: Collection[Adopted], world: World, directory: Directory
    ) -> frozenset[str]:
        """Take over whom the switch has served, where the World agrees; return their names."""
        pods = [(pod, world.networks.get(pod.network)) for pod in world.local.values()]
        here = {
            (self._known.space(net.vrf, world), pod.ip): net for pod, net in pods if net is not None
        }
        agreed = [
            (one, network, *asked)
            for one in sorted(found)
            if (network := here.get((one.vrf, one.client))) is not None
            and (asked := self._known.asked(network.vrf, one.segment, world)) is not None
            and one.provider in asked[0].providers
        ]
        for one, network, service, port in agreed:
            if not one.source:  # who is known by the provider's port stays so
                answer = (network.vrf, one.client, one.provider, port.protocol, port.provider_port)
                name = _name(service.key, network.vrf, one.client)
                self._owners.setdefault(answer, (name, port.port))
        names = {self._adopt(*one, directory) for one in agreed}
        for one in found:
            network = here.get((one.vrf, one.client))
            if network is not None and one.address == one.provider:
                answer = (network.vrf, one.client, one.provider, one.protocol, one.port)
                name, _ = self._owners.get(answer, ("", 0))
                if name in names:
                    self._talk_directly(name, answer, one.source)
        return frozenset(names)

    def _adopt(
        self,
        one: Adopted,
        network: Network,
        service: Service,
        port: ServicePort,
        directory: Directory,
    ) -> str:
        client = (network.vrf, one.client)
        name = _name(service.key, *client)
        if name not in self.served:
            self._balance.hold(service.key, client, one.provider)
            self._take_on(service, client, one.provider, network, directory)
        served = self.served[name]
        if one.source and served.provider == one.provider and port not in served.ports:
            self._connect(name, port, one.source)
        return name

    # -- packets come in -----------------------------------------------------------------------

    def packet_in(self, packet: PacketIn, world: World, directory: Directory) -> Response:
        """Return what a pod's packet for a service leads to, having assigned a provider."""
        segment = packets.parse_segment(packet.data)
        behind = directory.behind(packet.in_port)
        if segment is None or behind is None or behind.endpoint is None or behind.network is None:
            return Response("SvcPktInvalid-ERROR")
        if behind.endpoint.ip != segment.source:
            return Response("SvcPktSpoofed-ERROR")
        found = self._known.asked(behind.network.vrf, segment, world)
        if found is None:
            return self._direct(packet, behind.endpoint, behind.network.vrf, segment, world)
        service, port = found
        name = _name(service.key, behind.network.vrf, segment.source)
        before = self.served.get(name)
        if before is None:
            self._assign(service, segment.source, behind.network, world, directory)
        if port not in self.served[name].ports:
            self._connect(name, port, segment.source_port)
        served = self.served[name]
        again = _again(packet, behind.endpoint, served, port, self._known.space(served.vrf, world))
        return Response("SvcPktRcvd", name, served != before, again)

    def _direct(
        self, packet: PacketIn, pod: LocalEndpoint, vrf: int, segment: Segment, world: World
    ) -> Response:
        """Have a client talk to its provider under that one's own address.

        A client answers with a reset when the service's answer came untranslated, as it can while
        the switch's datapath is behind its flows: then what comes next must be translated.
        """
        ends = (segment.source, segment.destination)
        answer = (vrf, *ends, segment.protocol, segment.destination_port)
        name, _ = self._owners.get(answer, ("", 0))
        if name not in self.served:
            return Response("SvcPktUnknownService")
        if segment.reset:
            return Response("SvcPktReset")
        new = self._talk_directly(name, answer, segment.source_port)
        again = _onward(packet, pod, self._known.space(vrf, world))
        return Response("SvcPktDirect", name, altered=new, send=again)

    def _talk_directly(self, name: str, answer: _Answer, source: int) -> bool:
        """Note a connection; return whether it is new."""
        served = self.served[name]
        port = next(port for port in served.ports if _answer(served, port) == answer)
        if (port, source) in served.direct:
            return False
        known = (*served.direct, (port, source))[-MAX_CONNECTIONS:]
        self.served[name] = replace(served, direct=known)
        return True

    def _assign(
        self,
        service: Service,
        address: IPv4Address,
        network: Network,
        world: World,
        directory: Directory,
    ) -> None:
        client = (network.vrf, address)
        among = _within_reach(service, network, world, directory)
        provider = self._balance.assign(service.key, client, among)
        self._take_on(service, client, provider, network, directory)

    def _take_on(
        self,
        service: Service,
        client: tuple[int, IPv4Address],
        provider: IPv4Address,
        network: Network,
        directory: Directory,
    ) -> None:
        vrf, address = client
        served = Served(
            service=service.key,
            address=service.address,
            vrf=vrf,
            client=address,
            provider=provider,
            vlan=network.vlan,
        )
        name = _name(service.key, vrf, address)
        self.served[name] = self._resolved(name, served, service, network, directory)
        for about in _subjects(served):
            self._about.setdefault(about, set()).add(name)

    def _connect(self, name: str, port: ServicePort, source: int) -> None:
        served = self.served[name]
        others = (one for one in served.connections if one != (port, source))
        known = (*others, (port, source))
        self.served[name] = replace(served, connections=known[-MAX_CONNECTIONS:])


def _within_reach(
    service: Service, network: Network, world: World, directory: Directory
) -> frozenset[IPv4Address]:
    """Return the providers a client can be sent to.

    What is bridged reaches the client's own network, if there are any; else, and from there,
    somebody outside has to route.
    """
    if world.fwd_mode is FwdMode.ROUTING:
        return service.providers
    found = ((one, directory.endpoint(network.vrf, one)) for one in service.providers)
    beside = frozenset(one for one, end in found if end is not None and end.network == network.id)
    return beside or service.providers


def _again(
    packet: PacketIn, pod: LocalEndpoint, served: Served, port: ServicePort, vrf: int
) -> PacketOut:
    """Return a client's packet for what comes next: its provider, or itself."""
    actions = services.to_provider(served, port)
    if served.provider == served.client:
        frame = packets.untagged(packet.data)
        return PacketOut(data=frame, actions=actions, in_port=packet.in_port)
    return _onward(packet, pod, vrf, actions)


def _onward(
    packet: PacketIn, pod: LocalEndpoint, vrf: int, actions: tuple[Action, ...] = ()
) -> PacketOut:
    """Return a packet that goes on behind table 3, as flows would have it: never up here again."""
    marks = VRF.put(vrf) | SOURCE_GROUP.put(pod.group_id)
    go_on = GoOn(TableId.DST_GRP, marks)
    return PacketOut(data=packet.data, actions=(*actions, go_on), in_port=packet.in_port)


def _network(end: object, world: World) -> Network | None:
    return world.networks.get(end.network) if isinstance(end, LocalEndpoint) else None


def _name(service: str, vrf: int, client: IPv4Address) -> str:
    return f"{service} {vrf} {client}"


def _answer(served: Served, port: ServicePort) -> _Answer:
    return served.vrf, served.client, served.provider, port.protocol, port.provider_port


def _subjects(served: Served) -> Iterator[Address | str]:
    """Yield what a client depends on."""
    yield served.service
    yield served.vrf, served.client
    if served.provider != served.client:
        yield served.vrf, served.provider


def _discard(sets: dict[Address | str, set[str]], key: Address | str, name: str) -> None:
    sets[key].discard(name)
    if not sets[key]:
        del sets[key]
