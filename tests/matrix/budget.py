"""How much time there is: what is begun, and when it has to end. Pure; the time is an argument."""

from dataclasses import dataclass
from typing import Final

SETUP: Final = 8
"""The minutes that it takes to make a root and to set it up."""
_GRACE: Final = 180
"""Seconds before the end that belong to what has to be cleaned up."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Time until a moment of the monotonic clock; all the time that is wanted without one."""

    until: float | None

    @property
    def limited(self) -> bool:
        """Tell whether time is limited."""
        return self.until is not None

    def has_room(self, now: float, minutes: int) -> bool:
        """Tell whether something that takes minutes may begin."""
        return self.until is None or now + minutes * 60 + _GRACE <= self.until

    def seconds(self, now: float) -> int:
        """Return the seconds after which what begins now is ended, at least 1; 0 for never."""
        return 0 if self.until is None else max(1, int(self.until - now) - _GRACE)
