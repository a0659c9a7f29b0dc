"""Packets for services: who asked, and what that leads to. Pure.

In come packets that table 3 sends up (`ofnet.agent` passes them on), changed Worlds, and once what
an agent before has left in the switch; out comes `served`, which becomes part of the World and so
flows (`ofnet.pipelines.service_nat`). `ofnet.services.clients` remembers who is served by whom.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from ofnet.changes import Changes
from ofnet.channel.flow_stats import Adopted
from ofnet.channel.wire import PacketIn
from ofnet.directory import Address, Directory
from ofnet.openflow import packets
from ofnet.openflow.actions import Action, GoOn
from ofnet.openflow.fields import SOURCE_GROUP, VRF
from ofnet.openflow.packets import Segment
from ofnet.packetin import PacketOut
from ofnet.pipelines import service_nat
from ofnet.services.clients import Now, ServiceClients, name_of
from ofnet.tables import TableId
from ofnet.world import (
    Bridge,
    LocalEndpoint,
    Network,
    Served,
    Service,
    ServicePort,
    World,
)


@dataclass(frozen=True, slots=True)
class Response:
    """What a packet leads to: a counter, whose flows must be there (`altered`: anew), what then."""

    counter: str
    name: str = ""
    altered: bool = False
    send: PacketOut | None = None


class ServiceProxy:
    """The services of one bridge."""

    def __init__(self, bridge: Bridge) -> None:
        self._clients = ServiceClients(bridge)

    @property
    def served(self) -> dict[str, Served]:
        """The clients, by names of their own, and who serves them."""
        return self._clients.served

    def update(
        self, world: World, changes: Changes, directory: Directory, touched: Iterable[Address]
    ) -> frozenset[str]:
        """Take over a changed World; return the names of the clients for whom something changed.

        `directory` has taken it over already, and says which addresses it `touched`.
        """
        return self._clients.update(Now(world, directory), changes, touched)

    # -- what the switch has comes in ----------------------------------------------------------

    def adopt(
        self, found: Collection[Adopted], world: World, directory: Directory
    ) -> frozenset[str]:
        """Take over whom the switch has served, where the World agrees; return their names."""
        here = self._networks(world)
        mine = [(one, net) for one in sorted(found) if (net := here.get((one.vrf, one.client)))]
        agreed = list(self._agreed(mine, world))
        for one, network, service, port in agreed:
            if not one.source:  # who is known by the provider's port stays so
                answer = (network.vrf, one.client, one.provider, port.protocol, port.provider_port)
                name = name_of(service.key, network.vrf, one.client)
                self._clients.reserve(answer, name, port)
        names = set()
        for one, network, service, port in agreed:
            now = Now(world, directory)
            name = self._clients.hold(service, one.client, one.provider, network, now)
            if one.source:
                self._clients.connect(name, port, one.source)
            names.add(name)
        for one, network in mine:
            if one.address == one.provider:
                answer = (network.vrf, one.client, one.provider, one.protocol, one.port)
                owner = self._clients.whose(answer)
                if owner in names:
                    self._clients.connect_directly(owner, answer, one.source)
        return frozenset(names)

    def _agreed(
        self, mine: Iterable[tuple[Adopted, Network]], world: World
    ) -> Iterator[tuple[Adopted, Network, Service, ServicePort]]:
        """Yield what the World agrees with: a client has one provider for all ports of a service.

        It has several in the switch where two services with one address have become one.
        """
        providers: dict[str, IPv4Address] = {}
        for one, network in mine:
            asked = self._clients.known.asked(network.vrf, one.segment, world)
            if asked is None or one.provider not in asked[0].providers:
                continue
            name = name_of(asked[0].key, network.vrf, one.client)
            if providers.setdefault(name, one.provider) == one.provider:
                yield one, network, *asked

    def _networks(self, world: World) -> dict[tuple[int, IPv4Address], Network]:
        """Return the networks of the pods here, by their addresses as the switch has them."""
        pods = [(pod, world.networks.get(pod.network)) for pod in world.local.values()]
        known = self._clients.known
        return {(known.space(net.vrf, world), pod.ip): net for pod, net in pods if net is not None}

    # -- packets come in -----------------------------------------------------------------------

    def packet_in(self, packet: PacketIn, world: World, directory: Directory) -> Response:
        """Return what a pod's packet for a service leads to, having assigned a provider."""
        segment = packets.parse_segment(packet.data)
        behind = directory.behind(packet.in_port)
        if segment is None or behind is None or behind.endpoint is None or behind.network is None:
            return Response("SvcPktInvalid-ERROR")
        if behind.endpoint.ip != segment.source:
            return Response("SvcPktSpoofed-ERROR")
        vrf = behind.network.vrf
        found = self._clients.known.asked(vrf, segment, world)
        if found is None:
            return self._direct(packet, behind.endpoint, vrf, segment, world)
        service, port = found
        before = self.served.get(name_of(service.key, vrf, segment.source))
        now = Now(world, directory)
        name = self._clients.assign(service, segment.source, behind.network, now)
        self._clients.connect(name, port, segment.source_port)
        served = self.served[name]
        again = _again(packet, behind.endpoint, served, port, self._clients.known.space(vrf, world))
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
        name = self._clients.whose(answer)
        if name is None:
            return Response("SvcPktUnknownService")
        if segment.reset:
            return Response("SvcPktReset")
        new = self._clients.connect_directly(name, answer, segment.source_port)
        again = _onward(packet, pod, self._clients.known.space(vrf, world))
        return Response("SvcPktDirect", name, altered=new, send=again)


def _again(
    packet: PacketIn, pod: LocalEndpoint, served: Served, port: ServicePort, vrf: int
) -> PacketOut:
    """Return a client's packet for what comes next: its provider, or itself."""
    actions = service_nat.to_provider(served, port)
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
