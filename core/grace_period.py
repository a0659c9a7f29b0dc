"""What has been missing long enough to be taken for gone (pure; times are the caller's).

Whoever looks for leaked state says at each look what it suspects. What was suspected in one look
and in all since, for a grace period, is due: by two observations at least, and never across a look
that could not be made (`forget`). Used by netmaster for hosts and by the agent for endpoints.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

K = TypeVar("K")


class GracePeriod(Generic[K]):
    """What was suspected in every look since the last gap, and since when."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._since: dict[K, float] = {}

    def look(self, found: Iterable[K], at: float) -> list[K]:
        """Take the suspects of a look at a monotonic time; return those that are due."""
        known = self._since
        self._since = {one: known.get(one, at) for one in found}
        return [
            one for one, since in self._since.items() if one in known and since + self._grace <= at
        ]

    def forget(self) -> None:
        """Begin anew: something could not be seen, so nothing is known to have been missing."""
        self._since = {}
