"""The service proxy of one bridge: handles the first packets of services' clients. Pure.

In come packets that table 3 sends to the controller (by `ofnet.agent`), changed Worlds, and once
the clients that an earlier agent left in the switch. Out comes `served`, which becomes part of the
World and so flows (`ofnet.pipelines.service_nat`). `ofnet.services.clients` keeps the state.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from ofnet.changes import Changes
from ofnet.channel.flow_stats import ReportedClient
from ofnet.channel.wire import PacketIn
from ofnet.directory import Address, Directory
from ofnet.openflow import packets
from ofnet.openflow.actions import Action, Resubmit
from ofnet.openflow.fields import SOURCE_GROUP, VRF
from ofnet.openflow.packets import Segment
from ofnet.packetin import PacketOut
from ofnet.pipelines import service_nat
from ofnet.services.clients import ServiceClients, Snapshot, name_of
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
    """The reaction to a packet.

    `send` goes out once the flows of the client `name` are in the switch; `altered` says that these
    have changed.
    """

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
        """The clients with their providers, by name."""
        return self._clients.served

    def update(
        self, world: World, changes: Changes, directory: Directory, touched: Iterable[Address]
    ) -> frozenset[str]:
        """Take over a changed World; return the names of the clients that changed.

        `directory` has taken it over already, and `touched` has the addresses that changed there.
        """
        return self._clients.update(Snapshot(world, directory), changes, touched)

    # -- clients found in the switch -----------------------------------------------------------

    def adopt(
        self, found: Collection[ReportedClient], world: World, directory: Directory
    ) -> frozenset[str]:
        """Restore the clients found in the switch that the World allows; return their names."""
        # Three passes, because claims on replies are first come, first served. Entries without a
        # source port own their replies in the switch already, so they claim them first; a
        # connection restored before could take replies over, and change flows in use. Direct
        # connections come last: they belong to a client that the first two passes restored.
        networks = self._networks(world)
        mine = [(one, net) for one in sorted(found) if (net := networks.get((one.vrf, one.client)))]
        valid = list(self._valid(mine, world))
        for one, network, service, port in valid:
            if not one.source:
                answer = (network.vrf, one.client, one.provider, port.protocol, port.provider_port)
                name = name_of(service.key, network.vrf, one.client)
                self._clients.reserve(answer, name, port)
        names = set()
        for one, network, service, port in valid:
            now = Snapshot(world, directory)
            name = self._clients.restore(service, one.client, one.provider, network, now)
            if one.source:
                self._clients.add_connection(name, port, one.source)
            names.add(name)
        for one, network in mine:
            if one.address == one.provider:
                answer = (network.vrf, one.client, one.provider, one.protocol, one.port)
                owner = self._clients.owner_of(answer)
                if owner in names:
                    self._clients.add_direct_connection(owner, answer, one.source)
        return frozenset(names)

    def _valid(
        self, mine: Iterable[tuple[ReportedClient, Network]], world: World
    ) -> Iterator[tuple[ReportedClient, Network, Service, ServicePort]]:
        """Yield the clients that the World allows, with their services and ports.

        A client has one provider for all ports of a service. The switch can have several for it
        when two services with one address have become one; then the first one counts.
        """
        providers: dict[str, IPv4Address] = {}
        for one, network in mine:
            match = self._clients.catalogue.find(network.vrf, one.segment, world)
            if match is None or one.provider not in match[0].providers:
                continue
            name = name_of(match[0].key, network.vrf, one.client)
            if providers.setdefault(name, one.provider) == one.provider:
                yield one, network, *match

    def _networks(self, world: World) -> dict[tuple[int, IPv4Address], Network]:
        """Return the networks of this host's pods, by VRF and address as flows have them."""
        pods = [(pod, world.networks.get(pod.network)) for pod in world.local.values()]
        catalogue = self._clients.catalogue
        return {
            (catalogue.switch_vrf(net.vrf, world), pod.ip): net
            for pod, net in pods
            if net is not None
        }

    # -- first packets -------------------------------------------------------------------------

    def packet_in(self, packet: PacketIn, world: World, directory: Directory) -> Response:
        """Assign a provider to the client that sent a packet for a service; return the reaction."""
        segment = packets.parse_segment(packet.data)
        attachment = directory.attachment(packet.in_port)
        if segment is None or attachment is None:
            return Response("SvcPktInvalid-ERROR")
        pod, network = attachment.endpoint, attachment.network
        if pod is None or network is None:
            return Response("SvcPktInvalid-ERROR")
        if pod.ip != segment.source:
            return Response("SvcPktSpoofed-ERROR")
        vrf = network.vrf
        found = self._clients.catalogue.find(vrf, segment, world)
        if found is None:
            return self._direct(packet, pod, vrf, segment, world)
        service, port = found
        before = self.served.get(name_of(service.key, vrf, segment.source))
        now = Snapshot(world, directory)
        name = self._clients.assign(service, segment.source, network, now)
        self._clients.add_connection(name, port, segment.source_port)
        served = self.served[name]
        out = _to_provider(
            packet, pod, served, port, self._clients.catalogue.switch_vrf(vrf, world)
        )
        return Response("SvcPktRcvd", name, served != before, out)

    def _direct(
        self, packet: PacketIn, pod: LocalEndpoint, vrf: int, segment: Segment, world: World
    ) -> Response:
        """Handle a client's packet to its provider's own address: a direct connection."""
        # Not for a TCP reset. The switch's datapath can lag behind its flows for a moment, and a
        # service's reply then reaches the client untranslated; the client answers it with a reset,
        # to the provider's address. Taking that for a direct connection would leave the
        # translation of this connection off for good.
        ends = (segment.source, segment.destination)
        answer = (vrf, *ends, segment.protocol, segment.destination_port)
        name = self._clients.owner_of(answer)
        if name is None:
            return Response("SvcPktUnknownService")
        if segment.reset:
            return Response("SvcPktReset")
        new = self._clients.add_direct_connection(name, answer, segment.source_port)
        out = _resume(packet, pod, self._clients.catalogue.switch_vrf(vrf, world))
        return Response("SvcPktDirect", name, altered=new, send=out)


def _to_provider(
    packet: PacketIn, pod: LocalEndpoint, served: Served, port: ServicePort, vrf: int
) -> PacketOut:
    """Return the packet out that forwards a client's packet to its provider, or back to itself."""
    actions = service_nat.to_provider(served, port)
    if served.provider == served.client:
        frame = packets.untagged(packet.data)
        return PacketOut(data=frame, actions=actions, in_port=packet.in_port)
    return _resume(packet, pod, vrf, actions)


def _resume(
    packet: PacketIn, pod: LocalEndpoint, vrf: int, actions: tuple[Action, ...] = ()
) -> PacketOut:
    """Return the packet out that resumes after table 3, with the metadata that flows would set.

    Resuming in an earlier table could send the packet to the controller again, in a loop.
    """
    marks = VRF.put(vrf) | SOURCE_GROUP.put(pod.group_id)
    resume = Resubmit(TableId.DST_GRP, marks)
    return PacketOut(data=packet.data, actions=(*actions, resume), in_port=packet.in_port)
