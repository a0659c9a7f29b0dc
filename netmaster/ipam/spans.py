"""Sets of free integers, kept as sorted spans: the base of address pools and tag ranges.

Taking and releasing one number costs a binary search and the move of a list's tail; the lowest
free number is the first span's. Numbers may be of any size, so IPv6 host numbers fit as well.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class FreeSpans:
    """The free numbers among `low`..`high`; empty if `low` is greater than `high`."""

    # Invariant: the spans are sorted, disjoint and never adjacent (two that touch are joined), so
    # the set has one representation and its size is that of the holes, not of the subnet. A bitmap
    # would need 2**64 bits for an IPv6 subnet, and a scan for the lowest free number.
    #
    # Firsts and lasts are two lists, because `bisect` then compares plain numbers.

    __slots__ = ("_firsts", "_lasts", "high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self._firsts = [low] if low <= high else []
        self._lasts = [high] if low <= high else []

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._firsts, number) - 1
        return index >= 0 and number <= self._lasts[index]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the free spans in order, as (first, last)."""
        return zip(self._firsts, self._lasts, strict=True)

    @property
    def free(self) -> int:
        """Return how many numbers are free."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    @property
    def size(self) -> int:
        """Return how many numbers there are, free or not."""
        return max(0, self.high - self.low + 1)

    def lowest(self) -> int | None:
        """Return the lowest free number; None if there is none."""
        return self._firsts[0] if self._firsts else None

    def lowest_from(self, number: int) -> int | None:
        """Return the lowest free number that is at least `number`; None if there is none."""
        index = bisect_right(self._firsts, number) - 1
        if index >= 0 and number <= self._lasts[index]:
            return number
        return self._firsts[index + 1] if index + 1 < len(self._firsts) else None

    def between(self, first: int, last: int) -> "FreeSpans":
        """Return the free numbers among first..last, as a set of its own."""
        part = FreeSpans(max(first, self.low), min(last, self.high))
        if part.low <= part.high:
            part._replace(
                (max(low, part.low), min(high, part.high))
                for low, high in self
                if low <= part.high and part.low <= high
            )
        return part

    def free_among(self, first: int, last: int) -> int:
        """Return how many numbers of first..last are free."""
        begin = max(bisect_right(self._firsts, first) - 1, 0)
        end = bisect_right(self._firsts, last)
        return sum(
            max(0, min(high, last) - max(low, first) + 1)
            for low, high in zip(self._firsts[begin:end], self._lasts[begin:end], strict=True)
        )

    def take(self, number: int) -> None:
        """Remove a number from the free ones, unless it is not free or out of bounds."""
        index = bisect_right(self._firsts, number) - 1
        if index < 0 or number > self._lasts[index]:
            return
        first, last = self._firsts[index], self._lasts[index]
        if first == last:
            del self._firsts[index], self._lasts[index]
        elif number == first:
            self._firsts[index] = number + 1
        elif number == last:
            self._lasts[index] = number - 1
        else:
            self._lasts[index] = number - 1
            self._firsts.insert(index + 1, number + 1)
            self._lasts.insert(index + 1, last)

    def take_span(self, first: int, last: int) -> None:
        """Remove first..last from the free numbers; some may not be free."""
        if first > last:
            return
        self._replace(
            piece
            for low, high in self
            for piece in ((low, min(high, first - 1)), (max(low, last + 1), high))
            if piece[0] <= piece[1]
        )

    def release(self, number: int) -> None:
        """Make a number free; nothing happens if it is free already or out of bounds."""
        if not self.low <= number <= self.high or number in self:
            return
        index = bisect_right(self._firsts, number)
        joins_left = index > 0 and self._lasts[index - 1] == number - 1
        joins_right = index < len(self._firsts) and self._firsts[index] == number + 1
        if joins_left and joins_right:
            self._lasts[index - 1] = self._lasts[index]
            del self._firsts[index], self._lasts[index]
        elif joins_left:
            self._lasts[index - 1] = number
        elif joins_right:
            self._firsts[index] = number
        else:
            self._firsts.insert(index, number)
            self._lasts.insert(index, number)

    def release_span(self, first: int, last: int) -> None:
        """Make first..last free; some may be free already, and what is out of bounds is ignored."""
        first, last = max(first, self.low), min(last, self.high)
        if first > last:
            return
        merged: list[tuple[int, int]] = []
        for low, high in sorted([*self, (first, last)]):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        self._replace(merged)

    def first_taken(self, first: int, last: int) -> int | None:
        """Return the lowest number of first..last that is not free; None if all are."""
        index = bisect_right(self._firsts, first) - 1
        if index < 0 or first > self._lasts[index]:
            return first
        return None if last <= self._lasts[index] else self._lasts[index] + 1

    def _replace(self, spans: Iterable[tuple[int, int]]) -> None:
        pairs = list(spans)
        self._firsts = [low for low, _ in pairs]
        self._lasts = [high for _, high in pairs]
