"""`objdb.memory`: injected faults (the contract suite tests the rest)."""

import asyncio
import time

import pytest

from core.errors import FenceLost, StoreUnavailable
from core.tasks import background
from objdb.api import Absent, Change, Committed, Delta, Put, Snapshot
from objdb.memory import Faults, LostAnswer, MemoryBackend, MemoryStore

KEY = "/test/a"


def put(value: bytes) -> Change:
    return Change((), (Put(KEY, value),))


def create(value: bytes) -> Change:
    return Change((Absent(KEY),), (Put(KEY, value),))


@pytest.mark.parametrize(
    ("lost", "left"), [(LostAnswer.APPLIED, b"1"), (LostAnswer.NOT_APPLIED, None)]
)
async def test_a_lost_answer_leaves_the_outcome_unknown_once(
    lost: LostAnswer, left: bytes | None
) -> None:
    backend = MemoryBackend()
    backend.faults.lost_answers.append(lost)
    with pytest.raises(StoreUnavailable) as caught:
        await backend.commit([create(b"1")], writer="w")
    assert caught.value.outcome_unknown
    entry = await backend.get(KEY)
    assert (entry.value if entry else None) == left
    assert isinstance((await backend.commit([put(b"2")]))[0], Committed)


async def test_refused_fences_write_nothing() -> None:
    backend = MemoryBackend()
    fence = await backend.lock("/test/lock", "me", 5).acquire()
    backend.faults.refuse_fences = True
    with pytest.raises(FenceLost):
        await backend.commit([put(b"1")], fence=fence)
    assert await backend.get(KEY) is None
    backend.faults.refuse_fences = False
    assert isinstance((await backend.commit([put(b"1")], fence=fence))[0], Committed)


async def test_an_unreachable_store_answers_nothing_and_watches_are_silent() -> None:
    store = MemoryStore()
    backend, other = MemoryBackend(store), MemoryBackend(store)
    watch = backend.watch("/test/")
    assert isinstance(await anext(watch), Snapshot)
    backend.faults.reachable.clear()
    for call in (backend.get(KEY), backend.snapshot("/test/"), backend.commit([put(b"1")])):
        with pytest.raises(StoreUnavailable):
            await call
    await other.commit([put(b"1")])

    items: list[Snapshot | Delta] = []

    async def read() -> None:
        items.append(await anext(watch))

    async with background("read", read()) as reading:
        for _ in range(5):
            await asyncio.sleep(0)
        assert not items
        backend.faults.reachable.set()
        await reading
    assert isinstance(items[0], Delta)


async def test_lost_continuity_is_another_snapshot() -> None:
    backend = MemoryBackend()
    watch = backend.watch("/test/")
    await anext(watch)
    await backend.commit([put(b"1")])
    backend.store.lose_continuity()
    again = await anext(watch)
    assert isinstance(again, Snapshot)
    assert again.entries[KEY].value == b"1"


async def test_coalescing_merges_what_was_not_taken() -> None:
    backend = MemoryBackend(faults=Faults(coalesce=True, silent_rewrites=True))
    watch = backend.watch("/test/")
    await anext(watch)
    for value in (b"1", b"2", b"2"):
        await backend.commit([put(value)])
    delta = await anext(watch)
    assert isinstance(delta, Delta)
    assert [entry.value for entry in delta.puts] == [b"2"]
    await backend.commit([put(b"2")])  # makes no delta
    await backend.commit([put(b"3")])
    delta = await anext(watch)
    assert isinstance(delta, Delta)
    assert [entry.value for entry in delta.puts] == [b"3"]


async def test_delay_holds_calls_up() -> None:
    backend = MemoryBackend(faults=Faults(delay=0.05))
    began = time.monotonic()
    await backend.commit([put(b"1")])
    assert time.monotonic() - began >= 0.05


async def test_an_expired_lock_is_lost() -> None:
    backend = MemoryBackend()
    lock = backend.lock("/test/lock", "me", 5)
    fence = await lock.acquire()
    async with background("lost", lock.lost()) as lost:
        assert lock.lease is not None
        lock.lease.expire()
        await lost
    assert lock.valid_until == 0.0
    with pytest.raises(FenceLost):
        await backend.commit([put(b"1")], fence=fence)
