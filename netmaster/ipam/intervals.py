"""Intervals of integers, each with an owner: finds the owners that overlap a given interval.

Intervals may overlap each other. A query costs a binary search and the size of its result. The
class is an interval tree flattened into two sorted lists.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

Interval = tuple[int, int]
"""First and last number."""


class Intervals:
    """Intervals and their owners; an owner may have several."""

    # Invariant: `_spans` is sorted by first number, and `_reach[i]` is the highest last number of
    # `_spans[:i + 1]`. So a query walks down from the last interval that begins early enough, and
    # stops at the first index whose reach ends before the queried interval: none below overlaps.
    #
    # Both lists change together. If the intervals of a set do not overlap, as the subnets of one
    # tenant's networks, each reach is the interval's own end and an update changes one entry.

    def __init__(self) -> None:
        self._spans: list[tuple[int, int, str]] = []
        self._reach: list[int] = []

    def add(self, interval: Interval, owner: str) -> None:
        """Add an interval."""
        span = (*interval, owner)
        index = bisect_left(self._spans, span)
        self._spans.insert(index, span)
        self._reach.insert(index, interval[1])
        self._update_reach(index)

    def remove(self, interval: Interval, owner: str) -> None:
        """Remove an interval that was added."""
        index = bisect_left(self._spans, (*interval, owner))
        del self._spans[index], self._reach[index]
        self._update_reach(index)

    def overlapping(self, interval: Interval) -> Iterator[str]:
        """Yield the owners of the intervals that share a number with one."""
        first, last = interval
        index = bisect_right(self._spans, last, key=lambda span: span[0]) - 1
        while index >= 0 and self._reach[index] >= first:
            if self._spans[index][1] >= first:
                yield self._spans[index][2]
            index -= 1

    def _update_reach(self, index: int) -> None:
        """Recompute the reaches from an index on, as far as they change."""
        for at in range(index, len(self._spans)):
            before = self._reach[at - 1] if at else -1
            reach = max(before, self._spans[at][1])
            if at > index and reach == self._reach[at]:
                return
            self._reach[at] = reach
