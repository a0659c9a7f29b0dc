"""Watches, leases and locks while the store is killed, frozen, compacted; and a short soak."""

import asyncio
import itertools
import random
import threading
import time
from contextlib import AsyncExitStack
from functools import partial

import aiohttp
import pytest
from aetcd import rpc

from core.errors import FenceLost, StoreUnavailable
from core.tasks import background
from objdb.api import Backend, Change, Delete, Lease, Put, Snapshot
from objdb.consul import ConsulBackend
from objdb.consul.leases import ConsulLease
from objdb.etcd import EtcdBackend
from objdb.etcd.leases import EtcdLease
from objdb.keepalive import LEASE_THREAD
from tests.bed.etcd import Etcd
from tests.bed.store import Store
from tests.bed.waiting import WITHIN, eventually_async
from tests.contract.following import following
from tests.integration.objdb.conftest import Connect, endpoint
from tests.integration.objdb.relay import Relay, relay

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd", "consul")]

only_etcd = pytest.mark.stores("etcd")

ROOT = "/test/"


def put(name: str, value: bytes = b"v") -> Change:
    return Change((), (Put(ROOT + name, value),))


def delete(name: str) -> Change:
    return Change((), (Delete(ROOT + name),))


async def off_loop(work: object) -> None:
    await asyncio.to_thread(work)  # type: ignore[arg-type]


async def test_a_watch_goes_on_over_a_restart_without_another_snapshot(
    store: Store, connect: Connect
) -> None:
    async with following(connect(endpoint(store)), ROOT) as follower:
        writer = connect(endpoint(store))
        await writer.commit([put("a")])
        await follower.until_values({ROOT + "a": b"v"})
        store.kill()
        await off_loop(store.start)
        await writer.commit([put("b"), delete("a")])
        await follower.until_values({ROOT + "b": b"v"})
        assert sum(isinstance(item, Snapshot) for item in follower.items) == 1


@only_etcd
async def test_compaction_during_a_cut_is_a_second_snapshot(store: Etcd, connect: Connect) -> None:
    async with relay(endpoint(store)) as one, following(connect(one.endpoint), ROOT) as follower:
        writer = connect(endpoint(store))
        await writer.commit([put("gone"), put("kept")])
        await follower.until(lambda world: len(world) == 2)
        one.hold_requests = one.drop_answers = True
        one.cut()
        await writer.commit([delete("gone"), put("new")])
        await off_loop(store.compact)
        one.hold_requests = one.drop_answers = False
        one.cut()
        await follower.until_values({ROOT + "kept": b"v", ROOT + "new": b"v"})
        assert sum(isinstance(item, Snapshot) for item in follower.items) == 2


@only_etcd
async def test_a_compaction_does_not_disturb_a_running_watch(store: Etcd, connect: Connect) -> None:
    async with following(connect(endpoint(store)), ROOT) as follower:
        writer = connect(endpoint(store))
        await writer.commit([put("a")])
        await follower.until_values({ROOT + "a": b"v"})
        await off_loop(store.compact)
        await writer.commit([put("b")])
        await follower.until(lambda world: len(world) == 2)
        assert sum(isinstance(item, Snapshot) for item in follower.items) == 1


async def test_a_member_that_falls_silent_is_left(store: Store, connect: Connect) -> None:
    async with relay(endpoint(store)) as first, relay(endpoint(store)) as second:
        backend = connect(first.endpoint, second.endpoint)
        async with following(backend, ROOT) as follower:
            first.hold_requests = first.drop_answers = True
            await connect(endpoint(store)).commit([put("a")])
            await follower.until_values({ROOT + "a": b"v"})
            await eventually_async(
                partial(passes_by, backend, first), "no request to the silent member"
            )


async def test_a_call_leaves_a_silent_member_after_one_attempt(
    store: Store, connect: Connect
) -> None:
    async with relay(endpoint(store)) as first, relay(endpoint(store)) as second:
        backend = connect(first.endpoint, second.endpoint)
        await backend.get(ROOT + "a")
        first.hold_requests = True
        await backend.commit([put("a")], writer="w")
        assert first.seen > 0
        await eventually_async(
            partial(passes_by, backend, first), "no request to the silent member"
        )


_fresh = (f"fresh{number}" for number in itertools.count())


async def passes_by(backend: Backend, silent: Relay) -> bool:
    """Whether a commit is made without asking a member; one amid a stall may still ask it."""
    name = next(_fresh)
    await backend.commit([put(name)], writer="w")
    return not silent.holds(f"test/{name}".encode())


async def test_the_store_may_come_later_than_its_clients(store: Store, connect: Connect) -> None:
    store.kill()
    backend = connect(endpoint(store))

    async def start() -> None:
        await asyncio.sleep(0.5)
        await off_loop(store.start)

    async with background("start", start()) as started:
        async with following(backend, ROOT) as follower:
            assert follower.world == {}
        await started


async def test_work_in_the_event_loop_does_not_cost_a_lease(store: Store, connect: Connect) -> None:
    """The finding of docs/notes/trust.md §10."""
    backend = connect(endpoint(store))
    lease = await backend.lease(3)
    await backend.commit([Change((), (Put(ROOT + "a", b"", lease),))])
    time.sleep(4)  # noqa: ASYNC251 - this is the work that must not matter
    assert time.monotonic() < lease.valid_until
    assert await backend.get(ROOT + "a") is not None


async def test_a_store_that_is_slow_to_answer_does_not_cost_a_lease(
    store: Store, connect: Connect
) -> None:
    """A fifth of the lease for each answer: a busy machine, or a disk that stalls.

    See docs/notes/trust.md §10.
    """
    async with relay(endpoint(store)) as slow:
        lease = await connect(slow.endpoint).lease(4)
        granted = lease.valid_until

        async def lasts(until: float) -> bool:
            assert time.monotonic() < lease.valid_until, "the lease is lost"
            return lease.valid_until > until

        await eventually_async(lambda: lasts(granted), "the lease is renewed")
        slow.delay = lease.ttl / 5
        await eventually_async(lambda: lasts(granted + 2 * lease.ttl), "it lasts")
        await lease.revoke()


async def test_a_renewal_starts_no_thread(
    store: Store, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On busy processors a new thread may not run before the lease has ended."""
    started: list[str] = []
    start = threading.Thread.start

    def recorded(thread: threading.Thread) -> None:
        if threading.current_thread().name == LEASE_THREAD:
            started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", recorded)
    lease = await connect(endpoint(store)).lease(2)
    granted = lease.valid_until
    await eventually_async(partial(_lasts, lease, granted + lease.ttl), "the lease is renewed")
    assert started == []


async def _lasts(lease: Lease, until: float) -> bool:
    return lease.valid_until > until


async def test_a_lease_is_lost_when_the_store_says_so(store: Store, connect: Connect) -> None:
    backend = connect(endpoint(store))
    lease = await backend.lease(9)
    async with background("lost", lease.lost()) as lost:
        other = connect(endpoint(store))
        await end(other, lease)
        async with asyncio.timeout_at(lease.valid_until):  # then it is lost anyhow
            await lost
    await lease.revoke()


async def test_a_lease_is_lost_when_it_can_no_longer_be_relied_on(
    store: Store, connect: Connect
) -> None:
    backend = connect(endpoint(store))
    lease = await backend.lease(2)
    store.pause()
    relied_on = lease.valid_until
    try:
        async with asyncio.timeout(WITHIN):
            await lease.lost()
    finally:
        store.resume()
    assert time.monotonic() >= lease.valid_until >= relied_on
    # and for good, although the store is back and its own clock has not run out
    await asyncio.sleep(1)
    assert time.monotonic() >= lease.valid_until


async def test_a_lock_outlives_a_restart_shorter_than_its_lease(
    store: Store, connect: Connect
) -> None:
    backend = connect(endpoint(store))
    lock = backend.lock(ROOT + "lock", "me", 60)
    fence = await lock.acquire()
    async with background("lost", lock.lost()) as lost:
        store.kill()
        await off_loop(store.start)
        await backend.commit([put("a")], fence=fence, writer="w")
        assert not lost.done()
        if isinstance(store, Etcd):
            await off_loop(store.compact)
        await backend.commit([put("b")], fence=fence, writer="w")
        assert not lost.done()
    await lock.release()


async def test_a_lost_lock_is_acquired_anew_with_another_fence(
    store: Store, connect: Connect
) -> None:
    backend = connect(endpoint(store))
    lock = backend.lock(ROOT + "lock", "me", 2)
    old = await lock.acquire()
    store.pause()
    async with asyncio.timeout(WITHIN):
        await lock.lost()
    assert lock.valid_until == 0.0
    store.resume()
    async with asyncio.timeout(WITHIN):
        new = await lock.acquire()
    assert new != old
    with pytest.raises(FenceLost):
        await backend.commit([put("a")], fence=old, writer="w")
    await backend.commit([put("a")], fence=new, writer="w")
    await lock.release()


async def test_acquiring_waits_an_outage_out(store: Store, connect: Connect) -> None:
    store.kill()
    lock = connect(endpoint(store), budget=0.3).lock(ROOT + "lock", "me", 5)

    async def acquire() -> None:
        await lock.acquire()

    async with background("acquire", acquire()) as acquired:
        await asyncio.sleep(1)
        assert not acquired.done()
        await off_loop(store.start)
        async with asyncio.timeout(WITHIN):
            await acquired
    await lock.release()


async def test_a_reader_ends_with_what_the_store_has_whatever_happens(
    store: Store, connect: Connect
) -> None:
    """A few seconds of writers, kills and a freeze; then the reader's world is the store's."""
    dice = random.Random(7)
    reader, until = connect(endpoint(store)), time.monotonic() + 6
    written = 0

    async def write(number: int) -> None:
        nonlocal written
        backend = connect(endpoint(store))
        while time.monotonic() < until:
            names = dice.sample([f"{number}/{name}" for name in range(30)], dice.randint(1, 5))
            changes = [
                delete(name) if dice.random() < 0.3 else put(name, str(written).encode())
                for name in names
            ]
            try:
                await backend.commit(changes, writer=f"w{number}")
            except StoreUnavailable:
                continue
            written += 1

    async def disturb() -> None:
        for _ in range(2):
            await asyncio.sleep(0.7)
            store.kill()
            await off_loop(store.start)
        await asyncio.sleep(0.5)
        store.pause()
        await asyncio.sleep(1.5)
        store.resume()

    async with following(reader, ROOT) as follower:
        await asyncio.gather(disturb(), *(write(number) for number in range(4)))
        final = await reader.snapshot(ROOT)
        await follower.until(lambda world: world == dict(final.entries))
    assert written > 0
    assert sum(isinstance(item, Snapshot) for item in follower.items) == 1


async def end(backend: Backend, lease: Lease) -> None:
    """End a lease behind its holder's back."""
    if isinstance(backend, EtcdBackend):
        assert isinstance(lease, EtcdLease)
        request = rpc.LeaseRevokeRequest(ID=lease.id)
        await backend._channels.call(lambda member: member.lease.LeaseRevoke, request)
    else:
        assert isinstance(backend, ConsulBackend)
        assert isinstance(lease, ConsulLease)
        await backend._agents.call(lambda client: client.session.destroy(lease.id))


@only_etcd
async def test_the_watches_of_a_client_share_one_stream(store: Etcd, connect: Connect) -> None:
    backend = connect(endpoint(store))
    async with AsyncExitStack() as stack:
        for name in ("a", "b", "c"):
            await stack.enter_async_context(following(backend, f"{ROOT}{name}/"))
        await eventually_async(partial(_watches, store, 3, 1), "three watches on one stream")
    await eventually_async(partial(_watches, store, 0, 0), "no watch and no stream")


async def _watches(store: Etcd, watches: int, streams: int) -> bool:
    """Return whether etcd counts so many watches and streams."""
    async with aiohttp.ClientSession() as session, session.get(f"{store.url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    wanted = {
        f"etcd_debugging_mvcc_watcher_total {watches}",
        f"etcd_debugging_mvcc_watch_stream_total {streams}",
    }
    return wanted <= set(lines)
