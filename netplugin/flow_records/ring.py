"""The last records of flows, bounded by number and by age; those that went early are counted.

Records that go on are changed in place. When there is no more room, the record that ended first
goes, and without any the one that began first. Pure.
"""

import math
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, takewhile
from typing import Final

from state.flow_records import FlowRecord

MOST: Final = 100_000
AGE: Final = 3600.0
"""Seconds since the last packet of what ended, after which a record is forgotten."""

_SPARE: Final = 1000


class Ring:
    """Up to `most` records; `start` is the first position, greater than any of an earlier ring."""

    def __init__(self, most: int = MOST, age: float = AGE, start: int = 1) -> None:
        self._most = most
        self.age = age
        self._open: dict[int, FlowRecord] = {}
        self._ended: dict[int, FlowRecord] = {}
        self._order: list[tuple[int, int]] = []
        """When each began, with its number: a list sorted by time, of some that went too."""
        self._positions = count(start)
        self.position = start
        """The greatest `changed` of any record so far."""
        self.made: Counter[str] = Counter()
        """How many records there were, by verdict."""
        self.on_end: Callable[[FlowRecord], None] = _nobody
        """What is told of each record that ends."""
        self.evicted = 0
        """How many went before their time, for want of room."""

    def __len__(self) -> int:
        """Return how many records there are."""
        return len(self._open) + len(self._ended)

    def next(self) -> int:
        """Return the next position, which is the number of a record that begins there."""
        self.position = next(self._positions)
        return self.position

    def add(self, record: FlowRecord) -> None:
        """Add a record of what goes on."""
        while len(self) >= self._most:
            self._evict()
        self._open[record.number] = record
        insort(self._order, (record.begun, record.number))  # nearly always its end
        if len(self._order) > 2 * len(self) + _SPARE:
            self._order = [one for one in self._order if self._get(one[1]) is not None]
        self.made[record.verdict] += 1

    def has(self, record: FlowRecord) -> bool:
        """Return whether a record is still there."""
        return record.number in self._open

    def end(self, record: FlowRecord) -> None:
        """Take note that nothing more comes of what goes on; a record that went stays away."""
        if record.number in self._open:
            record.ended = True
            record.changed = self.next()
            # in this order: a thread that reads finds it in either
            self._ended[record.number] = record
            del self._open[record.number]
            self.on_end(record)

    def expire(self, now: float) -> None:
        """Forget what ended too long ago."""
        old = []
        for number, record in self._ended.items():
            if record.last >= now - self.age:
                break
            old.append(number)
        for number in old:
            del self._ended[number]

    def records(self) -> Iterable[FlowRecord]:
        """Return all records, in no order."""
        return chain(list(self._ended.values()), list(self._open.values()))

    def newest(self, begun: float = math.inf) -> Iterator[FlowRecord]:
        """Yield what began at these milliseconds or before, the newest first; in any thread."""
        order = self._order.copy()
        numbers = (order[at][1] for at in reversed(range(bisect_right(order, (begun, math.inf)))))
        return (one for one in map(self._get, numbers) if one is not None)

    def changed(self, after: int) -> list[FlowRecord]:
        """Return what has begun or ended after a position."""
        # both are in the order in which they came there, which is that of `changed`
        return [
            one
            for records in (self._ended, self._open)
            for one in takewhile(lambda one: one.changed > after, reversed(records.values()))
        ]

    def open(self) -> list[FlowRecord]:
        """Return the records of what goes on."""
        return list(self._open.values())

    def _get(self, number: int) -> FlowRecord | None:
        return self._open.get(number) or self._ended.get(number)

    def _evict(self) -> None:
        place = self._ended or self._open
        del place[next(iter(place))]
        self.evicted += 1


def _nobody(_record: FlowRecord) -> None:
    """Tell nobody."""
