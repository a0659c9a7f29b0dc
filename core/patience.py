"""How long this process waits for answers: `CONTIV_PATIENCE` times as long as on a usual machine.

In comes a number of seconds that some part waits for another at most, out goes the number on this
machine. One factor for all of them, since a slow host (an emulated processor, a disk that many
share) is slow in all it does. Periods, pauses and what a protocol or another program limits do not
ask here: docs/flags.md tells which those are.

The factor is a variable and no flag, because it is read when modules are imported: limits are
constants of the modules that wait.
"""

import math
import os
from typing import Final

VARIABLE: Final = "CONTIV_PATIENCE"
LARGEST: Final = 20.0


def factor_of(text: str | None) -> float:
    """Return the factor that a value of the variable names, 1 without one. Raises ValueError."""
    if not text:
        return 1.0
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 1 <= factor <= LARGEST:
        raise ValueError(f"{VARIABLE} is a number between 1 and {LARGEST:g}, got {text[:80]!r}")
    return factor


def patient(seconds: float) -> float:
    """Return for how long to wait on this machine for what takes a usual one so long at most."""
    return seconds * FACTOR


def _of_this_process() -> float:
    try:
        return factor_of(os.environ.get(VARIABLE))
    except ValueError:
        # an import must not fail: the daemons refuse the value when they read their settings
        return 1.0


FACTOR: Final = _of_this_process()
