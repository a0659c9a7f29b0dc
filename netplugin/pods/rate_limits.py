"""Rate limits of pods: a group's bandwidth as Open vSwitch's, and the one that counts (pure).

Open vSwitch drops packets that arrive at a port above a rate in kbit/s, beyond a burst in kbit. A
group's bandwidth is text as the user wrote it, its burst a number of kbit
(docs/original/misc-host.md).
"""

import re
from typing import Final

_BANDWIDTH: Final = re.compile(r"([0-9]+).*?([kmg])", re.IGNORECASE)
_DIGITS: Final = 15
"""Of a rate that are read: more of them are beyond the largest value anyway."""
MAX_RATE: Final = 2**32 - 1
"""The largest value of the column; a higher rate is no limit in practice."""
_FACTORS: Final = {"k": 1024, "m": 1024**2, "g": 1024**3}


def rate_of(bandwidth: str) -> int:
    """Return the rate in kbit/s of `10 mbps` or the like; 0, no limit, for what has no unit.

    A letter stands for powers of 1024, and 1000 bits are a kbit (`netutils.go: ConvertBandwidth`).
    """
    found = _BANDWIDTH.search(bandwidth)
    if found is None:
        return 0
    number = int(found[1].lstrip("0")[:_DIGITS] or 0)
    return min(number * _FACTORS[found[2].lower()] // 1000, MAX_RATE)


def stricter(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Return the limit of the lower rate, with its burst; `other` if there is no limit at all."""
    return min((limit for limit in (one, other) if limit[0]), default=other)
