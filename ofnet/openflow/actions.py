"""Actions and instructions of flows: frozen values with their OpenFlow bytes and OVS text.

A table's declaration (`ofnet.tables`) lists actions by their `name`.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from typing import ClassVar, Final, NamedTuple, Self

from ofnet import digests
from ofnet.openflow import oxm
from ofnet.openflow.fields import VRF, Bits, Field
from ofnet.openflow.match import PADDING
from ofnet.openflow.meters import Meter

PORT_IN_PORT: Final = 0xFFFFFFF8
"""The port of origin; a switch ignores an output to that port by its number."""

PORT_TABLE: Final = 0xFFFFFFF9
PORT_NORMAL: Final = 0xFFFFFFFA
PORT_CONTROLLER: Final = 0xFFFFFFFD

_OUTPUT: Final = struct.Struct(">HHIH6x")
_PUSH_VLAN: Final = struct.pack(">HHH2x", 17, 8, oxm.ETH_VLAN)
_POP_VLAN: Final = struct.pack(">HH4x", 18, 8)
_HEAD: Final = struct.Struct(">HH")
_MOVE: Final = struct.Struct(">HHIHHHH4s4s")
_BUNDLE: Final = struct.Struct(">HHIHHHHIHH8x")
_CONNTRACK: Final = struct.Struct(">HHIHHIHB3xH")
_REG_LOAD: Final = struct.Struct(">HHIHH4sQ")
_CONJUNCTION: Final = struct.Struct(">HHIHBBI")
_CT_COMMIT: Final = 1
_CT_CLEAR: Final = struct.pack(">HHIH6x", 0xFFFF, 16, 0x00002320, 43)
_NO_TABLE: Final = 0xFF
_BUNDLE_LOAD: Final = struct.Struct(">HHIHHHHIHHI4x")
NO_PORT: Final = 0xFFFF
"""What Open vSwitch writes for a port where there is none (OFPP_NONE)."""

_NAT: Final = struct.Struct(">HHIH2xHH")
_GROUP: Final = struct.Struct(">HHI")
_RESUBMIT: Final = struct.Struct(">HHIHHB3x")
_SAME_PORT: Final = 0xFFF8
_NICIRA: Final = 0x00002320
_REPORT: Final = struct.Struct(">HHIH6xHHH2xHHI")
_REPORT_LENGTH, _REPORT_METER = 0, 5
REPORTED_BYTES: Final = 128
"""How much of a packet is reported: its headers."""

_IN_PORT: Final = 0x00000002
"""Open vSwitch's header of a field that holds a port."""

METERED: Final = "meter"
"""The name of the instruction that limits a flow's packets, among those of actions."""

_APPLY: Final = struct.Struct(">HH4x")
_METADATA: Final = struct.Struct(">HH4xQQ")
_GOTO: Final = struct.Struct(">HHB3x")


@dataclass(frozen=True, slots=True)
class Output:
    """Send the packet out of a port."""

    name: ClassVar = "output"

    port: int

    def pack(self) -> bytes:
        """Return the action's bytes; the controller gets whole packets, nothing is buffered."""
        return _OUTPUT.pack(0, 16, self.port, 0xFFFF if self.port == PORT_CONTROLLER else 0)

    def __str__(self) -> str:
        match self.port:
            case _ if self.port == PORT_CONTROLLER:
                return "CONTROLLER:65535"
            case _ if self.port == PORT_NORMAL:
                return "NORMAL"
            case _ if self.port == PORT_TABLE:
                return "TABLE"
            case _ if self.port == PORT_IN_PORT:
                return "IN_PORT"
            case _:
                return f"output:{self.port}"


@dataclass(frozen=True, slots=True)
class Report:
    """Send the beginning of the packet to the agent, within a meter (NXAST_CONTROLLER2).

    The packet itself goes on. The meter limits the reports alone.
    """

    name: ClassVar = "report"

    meter: Meter

    def pack(self) -> bytes:
        """Return the action's bytes."""
        return _REPORT.pack(
            *(0xFFFF, _REPORT.size, _NICIRA, 37),
            *(_REPORT_LENGTH, 6, REPORTED_BYTES),
            *(_REPORT_METER, 8, self.meter.id),
        )

    def __str__(self) -> str:
        return f"controller(max_len={REPORTED_BYTES},meter_id={self.meter.id})"


@dataclass(frozen=True, slots=True)
class OutputFirst:
    """Send the packet out of the first of some ports that works (Open vSwitch's NXAST_BUNDLE).

    The switch checks links and LACP itself for each packet, so a NIC that fails changes no flow.
    """

    name: ClassVar = "output"

    ports: tuple[int, ...]

    def pack(self) -> bytes:
        """Return the action's bytes."""
        length = _BUNDLE.size + 2 * len(self.ports)
        padding = PADDING[length % 8]
        head = (0xFFFF, length + len(padding), _NICIRA, 12, 0, 0, 0, _IN_PORT, len(self.ports), 0)
        return _BUNDLE.pack(*head) + struct.pack(f">{len(self.ports)}H", *self.ports) + padding

    def __str__(self) -> str:
        ports = ",".join(map(str, self.ports))
        return f"bundle(eth_src,0,active_backup,ofport,members:{ports})"


@dataclass(frozen=True, slots=True)
class LoadFirst:
    """Write the number of the first port that works into metadata (Open vSwitch's bundle_load).

    `NO_PORT` if none of them works: it is down, or its device is gone.
    """

    name: ClassVar = "bundle_load"

    ports: tuple[int, ...]
    destination: Field

    def pack(self) -> bytes:
        """Return the action's bytes."""
        length = _BUNDLE_LOAD.size + 2 * len(self.ports)
        padding = PADDING[length % 8]
        bits = self.destination.shift << 6 | self.destination.width - 1
        into = int.from_bytes(_METADATA_FIELD, "big")
        head = (0xFFFF, length + len(padding), _NICIRA, 13, 0, 0, 0, _IN_PORT)
        body = _BUNDLE_LOAD.pack(*head, len(self.ports), bits, into)
        return body + struct.pack(f">{len(self.ports)}H", *self.ports) + padding

    def __str__(self) -> str:
        first, last = self.destination.shift, self.destination.shift + self.destination.width - 1
        into = f"OXM_OF_METADATA[{first}..{last}]"
        ports = ",".join(map(str, self.ports))
        return f"bundle_load(eth_src,0,active_backup,ofport,{into},members:{ports})"


@dataclass(frozen=True, slots=True)
class PushVlan:
    """Put an 802.1Q tag on the packet; a SetField of `vlan_vid` sets its VLAN."""

    name: ClassVar = "push_vlan"

    def pack(self) -> bytes:
        """Return the action's bytes."""
        return _PUSH_VLAN

    def __str__(self) -> str:
        return "push_vlan:0x8100"


@dataclass(frozen=True, slots=True)
class PopVlan:
    """Remove the 802.1Q tag."""

    name: ClassVar = "pop_vlan"

    def pack(self) -> bytes:
        """Return the action's bytes."""
        return _POP_VLAN

    def __str__(self) -> str:
        return "pop_vlan"


FieldValue = int | str | IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class SetField:
    """Write a header field; `name` is the field's name in `oxm.FIELDS`."""

    name: str
    value: FieldValue

    def pack(self) -> bytes:
        """Return the action's bytes."""
        field = oxm.FIELDS[self.name].pack(self.value)
        head, padding = _set_frame(len(field))
        return head + field + padding

    def __str__(self) -> str:
        field = oxm.FIELDS[self.name]
        value = self.value
        if self.name == "vlan_vid" and isinstance(value, int):
            value |= oxm.VLAN_PRESENT
        return f"set_field:{field.text(value)}->{field.set_name}"


@cache
def _set_frame(size: int) -> tuple[bytes, bytes]:
    """Return what stands before and after a field of so many bytes in a `SetField`."""
    length = 4 + size
    return _HEAD.pack(25, length + -length % 8), PADDING[length % 8]


@dataclass(frozen=True, slots=True)
class Move:
    """Copy one header field into another of the same size (Open vSwitch's NXAST_REG_MOVE)."""

    name: ClassVar = "move"

    source: str
    destination: str

    def pack(self) -> bytes:
        """Return the action's bytes."""
        source, bits, _ = _MOVABLE[self.source]
        destination, _, _ = _MOVABLE[self.destination]
        return _MOVE.pack(0xFFFF, 24, _NICIRA, 6, bits, 0, 0, source, destination)

    def __str__(self) -> str:
        return f"move:{_MOVABLE[self.source][2]}[]->{_MOVABLE[self.destination][2]}[]"


_MOVABLE: Final = {
    "eth_src": (oxm.header(4, 6), 48, "NXM_OF_ETH_SRC"),
    "eth_dst": (oxm.header(3, 6), 48, "NXM_OF_ETH_DST"),
    "arp_spa": (oxm.header(22, 4), 32, "NXM_OF_ARP_SPA"),
    "arp_tpa": (oxm.header(23, 4), 32, "NXM_OF_ARP_TPA"),
    "arp_sha": (oxm.header(24, 6), 48, "NXM_NX_ARP_SHA"),
    "arp_tha": (oxm.header(25, 6), 48, "NXM_NX_ARP_THA"),
    "ipv4_src": (oxm.header(11, 4), 32, "NXM_OF_IP_SRC"),
    "ipv4_dst": (oxm.header(12, 4), 32, "NXM_OF_IP_DST"),
    "ipv6_src": (oxm.header(26, 16), 128, "NXM_NX_IPV6_SRC"),
    "ipv6_dst": (oxm.header(27, 16), 128, "NXM_NX_IPV6_DST"),
    "ct_nw_dst": (oxm.header(121, 4, oxm_class=oxm.NICIRA_CLASS), 32, "NXM_NX_CT_NW_DST"),
    "ct_ipv6_dst": (oxm.header(123, 16, oxm_class=oxm.NICIRA_CLASS), 128, "NXM_NX_CT_IPV6_DST"),
}
"""Header, size in bits and Open vSwitch's name of the fields that can be copied."""


@dataclass(frozen=True, slots=True)
class Conntrack:
    """Send the packet through connection tracking, to go on in a table (Open vSwitch's NXAST_CT).

    There it matches `ct_state`. In a zone connections are known that were tracked in that zone.
    `commit` makes a new connection known. `nat` translates its packets and those that follow.
    What follows this action, or a `goto`, would get a second, untracked copy of the packet.
    """

    name: ClassVar = "ct"

    table: int
    zone: int
    commit: bool = False
    nat: "Nat | None" = None

    def pack(self) -> bytes:
        """Return the action's bytes."""
        nested = self.nat.pack() if self.nat is not None else b""
        length = _CONNTRACK.size + len(nested)
        head = (0xFFFF, length, _NICIRA, 35, int(self.commit), 0, self.zone, self.table, 0)
        return _CONNTRACK.pack(*head) + nested

    def __str__(self) -> str:
        commit = "commit," if self.commit else ""
        nat = f",{self.nat}" if self.nat is not None else ""
        return f"ct({commit}table={self.table:d},zone={self.zone}{nat})"


@dataclass(frozen=True, slots=True)
class ConntrackCommit:
    """Enter the packet's connection into a zone (Open vSwitch's NXAST_CT with `commit`).

    The packet itself goes on with the next action, untracked.
    """

    name: ClassVar = "ct_commit"

    zone: int

    def pack(self) -> bytes:
        """Return the action's bytes."""
        return _CONNTRACK.pack(0xFFFF, 24, _NICIRA, 35, _CT_COMMIT, 0, self.zone, _NO_TABLE, 0)

    def __str__(self) -> str:
        return f"ct(commit,zone={self.zone})"


@dataclass(frozen=True, slots=True)
class ConntrackNote:
    """Let a zone see a packet of a connection that it knows (Open vSwitch's NXAST_CT).

    The packet goes on with the next action, untracked. One of no known connection changes nothing.
    """

    name: ClassVar = "ct_note"

    zone: int

    def pack(self) -> bytes:
        """Return the action's bytes."""
        return _CONNTRACK.pack(0xFFFF, 24, _NICIRA, 35, 0, 0, self.zone, _NO_TABLE, 0)

    def __str__(self) -> str:
        return f"ct(zone={self.zone})"


@dataclass(frozen=True, slots=True)
class ConntrackClear:
    """Forget what connection tracking found of the packet (Open vSwitch's NXAST_CT_CLEAR)."""

    name: ClassVar = "ct_clear"

    def pack(self) -> bytes:
        """Return the action's bytes."""
        return _CT_CLEAR

    def __str__(self) -> str:
        return "ct_clear"


@dataclass(frozen=True, slots=True)
class Load:
    """Write metadata before the actions that follow (Open vSwitch's NXAST_REG_LOAD).

    The metadata of `Instructions` is written after all actions, too late for `Conntrack`.
    """

    name: ClassVar = "load"

    field: Field
    value: int

    def pack(self) -> bytes:
        """Return the action's bytes."""
        place = self.field.shift << 6 | self.field.width - 1
        return _REG_LOAD.pack(0xFFFF, 24, _NICIRA, 7, place, oxm.header(2, 8), self.value)

    def __str__(self) -> str:
        shift, width = self.field.shift, self.field.width
        bits = f"{shift}" if width == 1 else f"{shift}..{shift + width - 1}"
        return f"load:{self.value:#x}->OXM_OF_METADATA[{bits}]"


@dataclass(frozen=True, slots=True)
class Nat:
    """What connection tracking translates: one end, to an address and, if given, to a port.

    Without an end packets are translated as their connection was when it was committed. An end
    without an address keeps it, and changes the port only if the answers could be mistaken for
    those of another connection.
    """

    end: str = ""
    """`src` or `dst`."""

    address: IPv4Address | IPv6Address | None = None
    port: int = 0

    def pack(self) -> bytes:
        """Return the action's bytes."""
        flags = {"": 0, "src": 1, "dst": 2}[self.end]
        present, ranges = 0, b""
        if self.address is not None:
            present = 1 if isinstance(self.address, IPv4Address) else 4
            ranges = self.address.packed
        if self.port:
            present |= 16
            ranges += self.port.to_bytes(2, "big")
        length = _NAT.size + len(ranges)
        padding = PADDING[length % 8]
        head = (0xFFFF, length + len(padding), _NICIRA, 36, flags, present)
        return _NAT.pack(*head) + ranges + padding

    def __str__(self) -> str:
        if self.address is None:
            return f"nat({self.end})" if self.end else "nat"
        port = f":{self.port}" if self.port else ""
        bracketed = port and isinstance(self.address, IPv6Address)
        return f"nat({self.end}={f'[{self.address}]' if bracketed else self.address}{port})"


AS_COMMITTED: Final = Nat()


@dataclass(frozen=True, slots=True)
class Bucket:
    """One choice of a group; the greater its weight, the more connections get it."""

    weight: int
    actions: tuple["Action", ...]

    def __str__(self) -> str:
        actions = ",".join(map(str, self.actions))
        return f"bucket=weight:{self.weight},actions={actions}"


@dataclass(frozen=True, slots=True)
class SelectGroup:
    """Let the switch choose one of several buckets for each connection (OpenFlow's select group).

    The group's number is a digest of its buckets: two groups are equal if their numbers are, and
    a dump of numbers is enough for a comparison. So a group never changes; a flow with other
    buckets uses another group. A group whose number another has gets another `turn`, and by it
    another number (`ofnet.group_numbers`).
    """

    name: ClassVar = "group"

    buckets: tuple[Bucket, ...]
    turn: int = 0
    id: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        packed = [
            struct.pack(">HH", bucket.weight, len(bucket.actions))
            + b"".join([action.pack() for action in bucket.actions])
            for bucket in self.buckets
        ]
        if self.turn:
            packed.append(struct.pack(">I", self.turn))
        # OpenFlow's own numbers begin at 0xffffff00
        object.__setattr__(self, "id", digests.number(b"".join(packed)) % 0xFFFFFF00)

    def pack(self) -> bytes:
        """Return the action's bytes."""
        return _GROUP.pack(22, 8, self.id)

    def __str__(self) -> str:
        return f"group:{self.id}"


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Resume a packet-out in a table, with metadata (NXAST_RESUBMIT_TABLE)."""

    name: ClassVar = "resubmit"

    table: int
    metadata: Bits

    def pack(self) -> bytes:
        """Return the bytes of two actions: the metadata, all of it, then the table."""
        written = _HEAD.pack(25, 16) + oxm.header(2, 8) + self.metadata.value.to_bytes(8, "big")
        return written + _RESUBMIT.pack(0xFFFF, 16, _NICIRA, 14, _SAME_PORT, self.table)

    def __str__(self) -> str:
        return f"set_field:{self.metadata.value:#x}->metadata,resubmit(,{self.table:d})"


@dataclass(frozen=True, slots=True)
class Deal:
    """Put a number below `count` into register 0, by a hash of the packet's addresses and ports.

    Open vSwitch's NXAST_MULTIPATH, which knows the ports of UDP too.
    """

    name: ClassVar = "deal"

    count: int

    def pack(self) -> bytes:
        """Return the action's bytes."""
        head = (0xFFFF, _MULTIPATH.size, _NICIRA, 10, _PORTS_OF_UDP_TOO)
        return _MULTIPATH.pack(*head, 0, 0, self.count - 1, 0, 31, _REG0)

    def __str__(self) -> str:
        return f"multipath(symmetric_l3l4+udp,0,modulo_n,{self.count},0,NXM_NX_REG0[])"


@dataclass(frozen=True, slots=True)
class Lookup:
    """Look the packet up in a table, then go on here (NXAST_RESUBMIT_TABLE); lower tables as well.

    As the last action it is a `goto`, which leads to higher tables alone.
    """

    name: ClassVar = "lookup"

    table: int

    def pack(self) -> bytes:
        """Return the action's bytes."""
        return _RESUBMIT.pack(0xFFFF, 16, _NICIRA, 14, _SAME_PORT, self.table)

    def __str__(self) -> str:
        return f"resubmit(,{self.table:d})"


@dataclass(frozen=True, slots=True)
class Conjunction:
    """The packet meets one clause of several (NXAST_CONJUNCTION); the first clause is 1.

    A packet that meets all clauses matches `conj_id`. A flow with conjunctions does nothing else.
    """

    name: ClassVar = "conjunction"

    id: int
    clause: int
    clauses: int

    def pack(self) -> bytes:
        """Return the action's bytes."""
        return _CONJUNCTION.pack(0xFFFF, 16, _NICIRA, 34, self.clause - 1, self.clauses, self.id)

    def __str__(self) -> str:
        return f"conjunction({self.id},{self.clause}/{self.clauses})"


@dataclass(frozen=True, slots=True)
class Learn:
    """Remember a choice: add a flow that puts `value` into register 1 (NXAST_LEARN).

    The flow matches packets of this packet's VRF, from its source address to its destination, of a
    protocol and, of TCP and UDP, to a port: 0 for later fragments of datagrams. The switch removes
    it `idle` seconds after the last packet that matched it.
    """

    name: ClassVar = "learn"

    table: int
    priority: int
    cookie: int
    idle: int
    eth_type: int
    protocol: int
    port: int
    value: int

    def pack(self) -> bytes:
        """Return the action's bytes."""
        kept = b"".join(self._matches()) + _number_spec(32, _LOAD, self.value, _REG1)
        length = _LEARN.size + len(kept)
        padding = PADDING[length % 8]
        head = (0xFFFF, length + len(padding), _NICIRA, 16, self.idle, 0, self.priority)
        return _LEARN.pack(*head, self.cookie, 0, self.table, 0, 0) + kept + padding

    def _matches(self) -> tuple[bytes, ...]:
        v6 = self.eth_type == oxm.ETH_IPV6
        source, destination = _IPV6_ENDS if v6 else _IPV4_ENDS
        field = {oxm.PROTO_TCP: _TCP_DST, oxm.PROTO_UDP: _UDP_DST}.get(self.protocol)
        port = () if field is None else (_number_spec(16, 0, self.port, field),)
        size = 128 if v6 else 32
        return (
            _field_spec(VRF.width, _METADATA_FIELD, VRF.shift),
            _number_spec(16, 0, self.eth_type, _ETH_TYPE),
            _number_spec(8, 0, self.protocol, _IP_PROTO),
            _field_spec(size, source),
            _field_spec(size, destination),
            *port,
        )

    def __str__(self) -> str:
        vrf = f"OXM_OF_METADATA[{VRF.shift}..{VRF.shift + VRF.width - 1}]"
        v6 = self.eth_type == oxm.ETH_IPV6
        ends = "NXM_NX_IPV6_SRC[],NXM_NX_IPV6_DST[]" if v6 else "NXM_OF_IP_SRC[],NXM_OF_IP_DST[]"
        field = {oxm.PROTO_TCP: "tcp_dst", oxm.PROTO_UDP: "udp_dst"}.get(self.protocol)
        port = "" if field is None else f"{field}={self.port},"
        return (
            f"learn(table={self.table:d},idle_timeout={self.idle},priority={self.priority:d},"
            f"cookie={self.cookie:#x},{vrf},eth_type={self.eth_type:#x},nw_proto={self.protocol},"
            f"{ends},{port}load:{self.value:#x}->NXM_NX_REG1[])"
        )


def _field_spec(bits: int, field: bytes, offset: int = 0) -> bytes:
    """Return the part of a `Learn` that matches a field with the packet's own value."""
    at = struct.pack(">H", offset)
    return struct.pack(">H", bits) + field + at + field + at


def _number_spec(bits: int, kind: int, value: int, field: bytes) -> bytes:
    """Return the part of a `Learn` that matches or loads a number."""
    number = value.to_bytes((bits + 15) // 16 * 2, "big")
    return struct.pack(">H", bits | kind | _IMMEDIATE) + number + field + bytes(2)


_MULTIPATH: Final = struct.Struct(">HHIHHH2xHHI2xH4s")
_PORTS_OF_UDP_TOO: Final = 3
_LEARN: Final = struct.Struct(">HHIHHHHQHBxHH")
_LOAD: Final = 1 << 11
_IMMEDIATE: Final = 1 << 13
_METADATA_FIELD: Final = oxm.header(2, 8)
_ETH_TYPE: Final = oxm.header(5, 2)
_IP_PROTO: Final = oxm.header(10, 1)
_IPV4_ENDS: Final = (oxm.header(11, 4), oxm.header(12, 4))
_IPV6_ENDS: Final = (oxm.header(26, 16), oxm.header(27, 16))
_TCP_DST: Final = oxm.header(14, 2)
_UDP_DST: Final = oxm.header(16, 2)
_REG0: Final = oxm.header(0, 4, oxm_class=oxm.NICIRA_CLASS)
_REG1: Final = oxm.header(1, 4, oxm_class=oxm.NICIRA_CLASS)

Action = (
    Output
    | Report
    | OutputFirst
    | LoadFirst
    | PushVlan
    | PopVlan
    | SetField
    | Move
    | Conntrack
    | ConntrackCommit
    | ConntrackNote
    | ConntrackClear
    | Load
    | Conjunction
    | SelectGroup
    | Deal
    | Lookup
    | Learn
)
PacketAction = Action | Resubmit
"""An action of a packet-out."""


class _Content(NamedTuple):
    actions: tuple[Action, ...]
    metadata: Bits | None
    goto: int | None
    meter: Meter | None
    names: frozenset[str]
    """The names of the actions, as tables declare them."""

    wire: bytes
    content: bytes
    """The bytes that tell these instructions from all others, the meter's limit among them."""

    group: SelectGroup | None
    """The group that chooses what happens, if one does."""

    meters: tuple[Meter, ...]
    """The meters that packets pass, or reports of them."""


class Instructions(_Content):
    """What happens to a matching packet, in OpenFlow's order; nothing at all means drop.

    Packed once, when made, because flows share them. A tuple for speed (`ofnet.flows`).
    """

    __slots__ = ()

    def __new__(
        cls,
        actions: tuple[Action, ...] = (),
        metadata: Bits | None = None,
        goto: int | None = None,
        meter: Meter | None = None,
    ) -> Self:
        """Pack the instructions, and note what a writer of flows asks each of them for."""
        out = b"" if meter is None else meter.pack()
        names, group = _NO_NAMES, None
        if actions:
            body = b"".join([action.pack() for action in actions])
            out += _APPLY.pack(4, 8 + len(body)) + body
            names = _names(tuple([action.name for action in actions]))
            last = actions[-1]
            group = last if isinstance(last, SelectGroup) else None
        if metadata is not None:
            out += _METADATA.pack(2, 24, metadata.value, metadata.mask)
        if goto is not None:
            out += _GOTO.pack(1, 8, goto)
        if meter is None and Report.name not in names:
            return _new(cls, (actions, metadata, goto, None, names, out, out, group, ()))
        meters = tuple([one.meter for one in actions if isinstance(one, Report)])
        if meter is not None:
            names, meters = _names((*names, METERED)), (meter, *meters)
        content = out + b"".join([one.content for one in meters])
        return _new(cls, (actions, metadata, goto, meter, names, out, content, group, meters))

    def __str__(self) -> str:
        parts = [] if self.meter is None else [str(self.meter)]
        parts += map(str, self.actions)
        if self.metadata is not None:
            parts.append(f"write_metadata:{self.metadata}")
        if self.goto is not None:
            parts.append(f"goto_table:{self.goto:d}")
        return ",".join(parts) or "drop"


def instructions_by(
    before: tuple[Action, ...], name: str, after: tuple[Action, ...]
) -> Callable[[FieldValue], Instructions]:
    """Return what makes the instructions that differ in the value of one `SetField` alone.

    The actions before and after it are packed here, once. Raises ValueError for those that have a
    group or a meter, of which `Instructions` take note.
    """
    names = _names(tuple([one.name for one in (*before, SetField(name, 0), *after)]))
    if not names.isdisjoint({SelectGroup.name, Report.name}):
        raise ValueError("instructions with a group or a meter are made one by one")
    first = b"".join([action.pack() for action in before])
    last = b"".join([action.pack() for action in after])

    def instructions(value: FieldValue) -> Instructions:
        one = SetField(name, value)
        body = first + one.pack() + last
        out = _APPLY.pack(4, 8 + len(body)) + body
        return _new(
            Instructions, ((*before, one, *after), None, None, None, names, out, out, None, ())
        )

    return instructions


@cache
def _names(names: tuple[str, ...]) -> frozenset[str]:
    # cached: tens of thousands of instructions share a dozen sets, of 200 bytes each
    return frozenset(names)


_NO_NAMES: Final = frozenset[str]()
_new: Final = tuple.__new__

DROP: Final = Instructions()


def goto(table: int) -> Instructions:
    """Return the instructions that only send the packet on."""
    return Instructions(goto=table)


def tag(vlan: int) -> tuple[PushVlan, SetField]:
    """Return the two actions that put a packet on a VLAN."""
    return PushVlan(), SetField("vlan_vid", vlan)


TO_CONTROLLER: Final = Instructions(actions=(Output(PORT_CONTROLLER),))
