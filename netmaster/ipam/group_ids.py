"""Ids of endpoint groups: 1..32767, the 15 bits they have in flow metadata, round and round.

An id rests as long as possible before it comes again, so that a new group meets no flow of an old
one (ADR 10). Behind the last one given there is none that was given since; it is stored when a
group goes, as it may have been that group's. Till then the ids in use tell how far they have come.
"""

from typing import Final

from netmaster.ipam.spans import FreeSpans

LAST_ID: Final = 32767


class GroupIds:
    """Which ids are free, and the last one given; what is in use right behind it was given too."""

    def __init__(self) -> None:
        self.last = 0
        self._free = FreeSpans(1, LAST_ID)

    def following(self) -> int | None:
        """Return the free id behind the last one given, or the lowest; None if all are in use."""
        behind = self._free.lowest_from(self.last + 1)
        return self._free.lowest() if behind is None else behind

    def latest(self) -> int:
        """Return the last id given, those behind `last` included."""
        following = self.following()
        if following is None:
            return self.last
        return following - 1 or LAST_ID

    def take(self, number: int) -> None:
        """Note that an id is in use."""
        self._free.take(number)

    def give(self, number: int) -> None:
        """Note that an id is in use no more."""
        self._free.give(number)
