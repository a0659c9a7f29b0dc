"""A packet on its way through the tables: what OpenFlow does with flows, in a few lines.

A packet is its header fields by the names of `ofnet.openflow.oxm.FIELDS`; one without `vlan_vid`
has no tag.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.flows import Flow
from ofnet.openflow.actions import (
    Action,
    Conjunction,
    Conntrack,
    ConntrackClear,
    ConntrackCommit,
    ConntrackNote,
    Deal,
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
from ofnet.openflow.fields import CT_NEW, CT_TRACKED, Bits, CtState, Flags, Fragment
from ofnet.openflow.oxm import mac_bytes
from ofnet.world import Bridge, World

_UNSET: Final = {
    "metadata": 0,
    "ip_frag": 0,
    "ct_state": 0,
    "ct_zone": 0,
    "reg2": 0,
    "reg3": 0,
    "reg4": 0,
    "tracked_as": CT_TRACKED | CT_NEW,
}
"""The fields that every packet has on its way and that are left out when it has left.

`tracked_as` is what connection tracking will find.
"""

Packet = dict[str, Any]
Sent = tuple[int, Packet]
"""A port, and the packet that left by it."""


def flows_of(world: World, bridge: Bridge) -> list[Flow]:
    """Return all flows of a World. No object of it may be impossible."""
    desired = Desired(bridge)
    desired.update(world, EVERYTHING)
    assert not desired.faults, desired.faults
    return list(desired.flows.values())


def send(world: World, bridge: Bridge, packet: Packet) -> list[Sent]:
    """Return where a packet leaves a bridge, and what it is then."""
    return walk(flows_of(world, bridge), packet)


def walk(flows: Iterable[Flow], packet: Packet) -> list[Sent]:
    """Return where a packet goes that comes in at its `in_port`."""
    sent, _ = _walk(flows, packet)
    return sent


def tracked(flows: Iterable[Flow], packet: Packet) -> list[Conntrack]:
    """Return how a packet is sent through connection tracking on its way."""
    _, met = _walk(flows, packet)
    acts = [action for flow in met for action in flow.instructions.actions]
    return [action for action in acts if isinstance(action, Conntrack)]


def met(world: World, bridge: Bridge, packet: Packet) -> list[Action]:
    """Return the actions of all flows that a packet meets."""
    _, found = _walk(flows_of(world, bridge), packet)
    return [action for flow in found for action in flow.instructions.actions]


def _walk(flows: Iterable[Flow], packet: Packet) -> tuple[list[Sent], list[Flow]]:
    packet = {**_UNSET, **packet}
    sent: list[Sent] = []
    met: list[Flow] = []
    table: int | None = 0
    while table is not None:
        flow = _best([each for each in flows if each.table == table], packet)
        if flow is None:
            break
        met.append(flow)
        for action in flow.instructions.actions:
            _apply(action, packet, sent)
        written = flow.instructions.metadata
        if written is not None:
            packet["metadata"] = packet["metadata"] & ~written.mask | written.value
        actions = flow.instructions.actions
        resumed = [each.table for each in actions if isinstance(each, Conntrack | Lookup)]
        table = resumed[0] if resumed else flow.instructions.goto
    return sent, met


def _best(flows: list[Flow], packet: Packet) -> Flow | None:
    fitting = [flow for flow in flows if _fits(flow, packet)]
    if not fitting:
        return None
    highest = max(flow.priority for flow in fitting)
    first, *others = [flow for flow in fitting if flow.priority == highest]
    for other in others:
        assert other.instructions == first.instructions, f"{first} or {other}: undefined"
    return first


def _fits(flow: Flow, packet: Packet) -> bool:
    return all(name in packet and _is(packet[name], wanted) for name, wanted in flow.match.fields)


def _is(value: Any, wanted: Any) -> bool:
    match wanted:
        case Bits() | Flags() | CtState() | Fragment():
            return bool(value & wanted.mask == wanted.value)
        case IPv4Network() | IPv6Network():
            return value in wanted
        case str() if "/" in wanted:
            mac, mask = (int.from_bytes(mac_bytes(part)) for part in wanted.split("/"))
            return int.from_bytes(mac_bytes(value)) & mask == mac
        case _:
            return bool(value == wanted)


def _leaving(packet: Packet) -> Packet:
    return {name: value for name, value in packet.items() if name not in _UNSET}


def _track(action: Conntrack | ConntrackClear, packet: Packet) -> None:
    if isinstance(action, ConntrackClear):
        packet["ct_state"] = packet["ct_zone"] = 0
        return
    packet["ct_state"] = packet["tracked_as"]
    packet["ct_zone"] = action.zone
    if action.nat is not None and action.nat.address is not None:
        packet[f"ipv{action.nat.address.version}_{action.nat.end}"] = action.nat.address


def _apply(action: Action, packet: Packet, sent: list[Sent]) -> None:
    match action:
        case Output():
            sent.append((action.port, _leaving(packet)))
        case OutputFirst():
            sent.append((action.ports[0], _leaving(packet)))
        case LoadFirst():
            raise AssertionError(f"{action}: not in the worlds that are walked")
        case PushVlan():
            packet["vlan_vid"] = 0
        case PopVlan():
            del packet["vlan_vid"]
        case SetField():
            packet[action.name] = action.value
        case Move():
            packet[action.destination] = packet[action.source]
        case Lookup() | Conjunction() | ConntrackCommit() | ConntrackNote() | Report():
            pass  # the way on, a part of a match, or a note to another
        case Conntrack() | ConntrackClear():
            _track(action, packet)
        case Load():
            marked = action.field.put(action.value)
            packet["metadata"] = packet["metadata"] & ~marked.mask | marked.value
        case SelectGroup() | Learn() | Deal():
            raise AssertionError(f"{action} is not walked: services have tests on a real switch")
