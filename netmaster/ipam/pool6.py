"""The IPv6 addresses of one network.

Allocation is round-robin like the original's (docs/original/netmaster-state.md §5): it continues
after the last address allocated, so a released address is not reused at once.
"""

from typing import Final

from core.addresses import Subnet, with_mac6_of
from netmaster.ipam.ranges import NOTHING, NumbersOutside, Ranges
from netmaster.ipam.spans import FreeSpans

SHORTEST: Final = 16
LONGEST: Final = 127


class Pool6:
    """Free addresses of a subnet; its first address (host number 0) is never among them.

    `excluded` may be free, but is not counted and not chosen. Of a network without IPv4 (`alone`)
    two addresses may have one MAC address: then one of them is not chosen while the other is held.
    """

    # An endpoint's MAC follows from its IPv6 address if it has no IPv4, and differs from that of
    # any other with the same first 96 bits: of addresses that are given in turn no two have one.
    # An address that is asked for may be anywhere, and whoever asks can choose one whose MAC is
    # that of the address that somebody else is given next.

    def __init__(self, subnet: Subnet, *, alone: bool = False) -> None:
        self.subnet = subnet
        self._alone = alone
        self._free = FreeSpans(subnet.base + 1, subnet.last)
        self._excluded = NOTHING
        self._shadowed: set[int] = set()
        self._barred: Ranges | None = NOTHING
        """Both together; None until it is asked for, after a change of one."""
        self._last = subnet.base

    @property
    def excluded(self) -> Ranges:
        """The addresses that are not counted and not chosen."""
        return self._excluded

    @excluded.setter
    def excluded(self, ranges: Ranges) -> None:
        self._excluded, self._barred = ranges, None

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
        return NumbersOutside(self._free.between(first, last), self._not_chosen() | but).lowest()

    def take(self, address: int) -> None:
        """Mark an address as held."""
        # Only an address that was next in turn moves the turn on. A requested address far ahead
        # must not: all addresses before it would be skipped. One that shadows another is never in
        # turn, and is not compared: a load of many would make the ranges anew for each.
        if self._shadows(address):
            self._shadowed.add(with_mac6_of(address, self.subnet.base))
            self._barred = None
        elif address == self.following():
            self._last = address
        self._free.take(address)

    def release(self, address: int) -> None:
        """Mark an address as free."""
        self._free.release(address)
        if self._shadows(address):
            self._shadowed.discard(with_mac6_of(address, self.subnet.base))
            self._barred = None

    def resume(self, address: int) -> None:
        """Continue after an address, the last one allocated before a restart."""
        self._last = address

    def _outside(self, but: Ranges = NOTHING) -> NumbersOutside:
        return NumbersOutside(self._free, self._not_chosen() | but)

    def _shadows(self, address: int) -> bool:
        return self._alone and address >> 32 != self.subnet.base >> 32

    def _not_chosen(self) -> Ranges:
        if self._barred is None:
            self._barred = self._excluded | Ranges((one, one) for one in self._shadowed)
        return self._barred
