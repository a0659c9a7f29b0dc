"""The IPv6 addresses of one network.

The original's order: on from the last one given, round and round, so that a released address
rests before it is given again (docs/original/netmaster-state.md §5).
"""

from typing import Final

from core.addresses import Subnet
from netmaster.ipam.spans import FreeSpans

SHORTEST: Final = 16
LONGEST: Final = 127


class Pool6:
    """Free addresses of a subnet; its first address (host number 0) is never among them."""

    def __init__(self, subnet: Subnet) -> None:
        self.subnet = subnet
        self._free = FreeSpans(subnet.base + 1, subnet.last)
        self._last = subnet.base

    @property
    def hosts(self) -> int:
        """Return how many addresses could be given in all."""
        return self.subnet.size - 1

    def assignable(self, address: int) -> bool:
        """Return whether the address is one that could ever be given."""
        return self._free.low <= address <= self._free.high

    def following(self) -> int | None:
        """Return the free address behind the last one given, else the lowest; None if none."""
        behind = self._free.lowest_from(self._last + 1)
        return self._free.lowest() if behind is None else behind

    def take(self, address: int) -> None:
        """Note that an address is held; the next one follows it if it was due."""
        if address == self.following():
            self._last = address
        self._free.take(address)

    def give(self, address: int) -> None:
        """Note that an address is held no more."""
        self._free.give(address)

    def resume(self, address: int) -> None:
        """Go on behind an address, the last one given before a restart."""
        self._last = address
