"""Meters: what limits packets, as OpenFlow 1.3 has them. Pure.

`ofnet.pipelines.packet_path.stages` makes those of ports, `ofnet.pipelines.features.contiv_policy`
those of reports to the agent; `ofnet.openflow.actions.Instructions` have them,
`ofnet.channel.meter_wire` encodes and reads them.
"""

import struct
from typing import Final, NamedTuple, Self

from ofnet import digests

_INSTRUCTION: Final = struct.Struct(">HHI")
_CONTENT: Final = struct.Struct(">III")
_METER: Final = 6
_BURST: Final = 8000
"""Kbit of a burst unless it is given, as Open vSwitch's own limit has it."""

_REPORTS: Final = 0xFF00
_REPORT_METERS: Final = 0x100
"""The meters of reports have numbers that no port has."""

_DROPS: Final = 0x8000
"""The meters of reports of drops begin here: as many, of numbers that only tunnels' ports have.

No packet from a tunnel passes a meter.
"""

DROP_RATE: Final = 20
DROP_BURST: Final = 10_000
"""Dropped packets a second, and at once, that flows with one meter report to the agent."""

REPORT_RATE: Final = 20
REPORT_BURST: Final = 100
"""Packets a second, and at once, that flows with one meter report to the agent."""


class Meter(NamedTuple):
    """Drops packets above `rate` kbit/s, beyond bursts of `burst` kbit; `id` is its port's.

    One that counts `packets` has rate and burst in packets.
    """

    id: int
    rate: int
    burst: int
    packets: bool = False

    @classmethod
    def of_port(cls, ofport: int, rate: int, burst: int) -> Self | None:
        """Return the meter of a port's limit; None for a rate of 0, which is no limit."""
        return cls(ofport, rate, burst or _BURST) if rate else None

    @classmethod
    def of_reports(cls, name: str) -> Self:
        """Return the meter of what is reported for an object; some objects share one."""
        return cls(_REPORTS + _shared(name.encode()), REPORT_RATE, REPORT_BURST, packets=True)

    @classmethod
    def of_drops(cls, name: bytes) -> Self:
        """Return the meter of what a flow drops; some flows share one."""
        return cls(_DROPS + _shared(name), DROP_RATE, DROP_BURST, packets=True)

    @property
    def of_drop(self) -> bool:
        """Whether it limits the reports of what flows drop."""
        return self.packets and _DROPS <= self.id < _DROPS + _REPORT_METERS

    def pack(self) -> bytes:
        """Return the bytes of the instruction."""
        return _INSTRUCTION.pack(_METER, _INSTRUCTION.size, self.id)

    @property
    def content(self) -> bytes:
        """What tells a meter from others, also from one of the same number."""
        return _CONTENT.pack(self.id, self.rate, self.burst) + b"p" * self.packets

    def __str__(self) -> str:
        return f"meter:{self.id}"


def _shared(name: bytes) -> int:
    """Return one of the numbers of a range of meters that names share."""
    return digests.number(name) % _REPORT_METERS
