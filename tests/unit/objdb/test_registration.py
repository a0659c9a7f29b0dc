"""`objdb.registration` over the memory backend: converging registrations."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from core import keys
from core.tasks import background
from objdb.api import Change, Put
from objdb.memory import Faults, LostAnswer, MemoryBackend, MemoryStore
from objdb.registration import Registration
from objdb.shared_lease import SharedLease
from tests.bed.waiting import WITHIN, eventually_async

KEY = keys.service("netmaster", "10.0.0.1", 9999)


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
        await registration.synced()
        assert value(store) == b"follower"
        registration.update(b"leader")
        await registration.synced()
        assert value(store) == b"leader"
    assert value(store) is None


async def test_what_a_dead_process_left_is_taken_over(
    backend: MemoryBackend, store: MemoryStore
) -> None:
    dead = await backend.lease(10)
    store.apply([Change((), (Put(KEY, b"old", dead),))])
    registration = Registration(backend, KEY, b"new")
    async with background("registration", registration.run()):
        await registration.synced()
        dead.expire()
        assert value(store) == b"new"


async def test_a_lost_lease_is_registered_anew(backend: MemoryBackend, store: MemoryStore) -> None:
    registration = Registration(backend, KEY, b"1")
    async with background("registration", registration.run()):
        await registration.synced()
        backend.leases[0].expire()
        assert value(store) is None
        await eventually_async(_registered(store), "registered again")
        assert len(backend.leases) == 2


async def test_lost_answers_and_outages_are_waited_out(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "objdb.registration")
    faults = Faults()
    faults.lost_answers += [LostAnswer.NOT_APPLIED, LostAnswer.APPLIED]
    faults.reachable.clear()
    registration = Registration(MemoryBackend(store, faults), KEY, b"1")
    async with background("registration", registration.run()):
        await eventually_async(_logged(caplog, "registration failed, retrying"), "tried")
        assert value(store) is None
        faults.reachable.set()
        async with asyncio.timeout(WITHIN):
            await registration.synced()
        assert value(store) == b"1"


def _logged(caplog: pytest.LogCaptureFixture, text: str) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return text in caplog.text

    return check


def _registered(store: MemoryStore) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return value(store) is not None

    return check


async def test_instances_share_a_lease_and_are_registered_again_together(
    backend: MemoryBackend, store: MemoryStore
) -> None:
    lease = SharedLease(backend, 10.0)
    names = [keys.service("netplugin", "10.0.0.1", port) for port in (9002, 9003)]
    registrations = [Registration(backend, name, b"1", lease=lease) for name in names]
    async with AsyncExitStack() as stack:
        for one in registrations:
            await stack.enter_async_context(background("registration", one.run()))
            await one.synced()
        (first,) = backend.leases
        first.expire()
        await eventually_async(_all_there(store, names), "registered again")
        assert len(backend.leases) == 2
        assert lease.losses == 1
    assert not any(store.get(name) for name in names)


async def test_a_lease_outlives_all_but_its_last_user(
    backend: MemoryBackend, store: MemoryStore
) -> None:
    lease = SharedLease(backend, 10.0)
    names = [keys.service("netplugin", "10.0.0.1", port) for port in (9002, 9003)]
    one, two = (Registration(backend, name, b"1", lease=lease) for name in names)
    async with background("registration", one.run()):
        async with background("registration", two.run()):
            await two.synced()
        await one.synced()
        assert one.registered
        assert store.get(names[0])
    assert not store.get(names[0])


def _all_there(store: MemoryStore, names: list[str]) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return all(store.get(name) for name in names)

    return check
