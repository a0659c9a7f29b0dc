"""The bits of the metadata register, and values under a mask that matches compare with.

Metadata is what tables pass on; registers 0 and 1 are used by the choice of a service's provider,
2 to 4 within the table of rules (`ofnet.pipelines.features.policy_class`, `policy`). The layout is
the original's, with bits 40 to 45 and 48 to 63 added (bits 31, 46 and 47 are free).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


class Bits(NamedTuple):
    """A value under a mask, as OpenFlow writes and matches metadata."""

    value: int
    mask: int

    def __or__(self, other: "Bits") -> "Bits":
        """Return both settings in one; their masks must not overlap."""
        if self.mask & other.mask:
            raise ValueError(f"{self} and {other} claim the same metadata bits")
        return Bits(self.value | other.value, self.mask | other.mask)

    def __str__(self) -> str:
        return f"{_hex(self.value)}/{_hex(self.mask)}"


class Flags(NamedTuple):
    """TCP flags under a mask."""

    value: int
    mask: int

    def __str__(self) -> str:
        return _signed(_FLAG_NAMES, self.value, self.mask)


class CtState(NamedTuple):
    """What connection tracking found about a packet, under a mask: bits `CT_NEW` and so on."""

    value: int
    mask: int

    def __str__(self) -> str:
        return _signed(_CT_STATE_NAMES, self.value, self.mask)


class Ports(NamedTuple):
    """A transport port under a mask."""

    value: int
    mask: int

    def __str__(self) -> str:
        return f"{self.value:#x}/{self.mask:#x}" if self.value else f"0/{self.mask:#x}"


CT_NEW: Final = 0x01
"""The packet would begin a connection."""

CT_ESTABLISHED: Final = 0x02
CT_RELATED: Final = 0x04
CT_REPLY: Final = 0x08
CT_INVALID: Final = 0x10
"""Connection tracking could not tell: a bad checksum, or a fragment whose packet is incomplete."""

CT_TRACKED: Final = 0x20
"""The packet has been through connection tracking; without this bit no other is set."""


class Fragment(NamedTuple):
    """Whether an IP packet is a fragment, and whether the first of its packet, under a mask."""

    value: int
    mask: int

    def __str__(self) -> str:
        return _FRAGMENT_NAMES[self]


FRAGMENT_ANY: Final = Fragment(1, 1)
FRAGMENT_NONE: Final = Fragment(0, 1)
FRAGMENT_FIRST: Final = Fragment(1, 3)
FRAGMENT_LATER: Final = Fragment(3, 3)
"""Has no transport header: its ports read as 0."""

_FRAGMENT_NAMES: Final = {
    FRAGMENT_ANY: "yes",
    FRAGMENT_NONE: "no",
    FRAGMENT_FIRST: "first",
    FRAGMENT_LATER: "later",
}
_FLAG_NAMES: Final = {1: "fin", 2: "syn", 4: "rst", 8: "psh", 16: "ack", 32: "urg"}
_CT_STATE_NAMES: Final = {
    CT_NEW: "new",
    CT_ESTABLISHED: "est",
    CT_RELATED: "rel",
    CT_REPLY: "rpl",
    CT_INVALID: "inv",
    CT_TRACKED: "trk",
    0x40: "snat",
    0x80: "dnat",
}


@dataclass(frozen=True, slots=True)
class Field:
    """Adjacent metadata bits with one meaning."""

    shift: int
    width: int

    @property
    def mask(self) -> int:
        """Return the bits of this field, all set."""
        return ((1 << self.width) - 1) << self.shift

    def put(self, value: int) -> Bits:
        """Return `value` in this field. Raises ValueError if it does not fit."""
        if value < 0 or value >> self.width:
            raise ValueError(f"{value} does not fit into {self.width} metadata bits")
        return Bits(value << self.shift, ((1 << self.width) - 1) << self.shift)


RX_VTEP: Final = Field(0, 1)
"""Set for packets from beyond this host, which must not be flooded back there."""

DESTINATION_GROUP: Final = Field(1, 15)
SOURCE_GROUP: Final = Field(16, 15)

VRF: Final = Field(32, 8)
"""The tenant's routing domain; the number is local to the host."""

MANAGEMENT: Final = Field(40, 1)
"""Set for packets to an address of a host, a master or the store (`features.pod_guard`)."""

FROM_HOST: Final = Field(41, 1)
"""Set for packets that a host itself sends: by its port, or by an infra network's interface."""

TO_HOST: Final = Field(42, 1)
"""Set for packets of a pod's interface to its host, which leave by table 8 alone."""

REASSEMBLED: Final = Field(43, 1)
"""Set for fragments whose packet is complete (`ofnet.pipelines.packet_path.fragments`)."""


JUDGED: Final = Field(44, 1)
"""Set for packets that Kubernetes' policies have passed (`features.network_policy`)."""


FORWARDED: Final = Field(45, 1)
"""Set for packets that a host forwards to a pod here (`features.host_forwarding`)."""


LIVE_PORT: Final = Field(48, 16)
"""The port that the switch chose as working (`ofnet.openflow.actions.LoadFirst`)."""


def _signed(names: Mapping[int, str], value: int, mask: int) -> str:
    return "".join(
        ("+" if value & bit else "-") + name for bit, name in names.items() if mask & bit
    )


def _hex(value: int) -> str:
    return f"{value:#x}" if value else "0"
