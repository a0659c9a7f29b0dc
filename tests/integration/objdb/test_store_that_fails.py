"""A real store that is away: within seconds a fault of who follows it, and until it is back."""

import asyncio

import pytest

from core import keys
from core.retry import begin_loops
from core.tasks import background
from objdb.registration import Registration
from state.watch import RecordFeed
from tests.bed.store import Store
from tests.bed.waiting import eventually_async
from tests.integration.objdb.conftest import Connect, endpoint

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd", "consul")]


async def test_a_feed_of_records_that_has_no_store_is_a_fault_until_it_has(
    store: Store, connect: Connect
) -> None:
    loops = begin_loops()
    feed = RecordFeed(connect(endpoint(store)), (keys.HOSTS,))

    async def is_complete() -> bool:
        await feed.take()
        return feed.complete

    names = (f"watch of the store broken: {keys.HOSTS}", f"store unavailable: {keys.HOSTS}")

    async def is_told() -> bool:
        return any(one.startswith(names) for one in loops.faults(vital=True))

    async def is_over() -> bool:
        return not loops.faults()

    async with background("feed", feed.run()):
        await eventually_async(is_complete, "the store is read")
        assert loops.faults() == []
        store.kill()
        await eventually_async(is_told, "the fault is told")
        assert sum(loops.failures[name.partition(":")[0]] for name in names) > 0
        await asyncio.to_thread(store.start)
        await eventually_async(is_over, "the fault is over")


async def test_a_registration_that_is_lost_is_a_fault_until_it_is_made(
    store: Store, connect: Connect
) -> None:
    loops, key = begin_loops(), keys.service(keys.SERVICE_NETPLUGIN, "192.0.2.1", 9002)
    registration = Registration(connect(endpoint(store), budget=0.5), key, b"{}")

    async def is_told() -> bool:
        return any(one.startswith(f"service registration failed: {key}: ") for one in told())

    def told() -> list[str]:
        return loops.faults()

    store.kill()
    async with background("registration", registration.run()):
        await eventually_async(is_told, "the fault is told")
        await asyncio.to_thread(store.start)
        await registration.synced()
        assert told() == []
