"""How netmaster ends while it is asked."""

import asyncio

import aiohttp
import pytest

from core import keys
from core.tasks import background
from netmaster import daemon
from objdb.memory import MemoryBackend
from objdb.memory.locks import MemoryLock
from tests.bed.netns import free_port
from tests.bed.waiting import eventually_async
from tests.unit.netmaster.test_settings import resolved


class SlowLock(MemoryLock):
    """A lock whose store takes its time to say who holds it."""

    asked: asyncio.Event
    known: asyncio.Event

    async def holder(self) -> str | None:
        self.asked.set()
        await self.known.wait()
        return await super().holder()


class SlowBackend(MemoryBackend):
    """A store with such a lock."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.known = asyncio.Event()

    def lock(self, name: str, holder: str, ttl: float) -> MemoryLock:
        lock = SlowLock(self.store, name, holder, ttl)
        lock.asked, lock.known = self.asked, self.known
        return lock


async def test_a_request_under_way_ends_before_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = SlowBackend()
    other = f"127.0.0.1:{free_port()}"
    await MemoryLock(backend.store, keys.LEADER_LOCK, other, 60).acquire()
    monkeypatch.setattr(daemon, "connect", lambda _: backend)
    own = f"127.0.0.1:{free_port()}"
    settings = resolved(external_address=own, internal_address=own, ofnet_port="0")

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection(*own.split(":"))
        except ConnectionError:
            return False
        writer.close()
        return True

    async def refuses() -> bool:
        return not await listens()

    async def ask() -> str:
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://{own}/version") as answer:
                    return await answer.text()
            except aiohttp.ClientConnectionError:  # on a slow machine it has waited enough
                return ""

    async with background("netmaster", daemon.run(settings, "1")) as netmaster:
        await eventually_async(listens, "netmaster listens")
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(ask())
            await backend.asked.wait()
            netmaster.cancel()
            await eventually_async(refuses, "netmaster listens no more")
            backend.known.set()
        answer = asked.result()
    assert not answer or answer.startswith(f"Leader {other} does not answer"), answer
