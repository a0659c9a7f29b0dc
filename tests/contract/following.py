"""A follower of a watch: the state it has delivered so far, and waits for an expected state."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from core.tasks import background
from objdb.api import Backend, Delta, Entry, Parts, Snapshot
from tests.bed.waiting import WITHIN

World = dict[str, Entry]


class Follower:
    """Applies the items of a watch to a state, and keeps the items."""

    def __init__(self) -> None:
        self.world: World = {}
        self.items: list[Snapshot | Delta] = []
        self._received = asyncio.Event()

    async def follow(self, backend: Backend, prefix: str, parts: Parts | None = None) -> None:
        async for item in backend.watch(prefix, parts=parts):
            self.items.append(item)
            self._apply(item)
            self._received.set()

    async def until(self, check: Callable[[World], bool], *, within: float = WITHIN) -> World:
        """Wait until the state satisfies a check."""
        async with asyncio.timeout(within):
            while not self.items or not check(self.world):
                self._received.clear()
                await self._received.wait()
        return self.world

    async def until_values(self, wanted: dict[str, bytes], *, within: float = WITHIN) -> None:
        """Wait until the state has exactly these values."""
        await self.until(
            lambda world: {key: entry.value for key, entry in world.items()} == wanted,
            within=within,
        )

    def _apply(self, item: Snapshot | Delta) -> None:
        if isinstance(item, Snapshot):
            if not item.rewound:
                for key, entry in item.entries.items():
                    self._check_order(key, entry)
            self.world = dict(item.entries)
            return
        assert not {entry.key for entry in item.puts} & set(item.deletes)
        for entry in item.puts:
            self._check_order(entry.key, entry)
            self.world[entry.key] = entry
        for key in item.deletes:
            self.world.pop(key, None)

    def _check_order(self, key: str, entry: Entry) -> None:
        before = self.world.get(key)
        assert before is None or before.rev <= entry.rev, f"{key} went back"


@asynccontextmanager
async def following(
    backend: Backend, prefix: str, parts: Parts | None = None
) -> AsyncIterator[Follower]:
    """Follow a prefix, or parts of it, during the body, from its first snapshot on."""
    follower = Follower()
    async with background("follower", follower.follow(backend, prefix, parts)):
        await follower.until(lambda _: True)
        yield follower
