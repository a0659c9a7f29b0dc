"""A reader's world: what a watch has told so far, and waiting until it agrees."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from core.tasks import background
from objdb.api import Backend, Delta, Entry, Snapshot

World = dict[str, Entry]


class Follower:
    """Folds a watch into a world, and keeps what it was told."""

    def __init__(self) -> None:
        self.world: World = {}
        self.items: list[Snapshot | Delta] = []
        self._told = asyncio.Event()

    async def follow(self, backend: Backend, prefix: str) -> None:
        async for item in backend.watch(prefix):
            self.items.append(item)
            self._fold(item)
            self._told.set()

    async def until(self, check: Callable[[World], bool], *, within: float = 10.0) -> World:
        """Wait until the world is as wanted."""
        async with asyncio.timeout(within):
            while not self.items or not check(self.world):
                self._told.clear()
                await self._told.wait()
        return self.world

    async def until_values(self, wanted: dict[str, bytes], *, within: float = 10.0) -> None:
        """Wait until the world holds exactly these values."""
        await self.until(
            lambda world: {key: entry.value for key, entry in world.items()} == wanted,
            within=within,
        )

    def _fold(self, item: Snapshot | Delta) -> None:
        if isinstance(item, Snapshot):
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
async def following(backend: Backend, prefix: str) -> AsyncIterator[Follower]:
    """Follow a prefix for the body, its first snapshot read."""
    follower = Follower()
    async with background("follower", follower.follow(backend, prefix)):
        await follower.until(lambda _: True)
        yield follower
