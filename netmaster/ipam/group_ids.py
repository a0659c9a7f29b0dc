"""Ids of endpoint groups: 1..32767, the 15 bits they have in flow metadata, round and round.

An id rests as long as possible before it comes again, so that a new group meets no flow of an old
one (design D3); the last one given is stored, since the group it went to may be gone.
"""

from typing import Final

from netmaster.ipam.spans import FreeSpans

LAST_ID: Final = 32767


class GroupIds:
    """Which ids are free, and the last one given."""

    def __init__(self) -> None:
        self.last = 0
        self._free = FreeSpans(1, LAST_ID)

    def following(self) -> int | None:
        """Return the free id behind the last one given, or the lowest; None if all are in use."""
        behind = self._free.lowest_from(self.last + 1)
        return self._free.lowest() if behind is None else behind

    def take(self, number: int) -> None:
        """Note that an id is in use."""
        self._free.take(number)

    def give(self, number: int) -> None:
        """Note that an id is in use no more."""
        self._free.give(number)
