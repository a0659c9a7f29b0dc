"""Probes of tunnels: a switch sends back what the agent of another host sends to it. Pure.

A question arrives with a VNI of its own, and leaves with that of answers by the port that it came
by; an answer goes to the agent (`netplugin.bridges.vxlan.tunnel_probes`). So both directions of a
tunnel are tried by packets of the tunnel itself, the agent of the other host has no work with it,
and its restart is no loss. Pods cannot send such packets: the VNI of what they send is their
network's.
"""

import struct
from collections.abc import Iterator
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow.actions import (
    PORT_IN_PORT,
    TO_CONTROLLER,
    Instructions,
    Output,
    PacketAction,
    SetField,
)
from ofnet.openflow.match import Match
from ofnet.tables import Priority, TableId

ASKED: Final = 0xFFFFFE
ANSWERED: Final = 0xFFFFFF
"""VNIs of questions and answers, the highest there are: no network has them."""

_HEADER: Final = struct.Struct(">6s6sHQI")
"""Both MACs, the Ethernet type, a number of the run of an agent, the number of a question."""
_MAC: Final = bytes.fromhex("02021d1e0001")
_ETHER_TYPE: Final = 0x88B5
"""Local experimental Ethernet type 1 (IEEE 802)."""
SHORTEST: Final = 60


def flows() -> Iterator[Flow]:
    """Yield the flows that answer questions, and bring answers to the agent."""
    back = Instructions((SetField("tunnel_id", ANSWERED), Output(PORT_IN_PORT)))
    for vni, instructions in ((ASKED, back), (ANSWERED, TO_CONTROLLER)):
        match = Match(tunnel_id=vni)
        yield Flow(ObjectKind.PIPELINE, TableId.VLAN, Priority.ABOVE_MATCH, match, instructions)


def question(run: int, number: int, size: int) -> bytes:
    """Return a frame of a number of bytes, at least `SHORTEST`."""
    head = _HEADER.pack(_MAC, _MAC, _ETHER_TYPE, run, number)
    return head + bytes(max(size, SHORTEST) - len(head))


def actions(ofport: int) -> tuple[PacketAction, ...]:
    """Return the actions that send a question by the port of a tunnel."""
    return SetField("tunnel_id", ASKED), Output(ofport)


def answer_of(run: int, frame: bytes) -> int | None:
    """Return the number of the question that a frame answers; None if it is not of this run."""
    if len(frame) < _HEADER.size:
        return None
    _, _, kind, of_run, number = _HEADER.unpack_from(frame)
    return int(number) if (kind, of_run) == (_ETHER_TYPE, run) else None
