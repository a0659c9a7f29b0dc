"""The writer's marker: what makes a commit apply at most once (ADR 1).

`Writers` keeps what a backend's committer knows of each writer's marker key. How the marker is
compared and set in a transaction is in `objdb.etcd.commit` and `objdb.consul.commit`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from core.errors import StoreRewound
from objdb.api import Fence

# A request whose answer was lost may have been applied, may still arrive, or never will. Reading
# the store before a retry does not help: the first copy may arrive after that read. So every copy
# of a commit, retries included, does two things in one transaction: it compares the marker's
# revision with the last one that the writer knew, and it puts the marker. Invariants:
#
# 1. Once one copy has been applied, the marker's revision has moved past `last` and never returns
#    to it. All other copies are refused, however late they arrive. This needs a marker that is
#    never deleted: a missing key has revision 0, and a writer's first commit compares with 0.
# 2. A writer has one commit in flight. It starts the next with a marker revision from an answer, or
#    reads it anew. A commit that was given up may compare with the same revision: then one of the
#    two is applied and the other refused, so the next commit ends the doubt about the last.
# 3. The marker's value is an id of the commit that put it. A refused writer that finds its own id
#    there knows that an earlier copy was applied; another id means that none was.
#
# The same invariants show a store that went back, as after a restore: nobody else puts the marker
# and nobody deletes it, so its revision never falls in one history.


@dataclass(slots=True)
class Writer:
    """A writer's marker key and its revision; `last` is None while the revision is unknown."""

    marker: str
    last: int | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    highest: int = 0
    """The highest revision at which the marker was seen."""

    def seen(self, rev: int, fence: Fence | None) -> int:
        """Note and return the marker's revision, as read from the store.

        Raises StoreRewound for a fenced commit if the store went back.
        """
        before, self.highest = self.highest, rev
        if rev < before and fence is not None:
            raise StoreRewound(f"the store went back: {self.marker} is at {rev}, was at {before}")
        return rev


class Writers:
    """The writers of one backend, by marker key."""

    def __init__(self) -> None:
        self._writers: dict[str, Writer] = {}

    @asynccontextmanager
    async def turn(self, marker: str) -> AsyncIterator[Writer]:
        """Yield the marker's writer when no other commit of it is in flight."""
        writer = self._writers.setdefault(marker, Writer(marker))
        async with writer.turn:
            yield writer
