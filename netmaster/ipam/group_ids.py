"""Ids of endpoint groups: 1..32767, the 15 bits they have in flow metadata, round-robin.

An id is reused as late as possible, so that a new group does not match flows of a deleted one that
an agent has not removed yet (ADR 10).
"""

from typing import Final

from netmaster.ipam.spans import FreeSpans

LAST_ID: Final = 32767


class GroupIds:
    """The free ids, and the cursor `last`: the last id allocated, as far as it is stored."""

    # The cursor is stored only when a group is deleted (`netmaster.plan.objects.group.delete`). A
    # creation that wrote it would depend on the creation before it, and new groups could not share
    # a commit (docs/adr/0003-what-may-share-a-commit.md). Until then the ids in use right after
    # the cursor show how far allocation has come: none of them was released since.

    def __init__(self) -> None:
        self.last = 0
        self._free = FreeSpans(1, LAST_ID)

    def following(self) -> int | None:
        """Return the next free id after the last one allocated, or the lowest; None if none is."""
        after = self._free.lowest_from(self.last + 1)
        return self._free.lowest() if after is None else after

    def latest(self) -> int:
        """Return the last id allocated, with the ids in use right after `last`."""
        following = self.following()
        if following is None:
            return self.last
        return following - 1 or LAST_ID

    def take(self, number: int) -> None:
        """Mark an id as used."""
        self._free.take(number)

    def release(self, number: int) -> None:
        """Mark an id as free."""
        self._free.release(number)
