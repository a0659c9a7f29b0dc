"""The way of a packet through the flows a bridge wants, with the owner of each. Pure.

In come the flows, who owns them, and packets that went before, whose connections are known by then;
out comes each look-up of the last one, and where it leaves to. Where the switch chooses by a hash,
the first choice is taken.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from ofnet.flows import Flow
from ofnet.openflow.actions import PORT_CONTROLLER, PORT_NORMAL
from ofnet.tables import TableId
from ofnet.trace.evaluator import PacketFields, Sent, tables_of
from ofnet.trace.tracking import LookedUp, TrackingSwitch
from ofnet.world import World

_UNCERTAIN = frozenset({TableId.AFFINITY, TableId.CHOICE})
"""Tables where what the switch learned, or a hash, decides."""


class Place(NamedTuple):
    """What is behind a port: a kind (`endpoint`, `tunnel`, ...) and the name of that one.

    An `endpoint` is named by its key, a `tunnel` by the host at its other end, and an `uplink` by
    the host that has the destination, "" for none. `host`: the host's own stack; `access`: an
    endpoint's own interface to its host; `agent`: the agent on this host, `names` its name service.
    """

    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Exit:
    """Where a packet leaves to, by which port, and how it looks then."""

    place: Place
    port: int
    packet: PacketFields


@dataclass(frozen=True, slots=True)
class Journey:
    """The look-ups of a packet in their order, and where it leaves; nowhere if it is dropped."""

    path: tuple[LookedUp, ...]
    exits: tuple[Exit, ...]

    @property
    def stretches(self) -> list[tuple[LookedUp, ...]]:
        """The look-ups between two passes of connection tracking, which a switch can be asked for.

        A stretch ends before what depends on a hash, or on what the switch has learned.
        """
        found: list[list[LookedUp]] = []
        certain = True
        for one in self.path:
            if one.fresh:
                found.append([])
                certain = True
            certain = certain and one.table not in _UNCERTAIN
            if certain:
                found[-1].append(one)
        return [tuple(some) for some in found if some]


def follow(flows: Iterable[Flow], world: World, packets: Sequence[PacketFields]) -> Journey:
    """Return the journey of the last packet. Raises ValueError for one that cannot be followed."""
    switch = TrackingSwitch(lambda _count: 0)
    switch.tables = tables_of(flows)
    sent: tuple[Sent, ...] = ()
    for packet in packets:
        sent = switch.receive(packet)
    return Journey(switch.path, tuple(_exit(world, one) for one in sent))


def _exit(world: World, sent: Sent) -> Exit:
    if sent.port != PORT_NORMAL:
        return Exit(_place(world, sent.port, sent.packet), sent.port, sent.packet)
    port = _switched(world, sent.packet)
    packet = _carried(world, sent.packet, port)
    return Exit(_place(world, port, packet), port, packet)


def _carried(world: World, packet: PacketFields, port: int) -> PacketFields:
    """Return a packet as Open vSwitch's own switch sends it by a port.

    A pod's port has its network's tag in OVSDB: frames to it have none, and those from it get the
    tag on an uplink.
    """
    if all(uplink.ofport != port for uplink in world.uplinks):
        return replace(packet, tags=())
    senders = (pod for pod in world.local.values() if pod.ofport == packet.get("in_port"))
    sender = next(senders, None)
    network = world.networks.get(sender.network) if sender is not None else None
    if packet.tags or sender is None or network is None:
        return packet
    return replace(packet, tags=(sender.group_vlan or network.vlan,))


def _place(world: World, port: int, packet: PacketFields) -> Place:
    """Return what is behind the port by which a packet leaves."""
    if port == PORT_CONTROLLER:
        return Place("agent")
    if any(uplink.ofport == port for uplink in world.uplinks):
        return _beyond(world, packet)
    return next((place for place, at in _ports(world) if at == port), Place("port", str(port)))


def _ports(world: World) -> Iterator[tuple[Place, int]]:
    """Yield what is behind each port but uplinks."""
    for key, endpoint in world.local.items():
        yield Place("endpoint", key), endpoint.ofport
    for host, vtep in world.vteps.items():
        yield Place("tunnel", host), vtep.ofport
    for key, access in world.access.items():
        yield Place("access", key), access.ofport
    single = (("host", world.host_port), ("router", world.router), ("names", world.name_port))
    for kind, one in single:
        if one is not None:
            yield Place(kind), one.ofport


def _switched(world: World, packet: PacketFields) -> int:
    """Return the port by which Open vSwitch's own learning switch sends: it knows MAC addresses.

    What it knows of no pod here leaves by the uplink; without one, nowhere that is known.
    """
    mac = packet.get("eth_dst")
    pods = (pod.ofport for pod in world.local.values() if pod.mac == mac)
    uplinks = (uplink.ofport for uplink in world.uplinks)
    return next(chain(pods, uplinks), PORT_NORMAL)


def _beyond(world: World, packet: PacketFields) -> Place:
    """Return an uplink, with the host that a packet is for."""
    mac = packet.get("eth_dst")
    for remote in world.remote.values():
        if remote.mac == mac:
            return Place("uplink", remote.host)
    for host, known in world.peer_macs.items():
        if known == mac:
            return Place("uplink", host)
    return Place("uplink")
