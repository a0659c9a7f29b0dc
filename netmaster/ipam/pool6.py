"""The IPv6 addresses of one network.

Allocation is round-robin like the original's (docs/original/netmaster-state.md §5): it continues
after the last address allocated, so a released address is not reused at once.
"""

from typing import Final

from core.addresses import Subnet
from netmaster.ipam.ranges import NOTHING, NumbersOutside, Ranges
from netmaster.ipam.spans import FreeSpans

SHORTEST: Final = 16
LONGEST: Final = 127


class Pool6:
    """Free addresses of a subnet; its first address (host number 0) is never among them.

    `excluded` may be free, but is not counted and not chosen.
    """

    def __init__(self, subnet: Subnet) -> None:
        self.subnet = subnet
        self._free = FreeSpans(subnet.base + 1, subnet.last)
        self.excluded = NOTHING
        self._last = subnet.base

    @property
    def hosts(self) -> int:
        """Return how many addresses could be allocated in total."""
        return self.subnet.size - 1 - self.excluded.within(self._free.low, self._free.high)

    @property
    def free(self) -> int:
        """Return how many of them are free."""
        return self._outside().free

    def assignable(self, address: int) -> bool:
        """Return whether the address could ever be allocated."""
        return self._free.low <= address <= self._free.high

    def following(self, but: Ranges = NOTHING) -> int | None:
        """Return the free address after the last allocated, else the lowest; None if none is.

        None of `but` will do.
        """
        free = self._outside(but)
        after = free.lowest_from(self._last + 1)
        return free.lowest() if after is None else after

    def ahead(self, number: int, but: Ranges = NOTHING) -> list[int]:
        """Return the free addresses that are next in turn, so many or, if there are less, half."""
        found: list[int] = []
        after, free = self._last, self._outside(but)
        while len(found) < min(number, free.free // 2):
            following = free.lowest_from(after + 1)
            after = free.low - 1 if following is None else following
            if following is not None:
                found.append(following)
        return found

    def lowest_within(self, first: int, last: int, but: Ranges = NOTHING) -> int | None:
        """Return the lowest free address among first..last and not `but`; None if there is none."""
        return NumbersOutside(self._free.between(first, last), self.excluded | but).lowest()

    def take(self, address: int) -> None:
        """Mark an address as held."""
        # Only an address that was next in turn moves the turn on. A requested address far ahead
        # must not: all addresses before it would be skipped.
        if address == self.following():
            self._last = address
        self._free.take(address)

    def release(self, address: int) -> None:
        """Mark an address as free."""
        self._free.release(address)

    def resume(self, address: int) -> None:
        """Continue after an address, the last one allocated before a restart."""
        self._last = address

    def _outside(self, but: Ranges = NOTHING) -> NumbersOutside:
        return NumbersOutside(self._free, self.excluded | but)
