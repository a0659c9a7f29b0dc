"""The bits of the metadata register, the only state passed between tables.

No NXM register is used. The layout is the original's, with bits 40 to 42 added (bit 31 and bits
43-63 are free).
"""

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
        return "".join(
            ("+" if self.value & bit else "-") + name
            for bit, name in _FLAG_NAMES.items()
            if self.mask & bit
        )


_FLAG_NAMES: Final = {1: "fin", 2: "syn", 4: "rst", 8: "psh", 16: "ack", 32: "urg"}


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
"""Set for packets to an address of a host, a master or the store (`ofnet.pipelines.pod_guard`)."""

FROM_HOST: Final = Field(41, 1)
"""Set for packets that the host itself sends by its interface on an infra network."""

TO_HOST: Final = Field(42, 1)
"""Set for packets of a pod's interface to its host, which leave by table 8 alone."""


def _hex(value: int) -> str:
    return f"{value:#x}" if value else "0"
