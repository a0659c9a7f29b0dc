"""Follows the store, so that a term can begin without reading it.

While another master leads, `follow` keeps a mirror of the store by a watch. `hand_over` gives the
mirror and the rest of the watch to the term that begins, once the mirror has all that was written
before.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress

from core import keys
from core.errors import ContivError, NotLeader, StoreDenied
from core.tasks import background
from netmaster.commits.mirror import Mirror
from objdb.api import Backend, Delta, Entry, Snapshot


class Standby:
    """A watch of the store and the mirror that it keeps; `following` makes one."""

    # `follow` is cancelled when the lock is acquired, at any await. So the watch is a task of its
    # own, which ends with the term, and an item that is applied in part stays in `_updating`.

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._wanted = asyncio.Event()
        self._items: asyncio.Queue[Snapshot | Delta | ContivError] = asyncio.Queue(1)
        self._end: ContivError | None = None
        self._updating: Iterator[None] | None = None
        self._mirror = Mirror()
        self._begun = False
        self._rewound = False

    @property
    def is_ready(self) -> bool:
        """Whether the store has been read."""
        return self._begun

    async def follow(self) -> None:
        """Keep the mirror until cancelled, where that costs what changes cost.

        Raises StoreDenied when refused.
        """
        if self._backend.incremental:
            with suppress(NotLeader):
                while True:
                    await self._apply()

    async def hand_over(
        self, marks: Iterable[Entry]
    ) -> tuple[Mirror, AsyncIterator[Snapshot | Delta]]:
        """Return what the store holds, marks included, and what the watch reports after that.

        A mark is an entry that was read from the store. A store that went back meanwhile may have
        lost it: then it is not waited for, since the store refuses the term's first commit. Raises
        NotLeader if the backend is closed, StoreDenied when refused.
        """
        wanted = {mark.key: mark.rev for mark in marks}
        self._rewound = False
        while not self._begun or not (self._rewound or self._has(wanted)):
            await self._apply()
        mirror, self._mirror = self._mirror, Mirror()
        return mirror, self._rest()

    async def watch(self) -> None:
        """Watch the store from the first use on."""
        await self._wanted.wait()
        end: ContivError = NotLeader("the store was closed")
        try:
            async for item in self._backend.watch(keys.ROOT):
                await self._items.put(item)
                del item  # a snapshot is every record of the store
        except StoreDenied as exc:
            end = exc
        await self._items.put(end)

    def _has(self, wanted: dict[str, int]) -> bool:
        return self._updating is None and all(
            self._mirror.revs.get(key, 0) >= rev for key, rev in wanted.items()
        )

    async def _apply(self) -> None:
        """Apply one item of the watch, or the rest of one, to the mirror."""
        if self._updating is None:
            item = await self._item()
            self._rewound |= isinstance(item, Snapshot) and item.rewound
            self._updating = self._mirror.update(item)
        for _ in self._updating:
            await asyncio.sleep(0)  # requests are forwarded meanwhile
        self._updating = None
        self._begun = True

    async def _item(self) -> Snapshot | Delta:
        """Return the next item; raise what ended the watch."""
        self._wanted.set()
        if self._end is None:
            item = await self._items.get()
            if not isinstance(item, ContivError):
                return item
            self._end = item
        raise self._end

    async def _rest(self) -> AsyncIterator[Snapshot | Delta]:
        with suppress(NotLeader):
            while True:
                yield await self._item()


@asynccontextmanager
async def following(backend: Backend) -> AsyncIterator[Standby]:
    """Give a standby, with a watch that runs until the end of the term that it hands over to."""
    standby = Standby(backend)
    async with background("standby watch", standby.watch()):
        yield standby
