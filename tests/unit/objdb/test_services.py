"""`objdb.services` over the memory backend: converging registrations, and who watches them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from core import keys
from core.tasks import background
from objdb.api import Change, Delete, Put
from objdb.memory import Faults, LostAnswer, MemoryBackend, MemoryStore
from objdb.services import Down, Registration, Up, watch_services
from tests.bed.waiting import eventually_async

KEY = keys.service("netmaster", "10.0.0.1", 9999)
PREFIX = keys.services("netmaster")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def backend(store: MemoryStore) -> AsyncIterator[MemoryBackend]:
    backend = MemoryBackend(store)
    yield backend
    await backend.close()


def value(store: MemoryStore) -> bytes | None:
    entry = store.get(KEY)
    return entry.value if entry else None


async def test_an_instance_is_there_while_run_runs(
    backend: MemoryBackend, store: MemoryStore
) -> None:
    registration = Registration(backend, KEY, b"follower")
    async with background("registration", registration.run()):
        await registration.settled()
        assert value(store) == b"follower"
        registration.update(b"leader")
        await registration.settled()
        assert value(store) == b"leader"
    assert value(store) is None


async def test_deregister_takes_it_out_and_update_brings_it_back(
    backend: MemoryBackend, store: MemoryStore
) -> None:
    registration = Registration(backend, KEY, b"1")
    async with background("registration", registration.run()):
        await registration.settled()
        await registration.deregister()
        assert value(store) is None
        registration.update(b"2")
        await registration.settled()
        assert value(store) == b"2"


async def test_what_a_dead_process_left_is_taken_over(
    backend: MemoryBackend, store: MemoryStore
) -> None:
    dead = await backend.lease(10)
    store.apply([Change((), (Put(KEY, b"old", dead),))])
    registration = Registration(backend, KEY, b"new")
    async with background("registration", registration.run()):
        await registration.settled()
        dead.expire()
        assert value(store) == b"new"


async def test_a_lost_lease_is_registered_anew(backend: MemoryBackend, store: MemoryStore) -> None:
    registration = Registration(backend, KEY, b"1")
    async with background("registration", registration.run()):
        await registration.settled()
        backend.leases[0].expire()
        assert value(store) is None
        await eventually_async(_registered(store), "registered again")
        assert len(backend.leases) == 2


async def test_lost_answers_and_outages_are_waited_out(store: MemoryStore) -> None:
    faults = Faults()
    faults.lost_answers += [LostAnswer.NOT_APPLIED, LostAnswer.APPLIED]
    faults.reachable.clear()
    registration = Registration(MemoryBackend(store, faults), KEY, b"1")
    async with background("registration", registration.run()):
        await asyncio.sleep(0.05)
        assert value(store) is None
        faults.reachable.set()
        async with asyncio.timeout(5):
            await registration.settled()
        assert value(store) == b"1"


async def test_watching_tells_what_comes_and_goes(
    backend: MemoryBackend, store: MemoryStore
) -> None:
    def put(name: str, text: bytes) -> Change:
        return Change((), (Put(PREFIX + name, text),))

    store.apply([put("a:1", b"1"), put("b:1", b"1")])
    told = watch_services(backend, PREFIX)
    assert await _next(told) == [Up(PREFIX + "a:1", b"1"), Up(PREFIX + "b:1", b"1")]
    store.apply([put("a:1", b"1")])  # no news
    store.apply([put("a:1", b"2"), Change((), (Delete(PREFIX + "b:1"),))])
    assert await _next(told) == [Down(PREFIX + "b:1", b"1"), Up(PREFIX + "a:1", b"2")]
    store.apply([put("c:1", b"1"), Change((), (Delete(PREFIX + "a:1"),))])
    store.lose_continuity()
    assert await _next(told) == [Down(PREFIX + "a:1", b"2"), Up(PREFIX + "c:1", b"1")]


async def test_nothing_there_is_told_too(backend: MemoryBackend) -> None:
    assert await _next(watch_services(backend, PREFIX)) == []


async def _next(told: AsyncIterator[Sequence[Up | Down]]) -> Sequence[Up | Down]:
    async with asyncio.timeout(5):
        return await anext(told)


def _registered(store: MemoryStore) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return value(store) is not None

    return check
