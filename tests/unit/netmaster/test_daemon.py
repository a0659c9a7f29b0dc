"""How netmaster answers while it starts, and while it ends."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp
import pytest

from core import keys
from core.tasks import background
from daemons import machine_addresses
from netmaster import daemon
from objdb.memory import MemoryBackend
from objdb.memory.locks import MemoryLock
from tests.bed.netns import free_port
from tests.bed.waiting import eventually_async
from tests.unit.netmaster.settings import resolved


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


class Master:
    """The address of a netmaster to be run, and its settings."""

    def __init__(self) -> None:
        self.own = f"127.0.0.1:{free_port()}"
        self.settings = resolved(
            external_address=self.own, internal_address=self.own, ofnet_port="0"
        )

    async def listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(*self.own.split(":"))
        except ConnectionError:
            return False
        writer.close()
        return True

    async def refuses(self) -> bool:
        return not await self.listens()

    async def ask(self) -> str:
        """Return the answer; empty if the connection ends without one."""
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://{self.own}/version") as answer:
                    return await answer.text()
            except aiohttp.ClientConnectionError:
                return ""


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> SlowBackend:
    backend = SlowBackend()
    monkeypatch.setattr(daemon, "connect", lambda _: backend)
    return backend


async def led(backend: SlowBackend) -> str:
    """Return the address of another master, which does not answer, and has the lock."""
    other = f"127.0.0.1:{free_port()}"
    await MemoryLock(backend.store, keys.LEADER_LOCK, other, 60).acquire()
    return other


@contextmanager
def held(function: Callable[..., object]) -> Iterator[Callable[..., object]]:
    """Give a function that waits, in its thread, for the end of the body."""
    ended = threading.Event()

    def waits(*arguments: object) -> object:
        ended.wait()
        return function(*arguments)

    try:
        yield waits
    finally:
        ended.set()


async def test_a_request_under_way_ends_before_what_it_needs(backend: SlowBackend) -> None:
    other, master = await led(backend), Master()

    async def is_asked() -> bool:
        return backend.asked.is_set()

    async with background("netmaster", daemon.run(master.settings, "1")) as netmaster:
        await eventually_async(master.listens, "netmaster listens")
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(master.ask())
            await eventually_async(is_asked, "the store is asked who leads")
            netmaster.cancel()
            await eventually_async(master.refuses, "netmaster listens no more")
            backend.known.set()
        answer = asked.result()
    # Without one on a slow machine: it has waited for the answer for long enough.
    assert not answer or answer.startswith(f"Leader {other} does not answer"), answer


async def test_a_request_before_the_candidacy_is_forwarded(
    backend: SlowBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, master = await led(backend), Master()
    backend.known.set()
    with held(machine_addresses.read) as read:
        monkeypatch.setattr(machine_addresses, "read", read)
        async with background("netmaster", daemon.run(master.settings, "1")):
            await eventually_async(master.listens, "netmaster listens")
            answer = await master.ask()
    assert answer.startswith(f"Leader {other} does not answer"), answer
