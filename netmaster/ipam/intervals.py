"""Intervals of whole numbers, each with an owner: who overlaps a given one.

Sorted by where they begin, and beside each how far those up to it reach, so that a question costs
a binary search and the answer. They may overlap each other; where none do, as the subnets of a
tenant's networks, adding and removing one changes nothing but its own place.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

Interval = tuple[int, int]
"""First and last number."""


class Intervals:
    """Intervals and their owners; an owner may have several."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int, str]] = []
        self._reach: list[int] = []

    def add(self, interval: Interval, owner: str) -> None:
        """Note an interval."""
        span = (*interval, owner)
        index = bisect_left(self._spans, span)
        self._spans.insert(index, span)
        self._reach.insert(index, interval[1])
        self._mend(index)

    def remove(self, interval: Interval, owner: str) -> None:
        """Forget an interval that was noted."""
        index = bisect_left(self._spans, (*interval, owner))
        del self._spans[index], self._reach[index]
        self._mend(index)

    def overlapping(self, interval: Interval) -> Iterator[str]:
        """Yield the owners of the intervals that share a number with one."""
        first, last = interval
        index = bisect_right(self._spans, last, key=lambda span: span[0]) - 1
        while index >= 0 and self._reach[index] >= first:
            if self._spans[index][1] >= first:
                yield self._spans[index][2]
            index -= 1

    def _mend(self, index: int) -> None:
        """Bring the reaches up to date from a place on, as far as they change."""
        for place in range(index, len(self._spans)):
            before = self._reach[place - 1] if place else -1
            reach = max(before, self._spans[place][1])
            if place > index and reach == self._reach[place]:
                return
            self._reach[place] = reach
