"""The free IPv4 addresses of one network and of its groups' pools.

A group's pool is carved out of its network: the network never allocates an address of it, the group
no other one. `netmaster.plan.grants` knows the owners and refuses requests.
"""

from bisect import bisect_right, insort
from itertools import islice

from core.addresses import Subnet
from core.ids import GroupKey
from netmaster.ipam.ranges import NOTHING, NumbersOutside, Ranges
from netmaster.ipam.resting import NO_REST, Resting
from netmaster.ipam.spans import FreeSpans


class Pool:
    """Free addresses between `low` and `high` of a subnet.

    The network and the broadcast address are never among them. `resting` are those that are granted
    after all others. What the network excludes, and a group with a pool within it, may be free, but
    is not counted and not chosen; a request for it is refused elsewhere.
    """

    # Invariant: every address belongs to exactly one set of spans, the network's or one group's.
    # `take` and `release` find it by the address alone, so an address is always released to the
    # set that it was taken from.

    def __init__(self, subnet: Subnet, low: int, high: int, resting: Resting = NO_REST) -> None:
        self.subnet = subnet
        self._resting = resting
        self._free = FreeSpans(max(low, subnet.base + 1), min(high, subnet.last - 1))
        self.excluded = NOTHING
        self._carved: dict[GroupKey, tuple[FreeSpans, Ranges]] = {}
        self._bounds: list[tuple[int, int, GroupKey]] = []

    @property
    def size(self) -> int:
        """Return how many addresses the network and its groups could ever allocate."""
        excluded = self.excluded.within(self._free.low, self._free.high)
        for spans, ranges in self._carved.values():
            # Once for both, which may exclude the same.
            both = (self.excluded | ranges).within(spans.low, spans.high)
            excluded += both - self.excluded.within(spans.low, spans.high)
        return self._free.size - excluded

    @property
    def free(self) -> int:
        """Return how many of them are free, those that rest included."""
        return self.free_of(None) + sum(map(self.free_of, self._carved))

    def free_of(self, owner: GroupKey | None) -> int:
        """Return how many are free to a group with a pool, None to all others."""
        return self._outside(owner).free

    def assignable(self, address: int) -> bool:
        """Return whether the network or a group could ever allocate the address."""
        return self._free.low <= address <= self._free.high

    def group_of(self, address: int) -> GroupKey | None:
        """Return the group in whose pool an address is; None if it is in no group's pool."""
        index = bisect_right(self._bounds, address, key=lambda bound: bound[0]) - 1
        if index < 0:
            return None
        _, high, group = self._bounds[index]
        return group if address <= high else None

    def lowest(
        self,
        group: GroupKey | None = None,
        within: tuple[int, int] | None = None,
        *,
        but: Ranges = NOTHING,
    ) -> int | None:
        """Return the lowest free address, of a group's pool if it has one; None if all are held.

        One that rests comes after all others. `within` are the first and the last that will do,
        `but` are some that will not.
        """
        return self._resting.choose(self._outside(group, but, within))

    def ahead(self, number: int, but: Ranges = NOTHING) -> list[int]:
        """Return so many free addresses of the network, or less, for a host to hold ahead.

        At most half of those that are free, so that hosts leave some to each other, none that
        rests, and none of `but`.
        """
        free = self._outside(None, but)
        return list(islice(self._resting.rested(free), min(number, free.free // 2)))

    def first_taken(self, low: int, high: int) -> int | None:
        """Return the lowest address of low..high that is held or pooled; None if all are free."""
        return self._free.first_taken(low, high)

    def take(self, address: int) -> None:
        """Mark an address as held."""
        self._spans(self.group_of(address)).take(address)

    def release(self, address: int) -> None:
        """Mark an address as free; it may have to rest."""
        self._spans(self.group_of(address)).release(address)
        self._resting.begin(address)

    def carve(self, group: GroupKey, low: int, high: int, excluded: Ranges = NOTHING) -> None:
        """Set low..high aside for a group, which excludes some of them."""
        # Addresses of the pool may be held already: to change a group's record the view restores
        # its pool and carves it again, while the group's endpoints keep their addresses.
        spans = FreeSpans(low, high)
        while low <= high and (held := self._free.first_taken(low, high)) is not None:
            spans.take(held)
            low = held + 1
        self._free.take_span(spans.low, spans.high)
        self._carved[group] = spans, excluded
        insort(self._bounds, (spans.low, spans.high, group))

    def restore(self, group: GroupKey) -> None:
        """Return the free addresses of a group's pool to the network, if the group has one."""
        carved = self._carved.pop(group, None)
        if carved is not None:
            spans, _ = carved
            self._bounds.remove((spans.low, spans.high, group))
            for first, last in spans:
                self._free.release_span(first, last)

    def _spans(self, group: GroupKey | None) -> FreeSpans:
        return self._carved_or_all(group)[0]

    def _carved_or_all(self, group: GroupKey | None) -> tuple[FreeSpans, Ranges]:
        everything = self._free, NOTHING
        return everything if group is None else self._carved.get(group, everything)

    def _outside(
        self,
        group: GroupKey | None,
        but: Ranges = NOTHING,
        within: tuple[int, int] | None = None,
    ) -> NumbersOutside:
        free, excluded = self._carved_or_all(group)
        free = free if within is None else free.between(*within)
        return NumbersOutside(free, self.excluded | excluded | but)
