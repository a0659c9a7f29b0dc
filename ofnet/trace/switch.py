"""A packet as Open vSwitch reads it, and its answer to `ofproto/trace` (ovs-vswitchd(8)). Pure.

The answer names each flow that the packet meets, with its cookie, which is a digest of its content
(`ofnet.flows`). So a look-up is as wanted exactly if the cookies are equal.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ofnet.openflow.fields import CtState
from ofnet.trace.evaluator import PacketFields
from ofnet.trace.tracking import LookedUp

NAMES: Final[Mapping[str, str]] = {
    "eth_src": "dl_src",
    "eth_dst": "dl_dst",
    "eth_type": "dl_type",
    "ip_proto": "nw_proto",
    "ipv4_src": "nw_src",
    "ipv4_dst": "nw_dst",
    "tunnel_id": "tun_id",
}
"""Open vSwitch's names of fields where they differ from `ofnet`'s."""

_FIRST: Final = ("eth_type", "ip_proto", "icmp_type", "icmpv6_type")
_HIT: Final = re.compile(r" *(\d+)\. (.*?)(?:, )?priority (\d+)(?:, cookie (0x[0-9a-f]+))?")
_MISS: Final = re.compile(r" *(\d+)\. No match\.")
_RESUMED: Final = "===="


class Hit(NamedTuple):
    """A look-up as the switch did it; without a flow the cookie is None, and the text "".

    `flow` is the table, the priority and the match.
    """

    table: int
    cookie: int | None
    priority: int = 0
    flow: str = ""


class TraceDifference(NamedTuple):
    """Where the switch leaves the wanted way: the wanted look-up, and the switch's, if any."""

    wanted: LookedUp
    found: Hit | None


def text(packet: PacketFields) -> str:
    """Return a packet as Open vSwitch reads it. Raises ValueError for more than one tag."""
    if len(packet.tags) > 1:
        raise ValueError("Open vSwitch reads packets with one VLAN tag at most")
    # a field can be set only after what it depends on
    first = [(name, packet.fields[name]) for name in _FIRST if name in packet.fields]
    ordered = [*first, *(one for one in packet.fields.items() if one[0] not in _FIRST)]
    parts = [f"{NAMES.get(name, name)}={_value(name, one)}" for name, one in ordered]
    return ",".join([*parts, *(f"dl_vlan={tag}" for tag in packet.tags)])


def _value(name: str, value: object) -> str:
    if name == "ct_state" and isinstance(value, int):
        return str(CtState(value, value)).replace("+", "|").removeprefix("|") or "0"
    return str(value)


def command(bridge: str, stretch: Sequence[LookedUp], *, resumed: bool) -> tuple[str, ...]:
    """Return the words that ask a switch for a stretch of look-ups; it injects no packet."""
    first = stretch[0]
    if not resumed:
        return "ofproto/trace", bridge, text(first.packet)
    return "ofproto/trace-packet-out", bridge, text(first.packet), f"resubmit(,{first.table:d})"


def hits(answer: str) -> list[Hit]:
    """Return the look-ups in an answer, up to the first pass of connection tracking."""
    found = []
    for line in answer.splitlines():
        if line.startswith(_RESUMED):
            break
        if hit := _HIT.fullmatch(line):
            cookie = int(hit[4], 0) if hit[4] else 0
            flow = f"table={hit[1]}, priority={hit[3]}" + (f",{hit[2]}" if hit[2] else "")
            found.append(Hit(int(hit[1]), cookie, int(hit[3]), flow))
        elif miss := _MISS.fullmatch(line):
            found.append(Hit(int(miss[1]), None))
    return found


def refusal(answer: str) -> str:
    """Return why a switch sends nothing of a packet, by its own remarks; "" if it sends something.

    That is for a packet whose flows send it somewhere: a port may be gone, or a tunnel without way.
    """
    first = answer.partition(_RESUMED)[0]
    if not re.search(r"^Datapath actions: drop$", first, re.MULTILINE):
        return ""
    remarks = re.findall(r"^ *>> *(.+?) *$", first, re.MULTILINE)
    return remarks[-1] if remarks else "no reason given"


def difference(wanted: Iterable[LookedUp], found: Sequence[Hit]) -> TraceDifference | None:
    """Return the first look-up in which a switch does not do what is wanted.

    Where it may choose among flows that do different things, and chose another, its way is its own.
    """
    for at, one in enumerate(wanted):
        cookie = one.flow.cookie if one.flow is not None else None
        hit = found[at] if at < len(found) else None
        if hit is None or hit.table != one.table:
            return TraceDifference(one, hit)
        chosen = next((other for other in one.others if other.cookie == hit.cookie), None)
        if chosen is None and hit.cookie != cookie:
            return TraceDifference(one, hit)
        if chosen is not None and one.flow and chosen.instructions != one.flow.instructions:
            return None
    return None
