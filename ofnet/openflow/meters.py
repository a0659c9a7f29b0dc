"""Meters: what limits packets, as OpenFlow 1.3 has them. Pure.

`ofnet.pipelines.stages` makes those of ports, `ofnet.pipelines.policy` those of reports to the
agent; `ofnet.openflow.actions.Instructions` have them, `ofnet.channel.meter_wire` encodes and reads
them.
"""

import struct
from hashlib import blake2b
from typing import Final, NamedTuple, Self

_INSTRUCTION: Final = struct.Struct(">HHI")
_CONTENT: Final = struct.Struct(">III")
_METER: Final = 6
_BURST: Final = 8000
"""Kbit of a burst unless it is given, as Open vSwitch's own limit has it."""

_REPORTS: Final = 0xFF00
_REPORT_METERS: Final = 0x100
"""The meters of reports have numbers that no port has."""

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
        digest = blake2b(name.encode(), digest_size=4).digest()
        number = _REPORTS + int.from_bytes(digest, "big") % _REPORT_METERS
        return cls(number, REPORT_RATE, REPORT_BURST, packets=True)

    def pack(self) -> bytes:
        """Return the bytes of the instruction."""
        return _INSTRUCTION.pack(_METER, _INSTRUCTION.size, self.id)

    @property
    def content(self) -> bytes:
        """What tells a meter from others, also from one of the same number."""
        return _CONTENT.pack(self.id, self.rate, self.burst) + b"p" * self.packets

    def __str__(self) -> str:
        return f"meter:{self.id}"
