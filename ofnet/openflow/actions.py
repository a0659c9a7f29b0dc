"""Actions and instructions of flows: frozen values with their OpenFlow bytes and OVS text.

A table's declaration (`ofnet.tables`) lists actions by their `name`.
"""

import struct
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from typing import ClassVar, Final

from ofnet.openflow import oxm
from ofnet.openflow.fields import Bits
from ofnet.openflow.match import PADDING

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
_RESUBMIT: Final = struct.Struct(">HHIHHB3x")
_SAME_PORT: Final = 0xFFF8
_NICIRA: Final = 0x00002320
_IN_PORT: Final = 0x00000002
"""Open vSwitch's header of a field that holds a port."""

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


@dataclass(frozen=True, slots=True)
class SetField:
    """Write a header field; `name` is the field's name in `oxm.FIELDS`."""

    name: str
    value: int | str | IPv4Address | IPv6Address

    def pack(self) -> bytes:
        """Return the action's bytes."""
        field = oxm.FIELDS[self.name].pack(self.value)
        length = 4 + len(field)
        return _HEAD.pack(25, length + -length % 8) + field + PADDING[length % 8]

    def __str__(self) -> str:
        field = oxm.FIELDS[self.name]
        value = self.value
        if self.name == "vlan_vid" and isinstance(value, int):
            value |= oxm.VLAN_PRESENT
        return f"set_field:{field.text(value)}->{field.set_name}"


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
    "ipv6_src": (oxm.header(26, 16), 128, "NXM_NX_IPV6_SRC"),
    "ipv6_dst": (oxm.header(27, 16), 128, "NXM_NX_IPV6_DST"),
}
"""Header, size in bits and Open vSwitch's name of the fields that can be copied."""


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Resume a packet-out in a table, with metadata (NXAST_RESUBMIT_TABLE).

    For packet-outs only: flows go to tables by their instructions.
    """

    name: ClassVar = "resubmit"

    table: int
    metadata: Bits

    def pack(self) -> bytes:
        """Return the bytes of two actions: the metadata, all of it, then the table."""
        written = _HEAD.pack(25, 16) + oxm.header(2, 8) + self.metadata.value.to_bytes(8, "big")
        return written + _RESUBMIT.pack(0xFFFF, 16, _NICIRA, 14, _SAME_PORT, self.table)

    def __str__(self) -> str:
        return f"set_field:{self.metadata.value:#x}->metadata,resubmit(,{self.table:d})"


Action = Output | OutputFirst | PushVlan | PopVlan | SetField | Move
PacketAction = Action | Resubmit
"""An action of a packet-out."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """What happens to a matching packet, in OpenFlow's order; nothing at all means drop.

    Packed once, when made, because flows share them.
    """

    actions: tuple[Action, ...] = ()
    metadata: Bits | None = None
    goto: int | None = None
    names: frozenset[str] = field(init=False, compare=False, repr=False)
    """The names of the actions, as tables declare them."""

    wire: bytes = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        out = b""
        if self.actions:
            body = b"".join([action.pack() for action in self.actions])
            out = _APPLY.pack(4, 8 + len(body)) + body
        if self.metadata is not None:
            out += _METADATA.pack(2, 24, self.metadata.value, self.metadata.mask)
        if self.goto is not None:
            out += _GOTO.pack(1, 8, self.goto)
        object.__setattr__(self, "wire", out)
        object.__setattr__(self, "names", _names(tuple([action.name for action in self.actions])))

    def __str__(self) -> str:
        parts = [str(action) for action in self.actions]
        if self.metadata is not None:
            parts.append(f"write_metadata:{self.metadata}")
        if self.goto is not None:
            parts.append(f"goto_table:{self.goto:d}")
        return ",".join(parts) or "drop"


@cache
def _names(names: tuple[str, ...]) -> frozenset[str]:
    # cached: tens of thousands of instructions share a dozen sets, of 200 bytes each
    return frozenset(names)


DROP: Final = Instructions()


def goto(table: int) -> Instructions:
    """Return the instructions that only send the packet on."""
    return Instructions(goto=table)


def tag(vlan: int) -> tuple[PushVlan, SetField]:
    """Return the two actions that put a packet on a VLAN."""
    return PushVlan(), SetField("vlan_vid", vlan)


TO_CONTROLLER: Final = Instructions(actions=(Output(PORT_CONTROLLER),))
