"""A model of an OpenFlow 1.3 switch: a table of flows and a packet in, what leaves where out. Pure.

Written from the OpenFlow specification; `tests/integration/ofnet/test_trace.py` holds it against
Open vSwitch. Of our flows it uses the values alone, neither their bytes nor their text. What NORMAL
does is the switch's own business: the packet is said to leave through NORMAL. Connection tracking
calls every packet new; `ofnet.trace.tracking` has its memory and goes from table to table.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final, assert_never

from ofnet.flows import Flow
from ofnet.openflow.actions import (
    NO_PORT,
    PORT_IN_PORT,
    Action,
    Conjunction,
    Conntrack,
    ConntrackClear,
    ConntrackCommit,
    ConntrackNote,
    Deal,
    Instructions,
    Learn,
    Load,
    LoadFirst,
    Lookup,
    Move,
    Output,
    OutputFirst,
    PopVlan,
    PushVlan,
    Report,
    SelectGroup,
    SetField,
)
from ofnet.openflow.fields import CT_NEW, CT_TRACKED, Bits, CtState, Flags, Fragment, Ports
from ofnet.openflow.match import Match
from ofnet.tables import TableId

Value = int | str | IPv4Address | IPv6Address
Tables = Mapping[TableId, tuple[Flow, ...]]

LOOP: Final = 100
"""More flows than any packet meets."""

_UNSET: Final[Mapping[str, Value]] = {
    "metadata": 0,
    "tunnel_id": 0,
    "eth_type": 0,
    "tcp_flags": 0,
    "ip_frag": 0,
    "ct_state": 0,
    "ct_zone": 0,
    "reg2": 0,
    "reg3": 0,
    "reg4": 0,
}


class EndlessLookup(ValueError):
    """A packet goes from table to table for ever: the flows contradict the tables' order."""


@dataclass(frozen=True, slots=True)
class PacketFields:
    """A packet: the value of each field (`ofnet.openflow.match.MatchFields`), without masks.

    `tags` are the VLANs of its 802.1Q tags, the outermost first.
    """

    fields: Mapping[str, Value]
    tags: tuple[int, ...] = ()

    def get(self, name: str) -> Value | None:
        """Return a field; None if the packet has none such."""
        if name == "vlan_vid":
            return self.tags[0] if self.tags else None
        return self.fields.get(name, _UNSET.get(name))

    def value(self, name: str) -> Value:
        """Return a field. Raises ValueError if the packet has none such."""
        found = self.get(name)
        if found is None:
            raise ValueError(f"a packet without {name}: {self}")
        return found

    def number(self, name: str) -> int:
        """Return a field that is a number. Raises ValueError if the packet has none such."""
        value = self.get(name)
        if not isinstance(value, int):
            raise ValueError(f"a packet without {name}: {self}")  # noqa: TRY004 - no wrong call
        return value

    def put(self, name: str, value: Value) -> "PacketFields":
        """Return the packet with another value in a field."""
        if name == "vlan_vid":
            return replace(self, tags=(int(str(value)), *self.tags[1:]))
        return replace(self, fields={**self.fields, name: value})


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet that leaves through a port, which may be CONTROLLER or NORMAL."""

    port: int
    packet: PacketFields


def tables_of(flows: Iterable[Flow]) -> Tables:
    """Return flows by table, those of greater priority first."""
    found: dict[TableId, list[Flow]] = {table: [] for table in TableId}
    for flow in sorted(flows, key=lambda flow: -flow.priority):
        found[flow.table].append(flow)
    return {table: tuple(some) for table, some in found.items()}


def winners(flows: Iterable[Flow], packet: PacketFields) -> tuple[Flow, ...]:
    """Return the matching flows of the greatest priority; the flows come in their order.

    Flows with conjunctions match only together: a packet that meets all clauses of one gets the
    flow of its number (`conj_id`). At one priority a flow without conjunctions wins.
    """
    flows = tuple(flows)
    found: list[Flow] = []
    clauses: dict[tuple[int, int], set[int]] = {}
    level = None
    for flow in flows:
        if flow.priority != level:
            if found:
                break
            if clauses and (joined := _conjunctive(flows, clauses)):
                return joined
            level, clauses = flow.priority, {}
        if not matches(flow.match, packet):
            continue
        parts = [act for act in flow.instructions.actions if isinstance(act, Conjunction)]
        for part in parts:
            clauses.setdefault((part.id, part.clauses), set()).add(part.clause)
        if not parts:
            found.append(flow)
    if not found and clauses:
        return _conjunctive(flows, clauses)
    return tuple(found)


def _conjunctive(
    flows: tuple[Flow, ...], clauses: Mapping[tuple[int, int], Collection[int]]
) -> tuple[Flow, ...]:
    """Return the flows of the conjunctions of which a packet meets all clauses."""
    met = {number for (number, count), some in clauses.items() if len(some) == count}
    named = (flow for flow in flows if flow.match.names == {"conj_id"})
    joined = [flow for flow in named if dict(flow.match.fields)["conj_id"] in met]
    highest = max((flow.priority for flow in joined), default=0)
    return tuple(flow for flow in joined if flow.priority == highest)


def matches(match: Match, packet: PacketFields) -> bool:
    """Return whether a packet has the fields of a match."""
    for name, wanted in match.fields:
        value = packet.get(name)
        # most flows do not match: equality and kinds are the cheapest checks
        if wanted != value and (type(wanted) is type(value) is int or not _has(wanted, value)):
            return False
    return True


def _has(wanted: Any, value: Value | None) -> bool:
    match wanted, value:
        case _, None:
            return False
        case Bits() | Flags() | CtState() | Fragment() | Ports(), int():
            return value & wanted.mask == wanted.value
        case IPv4Network() | IPv6Network(), IPv4Address() | IPv6Address():
            return value in wanted
        case str(), str():
            return _has_mac(wanted, value)
        case _:
            return bool(wanted == value)


def _has_mac(wanted: str, value: str) -> bool:
    mac, _, mask = wanted.partition("/")
    bits = _number(mask) if mask else -1
    return _number(mac) & bits == _number(value) & bits


def _number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


def marked(instructions: Instructions, packet: PacketFields) -> PacketFields:
    """Return a packet with the metadata that some instructions write."""
    if instructions.metadata is None:
        return packet
    value, mask = instructions.metadata
    return packet.put("metadata", packet.number("metadata") & ~mask | value)


def acted(  # noqa: PLR0911 - one for each kind
    action: Action, packet: PacketFields, sent: list[Sent], broken: Collection[int] = ()
) -> PacketFields:
    """Return a packet after an action, what leaves being added to `sent`.

    An action that needs a memory does nothing (`ofnet.trace.tracking`).
    """
    match action:
        case Output(port):
            _send(port, packet, sent)
            return packet
        case OutputFirst(ports):
            _send(ports[0], packet, sent)  # all ports of the model work
            return packet
        case LoadFirst(ports, into):
            chosen = next((port for port in ports if port not in broken), NO_PORT)
            return marked(Instructions(metadata=into.put(chosen)), packet)
        case SetField(name, value):
            return packet.put(name, value)
        case Move(source, destination):
            return packet.put(destination, packet.value(source))
        case PushVlan():
            return replace(packet, tags=(packet.tags[0] if packet.tags else 0, *packet.tags))
        case PopVlan():
            return replace(packet, tags=packet.tags[1:])
        case Lookup() | Conjunction() | ConntrackCommit() | ConntrackNote() | Report():
            return packet  # the way on, a part of a match, or a note to another
        case Conntrack() | ConntrackClear():
            return _tracked(action, packet)
        case Load(bits, value):
            before = packet.number("metadata")
            return packet.put("metadata", before & ~bits.mask | value << bits.shift)
        case SelectGroup() | Learn() | Deal():
            return packet  # which provider is the switch's choice: the way ends there
        case _:
            assert_never(action)


def _tracked(action: Conntrack | ConntrackClear, packet: PacketFields) -> PacketFields:
    if isinstance(action, ConntrackClear):
        return packet.put("ct_state", 0).put("ct_zone", 0)
    return packet.put("ct_state", CT_TRACKED | CT_NEW).put("ct_zone", action.zone)


def _send(port: int, packet: PacketFields, sent: list[Sent]) -> None:
    """Send a packet; by its own number a port gets nothing back of what came from it."""
    came_from = packet.number("in_port")
    if port == PORT_IN_PORT:
        sent.append(Sent(came_from, _left(packet)))
    elif port != came_from:
        sent.append(Sent(port, _left(packet)))


def _left(packet: PacketFields) -> PacketFields:
    """Return a packet as it leaves: what connection tracking found is no part of it."""
    kept = {name: value for name, value in packet.fields.items() if not name.startswith("ct_")}
    return replace(packet, fields=kept)
