"""A stateful switch model: connection tracking, NAT, group selection, learned flows.

In come flows and packets, one after the other; out comes what leaves where. `ofnet.trace.evaluator`
looks flows up and does what needs no memory; here is the rest, written from Open vSwitch's
documentation (ovs-actions(7), ovs-fields(7)). Where the switch chooses by a hash, `choose` does: it
is given the number of choices. What the switch has learned holds until it is forgotten by `expire`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    Action,
    Conntrack,
    ConntrackCommit,
    Deal,
    Learn,
    Lookup,
    Nat,
    SelectGroup,
)
from ofnet.openflow.fields import CT_ESTABLISHED, CT_NEW, CT_REPLY, CT_TRACKED, VRF
from ofnet.tables import TableId
from ofnet.trace.evaluator import (
    LOOP,
    EndlessLookup,
    PacketFields,
    Sent,
    Tables,
    acted,
    marked,
    winners,
)

Address = IPv4Address | IPv6Address
_KINDS: Final = {oxm.PROTO_TCP: "tcp", oxm.PROTO_UDP: "udp"}
_EPHEMERAL: Final = 40_000
"""The first port that is given to one of two connections with the same answers."""


class FlowEnds(NamedTuple):
    """Where packets of one direction of a connection come from and go to."""

    protocol: int
    source: Address
    source_port: int
    destination: Address
    destination_port: int

    def turned(self) -> "FlowEnds":
        """Return the other direction."""
        return FlowEnds(
            self.protocol,
            self.destination,
            self.destination_port,
            self.source,
            self.source_port,
        )


@dataclass(slots=True)
class Connection:
    """A connection: its packets as they come from either end."""

    asked: FlowEnds
    answered: FlowEnds
    established: bool = False


@dataclass(frozen=True, slots=True)
class LookedUp:
    """One look-up of a packet: as it was, in which table, and the flow it met, None for none.

    `fresh`: the packet came in, or comes back from connection tracking. `others` match it with the
    same priority: OpenFlow leaves it to the switch which one counts.
    """

    table: TableId
    packet: PacketFields
    flow: Flow | None
    fresh: bool
    others: tuple[Flow, ...] = ()


@dataclass(slots=True)
class _Turn:
    """What one packet has met until now."""

    sent: list[Sent]
    path: list[LookedUp] = field(default_factory=list)


class TrackingSwitch:
    """One bridge; `tables` may be replaced at any time."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        self.tables: Tables = {}
        self.learned: dict[tuple[int, FlowEnds], int] = {}
        self.connections: dict[tuple[int, FlowEnds], Connection] = {}
        self.path: tuple[LookedUp, ...] = ()
        """The look-ups of the packet that was received last."""

        self._choose = choose

    def receive(self, packet: PacketFields) -> tuple[Sent, ...]:
        """Return what leaves when a packet comes in."""
        turn = _Turn([])
        self._look_up(TableId.INPUT, packet, turn, fresh=True)
        self.path = tuple(turn.path)
        return tuple(turn.sent)

    @property
    def last(self) -> PacketFields:
        """The packet as it was looked up last, whether it left or not."""
        return self.path[-1].packet

    # -- tables and actions --------------------------------------------------------------------

    def _look_up(
        self, table: int, packet: PacketFields, turn: _Turn, *, fresh: bool = False
    ) -> PacketFields:
        following: int | None = table
        while following is not None:
            if len(turn.path) >= LOOP:
                raise EndlessLookup(f"no end: {packet}")
            if following == TableId.AFFINITY:
                packet = self._recalled(packet)
            found = winners(self.tables[TableId(following)], packet)
            met = found[0] if found else None
            turn.path.append(LookedUp(TableId(following), packet, met, fresh, found[1:]))
            fresh = False
            if not found:
                break
            instructions = found[0].instructions
            packet = self._all(instructions.actions, packet, turn)
            packet = marked(instructions, packet)
            following = instructions.goto
        return packet

    def _all(self, actions: Iterable[Action], packet: PacketFields, turn: _Turn) -> PacketFields:
        for action in actions:
            packet = self._act(action, packet, turn)
        return packet

    def _act(self, action: Action, packet: PacketFields, turn: _Turn) -> PacketFields:
        match action:
            case Lookup(table):
                return self._look_up(table, packet, turn)
            case Conntrack(table):
                self._look_up(table, self._tracked(action, packet), turn, fresh=True)
                return packet
            case SelectGroup(buckets):
                self._all(buckets[self._choose(len(buckets))].actions, packet, turn)
                return packet
            case Deal(count):
                return packet.put("reg0", self._choose(count))
            case Learn() | ConntrackCommit():
                self._remember(action, packet)
                return packet
            case _:
                return acted(action, packet, turn.sent)

    def _remember(self, action: Learn | ConntrackCommit, packet: PacketFields) -> None:
        if isinstance(action, Learn):
            vrf, ends = _client(packet)
            asked = ends._replace(protocol=action.protocol, destination_port=action.port)
            self.learned[vrf, asked] = action.value
        else:
            self._commit(action.zone, packet)

    def _recalled(self, packet: PacketFields) -> PacketFields:
        value = self.learned.get(_client(packet))
        return packet if value is None else packet.put("reg1", value)

    # -- connection tracking -------------------------------------------------------------------

    def _tracked(self, action: Conntrack, packet: PacketFields) -> PacketFields:
        ends = ends_of(packet)
        known = self.connections.get((action.zone, ends))
        if known is None:
            asked, after, state = ends, packet, CT_NEW
            if action.commit:
                after = self._committed(action, ends, packet)
        else:
            asked, state = known.asked, 0
            back = ends == known.answered
            known.established |= back
            state = CT_ESTABLISHED if known.established else CT_NEW
            state |= CT_REPLY if back else 0
            after = _put(packet, (known.asked if back else known.answered).turned())
            after = after if action.nat is not None else packet
        return (
            after.put("ct_state", CT_TRACKED | state)
            .put("ct_zone", action.zone)
            .put("ct_nw_proto", asked.protocol)
            .put("ct_tp_dst", asked.destination_port)
            .put(
                "ct_nw_dst" if asked.destination.version == 4 else "ct_ipv6_dst", asked.destination
            )
        )

    def _commit(self, zone: int, packet: PacketFields) -> None:
        """Make a packet's connection known, unless it is."""
        ends = ends_of(packet)
        if (zone, ends) not in self.connections:
            connection = Connection(ends, ends.turned())
            self.connections[zone, ends] = self.connections[zone, ends.turned()] = connection

    def _committed(self, action: Conntrack, ends: FlowEnds, packet: PacketFields) -> PacketFields:
        answered = self._translated(action.nat, action.zone, ends).turned()
        connection = Connection(ends, answered)
        self.connections[action.zone, ends] = connection
        self.connections[action.zone, answered] = connection
        return _put(packet, answered.turned())

    def _translated(self, nat: Nat | None, zone: int, ends: FlowEnds) -> FlowEnds:
        if nat is None or not nat.end:
            return ends
        if nat.end == "dst" and nat.address is not None:
            ends = ends._replace(destination=nat.address, destination_port=nat.port)
        elif nat.address is not None:
            ends = ends._replace(source=nat.address)
        # one of two connections with the same answers gets another port, at either end
        port = _EPHEMERAL
        while (zone, ends.turned()) in self.connections:
            ends, port = ends._replace(source_port=port), port + 1
        return ends


def ends_of(packet: PacketFields) -> FlowEnds:
    """Return where a packet comes from and goes to; without ports these are 0.

    Raises ValueError for what is neither IPv4 nor IPv6.
    """
    names = ("ipv4_src", "ipv4_dst")
    if packet.get("eth_type") != oxm.ETH_IPV4:
        names = ("ipv6_src", "ipv6_dst")
    source, destination = (packet.get(name) for name in names)
    if not isinstance(source, Address) or not isinstance(destination, Address):
        raise ValueError(f"a packet without addresses: {packet}")  # noqa: TRY004 - no wrong call
    protocol = packet.number("ip_proto")
    kind = _KINDS.get(protocol)
    ports = (packet.number(f"{kind}_src"), packet.number(f"{kind}_dst")) if kind else (0, 0)
    return FlowEnds(protocol, source, ports[0], destination, ports[1])


def _put(packet: PacketFields, ends: FlowEnds) -> PacketFields:
    v4 = ends.source.version == 4
    packet = packet.put("ipv4_src" if v4 else "ipv6_src", ends.source)
    packet = packet.put("ipv4_dst" if v4 else "ipv6_dst", ends.destination)
    kind = _KINDS.get(ends.protocol)
    if not kind:
        return packet
    return packet.put(f"{kind}_src", ends.source_port).put(f"{kind}_dst", ends.destination_port)


def _client(packet: PacketFields) -> tuple[int, FlowEnds]:
    """Return what a learned flow matches (`ofnet.openflow.actions.Learn`)."""
    ends = ends_of(packet)
    return packet.number("metadata") & VRF.mask, ends._replace(source_port=0)
