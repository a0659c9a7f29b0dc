"""Ranges of numbers that are not to be given, and free numbers looked at past them. Pure.

A network and a group name ranges (`exclude`), and hosts need addresses that registered later
(`netmaster.plan.address_space`). They are no part of the pools: `NumbersOutside` passes over them
whenever an address is chosen or counted. So they change without a change to what is free and what
is held.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from core.addresses import IPV4_BITS, parse_span
from netmaster.ipam.intervals import Interval
from netmaster.ipam.spans import FreeSpans


class Ranges:
    """Numbers in sorted ranges that do not touch each other."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        merged: list[Interval] = []
        for first, last in sorted(intervals):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        self._firsts = [first for first, _ in merged]
        self._lasts = [last for _, last in merged]

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._firsts, number) - 1
        return index >= 0 and number <= self._lasts[index]

    def __iter__(self) -> Iterator[Interval]:
        return zip(self._firsts, self._lasts, strict=True)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __or__(self, other: "Ranges") -> "Ranges":
        if not other or not self:
            return self or other
        return Ranges([*self, *other])

    def __deepcopy__(self, memo: dict[int, object]) -> "Ranges":
        """Return the ranges themselves: they are never changed."""
        return self

    def within(self, first: int, last: int) -> int:
        """Return how many of the numbers are among first..last."""
        return sum(max(0, min(high, last) - max(low, first) + 1) for low, high in self)

    def following(self, number: int) -> Interval | None:
        """Return the range that has a number, else the first one behind it; None behind all."""
        index = max(bisect_right(self._firsts, number) - 1, 0)
        if index < len(self._lasts) and self._lasts[index] < number:
            index += 1
        return (self._firsts[index], self._lasts[index]) if index < len(self._lasts) else None


NOTHING: Final = Ranges()


class Excluded(NamedTuple):
    """What a network or a group excludes, by family."""

    v4: Ranges = NOTHING
    v6: Ranges = NOTHING


NOTHING_EXCLUDED: Final = Excluded()


@lru_cache(maxsize=1024)
def excluded(texts: tuple[str, ...]) -> Excluded:
    """Return the ranges of an `exclude`. Raises ValueError for text that is none."""
    spans = list(map(parse_span, texts))
    return Excluded(
        Ranges((first, last) for first, last, bits in spans if bits == IPV4_BITS),
        Ranges((first, last) for first, last, bits in spans if bits != IPV4_BITS),
    )


class NumbersOutside:
    """The free numbers of a set that are in no range; follows the set as it changes."""

    __slots__ = ("_free", "_ranges")

    def __init__(self, free: FreeSpans, ranges: Ranges) -> None:
        self._free = free
        self._ranges = ranges

    def __contains__(self, number: int) -> bool:
        return number in self._free and number not in self._ranges

    def __iter__(self) -> Iterator[Interval]:
        """Yield the free spans in order, as (first, last)."""
        for first, last in self._free:
            at = first
            while at <= last:
                barred = self._ranges.following(at)
                if barred is None or barred[0] > last:
                    yield at, last
                    break
                if barred[0] > at:
                    yield at, barred[0] - 1
                at = barred[1] + 1

    @property
    def low(self) -> int:
        """Return the lower bound of the set."""
        return self._free.low

    @property
    def free(self) -> int:
        """Return how many numbers are free."""
        return self._free.free - sum(
            self._free.free_among(first, last) for first, last in self._ranges
        )

    def lowest(self) -> int | None:
        """Return the lowest free number; None if there is none."""
        return self.lowest_from(self._free.low)

    def lowest_from(self, number: int) -> int | None:
        """Return the lowest free number that is at least `number`; None if there is none."""
        found = self._free.lowest_from(number)
        while found is not None:
            barred = self._ranges.following(found)
            if barred is None or barred[0] > found:
                return found
            found = self._free.lowest_from(barred[1] + 1)
        return None
