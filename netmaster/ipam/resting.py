"""Addresses that rest after their release, so that peers of the last holder forget it first.

In come releases and a clock; out comes which free address is granted next. A resting address is
free: it can be requested, and an exhausted pool ends the rest of the one that rested longest. Times
are of one clock in one process, so a new leader knows of no rest.
"""

from collections.abc import Callable, Iterator
from typing import Final

from core.ids import NetworkId
from netmaster.ipam.ranges import NumbersOutside
from netmaster.ipam.spans import FreeSpans

_HIGHEST: Final = 2**32 - 1
"""Of the addresses of IPv4, as numbers."""


class Resting:
    """The resting addresses of one network; `seconds` 0 for no rest at all."""

    __slots__ = ("_clock", "_released", "_seconds", "_spans")

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._released: dict[int, float] = {}  # oldest first
        # The same as spans: thousands that rest must not be passed over one by one.
        self._spans = FreeSpans(0, _HIGHEST)
        self._spans.take_span(0, _HIGHEST)

    def begin(self, address: int) -> None:
        """Let an address rest from now on."""
        if self._seconds:
            self._released.pop(address, None)
            self._released[address] = self._clock()
            self._spans.release(address)

    def choose(self, free: NumbersOutside) -> int | None:
        """Return the lowest free address that rests not, else the one that rested longest."""
        lowest = next(self.rested(free), None)
        if lowest is not None:
            return lowest
        return next((address for address in self._released if address in free), None)

    def rested(self, free: NumbersOutside) -> Iterator[int]:
        """Yield the free addresses that do not rest, in order."""
        self._end_past()
        for first, last in free:
            address = first
            while (found := self._spans.first_taken(address, last)) is not None:
                yield found
                address = found + 1
                if address > last:
                    break

    def _end_past(self) -> None:
        now = self._clock()
        past = []
        for address, released in self._released.items():
            if now - released < self._seconds:
                break
            past.append(address)
        for address in past:
            del self._released[address]
            self._spans.take(address)


class AddressRest:
    """The rests of all networks, for one term of a leader; views come and go meanwhile."""

    def __init__(self, seconds: float = 0.0, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._seconds = seconds
        self._clock = clock
        self._networks: dict[NetworkId, Resting] = {}

    def of(self, network: NetworkId) -> Resting:
        """Return the rests of a network."""
        if not self._seconds:
            return NO_REST
        return self._networks.setdefault(network, Resting(self._seconds, self._clock))


NO_REST: Final = Resting(0.0, lambda: 0.0)
