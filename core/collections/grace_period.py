"""Keys that were missing in every scan for a grace period (pure; the caller passes the time).

A scan for leaked state reports its suspects. A suspect is due once it was reported by that scan and
all scans before it for a grace period. Used by netmaster for dead hosts and by the agent for
garbage collection of endpoints.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

K = TypeVar("K")


class GracePeriod(Generic[K]):
    """The suspects of every scan since the last reset, and when each was first seen."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._since: dict[K, float] = {}

    def observe(self, suspects: Iterable[K], now: float) -> list[K]:
        """Record the suspects of a scan at a monotonic time; return those that are due."""
        known = self._since
        # A suspect that this scan does not report is dropped: it was seen alive, so its grace
        # period starts again if it goes missing later.
        self._since = {key: known.get(key, now) for key in suspects}
        # At least two scans, even with a grace period of 0: one scan may run in the middle of an
        # addition or a removal, when half of the state is missing for a moment.
        return [
            key for key, since in self._since.items() if key in known and since + self._grace <= now
        ]

    def reset(self) -> None:
        """Start again after a failed scan.

        What a scan could not read is unknown, not missing, so time without a scan never counts.
        """
        self._since = {}
