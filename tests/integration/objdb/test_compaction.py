"""Leaders that come and go compact etcd's history between them, by clocks that the tests set."""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aetcd import rpc

from core import keys
from core.errors import StoreFull, StoreUnavailable
from core.tasks import background
from objdb.access import StoreAccess
from objdb.api import Backend, Change, Put
from objdb.etcd.channel import Channels, GrpcMethod
from objdb.etcd.commit import EtcdCommitter
from objdb.etcd.compaction import Checkpoint, compact_history, decode, encode
from tests.bed.etcd import Etcd
from tests.bed.waiting import eventually_async
from tests.integration.objdb.conftest import Connect, endpoint

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd")]

PERIOD = 600.0
START = 1_000_000.0


@pytest.fixture(autouse=True)
def history(store: Etcd) -> None:
    """Have a revision before the first one that is noted."""
    store.put("/test/key", b"v")


def at(time: float) -> Callable[[], float]:
    return lambda: time


async def write(backend: Backend) -> None:
    """Give the store some history."""
    for _ in range(10):
        await backend.commit([Change((), (Put("/test/key", b"v"),))])


async def checkpoint(backend: Backend) -> Checkpoint | None:
    entry = await backend.get(keys.COMPACTION)
    return decode(entry.value) if entry else None


async def await_checkpoint(backend: Backend, time: float) -> Checkpoint:
    """Wait for a checkpoint of this time, and return it."""

    async def noted() -> Checkpoint | None:
        found = await checkpoint(backend)
        return found if found and found.time == time else None

    found = await eventually_async(noted, f"a checkpoint of {time}")
    assert found is not None
    return found


async def lead(backend: Backend, time: float, until: float) -> Checkpoint:
    """Compact at this time until there is a checkpoint of the other one, and return it."""
    async with background("compaction", backend.compact_history(PERIOD, at(time))):
        return await await_checkpoint(backend, until)


async def test_leaders_that_are_replaced_within_the_period(store: Etcd, connect: Connect) -> None:
    noted = await lead(connect(endpoint(store)), START, START)
    for turn in range(1, 10):
        time = START + turn * PERIOD / 3
        due = turn % 3 == 0
        backend = connect(endpoint(store))
        await write(backend)
        fresh = await lead(backend, time, time if due else noted.time)
        if due:
            assert store.is_compacted(noted.revision - 1)
            assert not store.is_compacted(noted.revision), "the period is kept"
            assert fresh.revision > noted.revision
        else:
            assert fresh == noted
        noted = fresh


async def test_two_at_once_compact_once_in_a_period(
    store: Etcd, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    backends = [connect(endpoint(store)) for _ in range(2)]
    for turn in range(4):
        time = START + turn * PERIOD
        await write(backends[0])
        async with AsyncExitStack() as running:
            for backend in backends:
                work = backend.compact_history(PERIOD, at(time))
                await running.enter_async_context(background("compaction", work))
            await await_checkpoint(backends[0], time)
        assert store.version(keys.COMPACTION) == turn + 1
        assert caplog.messages.count("history compacted") == turn


async def test_a_store_whose_checkpoint_is_of_another_history(
    store: Etcd, connect: Connect
) -> None:
    backend = connect(endpoint(store))
    store.put(keys.COMPACTION, encode(Checkpoint(10_000, START)))
    noted = await lead(backend, START + 2 * PERIOD, START + 2 * PERIOD)
    assert noted.revision <= store.revision()
    await write(backend)
    await lead(backend, START + 3 * PERIOD, START + 3 * PERIOD)
    assert store.is_compacted(noted.revision - 1)


async def test_a_restored_store_is_compacted_again(store: Etcd, connect: Connect) -> None:
    backend = connect(endpoint(store))
    noted = await lead(backend, START, START)
    saved = store.save()
    await write(backend)
    await lead(backend, START + PERIOD, START + PERIOD)
    await backend.close()
    store.restore(saved)
    backend = connect(endpoint(store))
    assert await checkpoint(backend) == noted
    await write(backend)
    await lead(backend, START + 2 * PERIOD, START + 2 * PERIOD)
    assert store.is_compacted(noted.revision - 1)


async def test_a_full_store_is_compacted(store: Etcd, connect: Connect) -> None:
    backend = connect(endpoint(store))
    noted = await lead(backend, START, START)
    await write(backend)
    store.alarm("ACTIVATE")
    try:
        await lead(backend, START + PERIOD, START + PERIOD)
    finally:
        store.alarm("DEACTIVATE")
    assert store.is_compacted(noted.revision - 1)


async def test_a_full_store_says_so(store: Etcd, connect: Connect) -> None:
    backend = connect(endpoint(store))
    await backend.check_room()
    store.alarm("ACTIVATE")
    try:
        with pytest.raises(StoreFull, match="etcdctl alarm disarm"):
            await backend.check_room()
        assert (await backend.condition()).alarms == {"nospace": True, "corrupt": False}
    finally:
        store.alarm("DEACTIVATE")
    await backend.check_room()
    assert (await backend.condition()).alarms == {"nospace": False, "corrupt": False}


async def test_a_failed_compaction_is_tried_again(
    store: Etcd, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    backend = connect(endpoint(store))
    noted = await lead(backend, START, START)
    await write(backend)
    channels = FailingCompaction(StoreAccess(endpoints=(endpoint(store),)))
    work = compact_history(channels, EtcdCommitter(channels), PERIOD, at(START + PERIOD))
    async with background("compaction", work):
        await await_checkpoint(backend, START + PERIOD)
    await channels.close()
    assert channels.asked == [noted.revision] * 3
    assert caplog.messages.count("compaction failed, retrying") == 2
    assert store.is_compacted(noted.revision - 1)


class FailingCompaction(Channels):
    """Calls to etcd of which two compactions fail; `asked` are the revisions of all."""

    def __init__(self, access: StoreAccess) -> None:
        super().__init__(access)
        self.asked: list[int] = []

    async def call(self, method: GrpcMethod, request: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(request, rpc.CompactionRequest):
            self.asked.append(request.revision)
            if len(self.asked) <= 2:
                raise StoreUnavailable("no member compacts")
        return await super().call(method, request, *args, **kwargs)
