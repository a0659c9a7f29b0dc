"""A packet on its way through the tables: what OpenFlow does with flows, in a few lines.

A packet is its header fields by the names of `ofnet.openflow.oxm.FIELDS`; one without `vlan_vid`
has no tag.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.flows import Flow
from ofnet.openflow.actions import Action, Move, Output, OutputFirst, PopVlan, PushVlan, SetField
from ofnet.openflow.fields import Bits, Flags
from ofnet.openflow.oxm import mac_bytes
from ofnet.world import Bridge, World

Packet = dict[str, Any]
Sent = tuple[int, Packet]
"""A port, and the packet that left by it."""


def flows_of(world: World, bridge: Bridge) -> list[Flow]:
    """Return all flows of a World. No object of it may be impossible."""
    desired = Desired(bridge)
    desired.update(world, EVERYTHING)
    assert not desired.faults
    return list(desired.flows.values())


def send(world: World, bridge: Bridge, packet: Packet) -> list[Sent]:
    """Return where a packet leaves a bridge, and what it is then."""
    return walk(flows_of(world, bridge), packet)


def walk(flows: Iterable[Flow], packet: Packet) -> list[Sent]:
    """Return where a packet goes that comes in at its `in_port`."""
    packet = {"metadata": 0, **packet}
    sent: list[Sent] = []
    table: int | None = 0
    while table is not None:
        flow = _best([each for each in flows if each.table == table], packet)
        if flow is None:
            break
        for action in flow.instructions.actions:
            _apply(action, packet, sent)
        written = flow.instructions.metadata
        if written is not None:
            packet["metadata"] = packet["metadata"] & ~written.mask | written.value
        table = flow.instructions.goto
    return sent


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
        case Bits() | Flags():
            return bool(value & wanted.mask == wanted.value)
        case IPv4Network() | IPv6Network():
            return value in wanted
        case str() if "/" in wanted:
            mac, mask = (int.from_bytes(mac_bytes(part)) for part in wanted.split("/"))
            return int.from_bytes(mac_bytes(value)) & mask == mac
        case _:
            return bool(value == wanted)


def _apply(action: Action, packet: Packet, sent: list[Sent]) -> None:
    match action:
        case Output():
            sent.append((action.port, {k: v for k, v in packet.items() if k != "metadata"}))
        case OutputFirst():
            sent.append((action.ports[0], {k: v for k, v in packet.items() if k != "metadata"}))
        case PushVlan():
            packet["vlan_vid"] = 0
        case PopVlan():
            del packet["vlan_vid"]
        case SetField():
            packet[action.name] = action.value
        case Move():
            packet[action.destination] = packet[action.source]
