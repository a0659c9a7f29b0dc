"""Meters: what limits the packets of a port, as OpenFlow 1.3 has them. Pure.

`ofnet.pipelines.stages` makes them, `ofnet.openflow.actions.Instructions` have them,
`ofnet.channel.meter_wire` encodes and reads them.
"""

import struct
from typing import Final, NamedTuple, Self

_INSTRUCTION: Final = struct.Struct(">HHI")
_CONTENT: Final = struct.Struct(">III")
_METER: Final = 6
_BURST: Final = 8000
"""Kbit of a burst unless it is given, as Open vSwitch's own limit has it."""


class Meter(NamedTuple):
    """Drops packets above `rate` kbit/s, beyond bursts of `burst` kbit; `id` is its port's."""

    id: int
    rate: int
    burst: int

    @classmethod
    def of_port(cls, ofport: int, rate: int, burst: int) -> Self | None:
        """Return the meter of a port's limit; None for a rate of 0, which is no limit."""
        return cls(ofport, rate, burst or _BURST) if rate else None

    def pack(self) -> bytes:
        """Return the bytes of the instruction."""
        return _INSTRUCTION.pack(_METER, _INSTRUCTION.size, self.id)

    @property
    def content(self) -> bytes:
        """What tells a meter from others, also from one of the same number."""
        return _CONTENT.pack(*self)

    def __str__(self) -> str:
        return f"meter:{self.id}"
