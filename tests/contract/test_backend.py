"""Every guarantee of `objdb.api`, for each backend."""

import asyncio
import time
from collections.abc import AsyncGenerator
from functools import partial
from typing import cast

import pytest

from core.errors import FenceLost, NotFound, StoreRewound, TooLarge
from core.tasks import background
from objdb.api import (
    Absent,
    Backend,
    Change,
    Committed,
    Delete,
    Delta,
    Entry,
    Fence,
    Limits,
    Put,
    Refused,
    Snapshot,
    Unchanged,
    admit,
    split,
)
from objdb.memory import MemoryBackend
from tests.bed.held import held
from tests.bed.waiting import WITHIN
from tests.contract.conftest import Client, Served
from tests.contract.following import following


def put(key: str, value: bytes = b"v") -> Change:
    return Change((), (Put(key, value),))


def delete(key: str) -> Change:
    return Change((), (Delete(key),))


def create(key: str, value: bytes = b"v") -> Change:
    return Change((Absent(key),), (Put(key, value),))


def wide(root: str, width: int) -> Change:
    return Change((), tuple(Put(f"{root}w{number}", b"") for number in range(width)))


def is_admitted(change: Change, limits: Limits) -> bool:
    try:
        admit([change], limits)
    except TooLarge:
        return False
    return True


async def rev_of(store: Backend, key: str) -> int:
    entry = await store.get(key)
    assert entry is not None
    return entry.rev


# values and snapshots


async def test_what_was_put_is_read_by_everybody(client: Client, root: str) -> None:
    one, other = client(), client()
    outcomes = await one.commit([put(root + "a", b"\x00\xff")])
    assert isinstance(outcomes[0], Committed)
    assert await other.get(root + "a") == Entry(root + "a", b"\x00\xff", outcomes[0].rev)


async def test_an_absent_key_is_none_and_an_empty_value_is_not(store: Backend, root: str) -> None:
    await store.commit([put(root + "empty", b"")])
    assert await store.get(root + "nothing") is None
    entry = await store.get(root + "empty")
    assert entry is not None
    assert entry.value == b""


async def test_snapshot_holds_everything_under_the_prefix_and_nothing_else(
    store: Backend, root: str
) -> None:
    await store.commit([put(root + "net/b"), put(root + "net/a/x"), put(root + "network/c")])
    snapshot = await store.snapshot(root + "net/")
    assert set(snapshot.entries) == {root + "net/b", root + "net/a/x"}
    assert all(key == entry.key for key, entry in snapshot.entries.items())
    assert (await store.snapshot(root + "none/")).entries == {}


async def test_snapshot_of_many_keys(store: Backend, root: str) -> None:
    keys = {f"{root}{number:05}" for number in range(2000)}
    for group in split((put(key) for key in sorted(keys)), store.limits):
        await store.commit(group)
    assert set((await store.snapshot(root)).entries) == keys


async def test_snapshot_of_what_passes(store: Backend, root: str) -> None:
    await store.commit([put(root + "a", b"yes"), put(root + "b", b"no"), put(root + "c", b"yes")])
    found = await store.snapshot(root, lambda key, value: value == b"yes" and key != root + "c")
    assert set(found.entries) == {root + "a"}


# commits


async def test_all_keys_of_a_commit_share_a_revision_and_it_grows(
    store: Backend, root: str
) -> None:
    change = Change((), (Put(root + "a", b"1"), Put(root + "b", b"1")))
    (first,) = await store.commit([change])
    (second,) = await store.commit([change])
    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert second.rev > first.rev
    snapshot = await store.snapshot(root)
    assert {entry.rev for entry in snapshot.entries.values()} == {second.rev}


async def test_absent_lets_one_of_two_creators_win(client: Client, root: str) -> None:
    one, other = client(), client()
    outcomes = await asyncio.gather(
        one.commit([create(root + "a", b"one")]), other.commit([create(root + "a", b"other")])
    )
    kinds = sorted(type(group[0]).__name__ for group in outcomes)
    assert kinds == ["Committed", "Refused"]


async def test_a_refusal_names_the_culprit_and_shows_what_is_there(
    store: Backend, root: str
) -> None:
    await store.commit([put(root + "a", b"there")])
    change = Change(
        (Absent(root + "b"), Absent(root + "a")), (Put(root + "b", b""), Put(root + "c", b""))
    )
    (outcome,) = await store.commit([change])
    assert outcome == Refused(Absent(root + "a"), await store.get(root + "a"))
    assert await store.get(root + "b") is None
    assert await store.get(root + "c") is None


async def test_unchanged_compares_the_revision(store: Backend, root: str) -> None:
    await store.commit([put(root + "a", b"1")])
    rev = await rev_of(store, root + "a")
    change = Change((Unchanged(root + "a", rev),), (Put(root + "a", b"2"),))
    assert isinstance((await store.commit([change]))[0], Committed)
    (again,) = await store.commit([change])
    assert again == Refused(Unchanged(root + "a", rev), await store.get(root + "a"))


async def test_unchanged_refuses_an_absent_key(store: Backend, root: str) -> None:
    check = Unchanged(root + "a", 1)
    assert await store.commit([Change((check,), (Put(root + "a", b""),))]) == [Refused(check, None)]


async def test_a_key_that_came_back_is_not_unchanged(store: Backend, root: str) -> None:
    await store.commit([put(root + "a")])
    check = Unchanged(root + "a", await rev_of(store, root + "a"))
    await store.commit([delete(root + "a")])
    await store.commit([put(root + "a")])
    assert isinstance((await store.commit([Change((check,), ())]))[0], Refused)


async def test_each_change_has_its_own_outcome(store: Backend, root: str) -> None:
    await store.commit([put(root + "taken")])
    outcomes = await store.commit(
        [create(root + "a"), create(root + "taken"), put(root + "b"), delete(root + "taken2")]
    )
    assert [type(outcome) for outcome in outcomes] == [Committed, Refused, Committed, Committed]
    assert set((await store.snapshot(root)).entries) == {root + "a", root + "b", root + "taken"}


async def test_checks_see_the_state_before_the_commit(store: Backend, root: str) -> None:
    outcomes = await store.commit(
        [put(root + "a"), Change((Absent(root + "a"),), (Put(root + "b", b""),))]
    )
    assert [type(outcome) for outcome in outcomes] == [Committed, Committed]


async def test_deleting_an_absent_key_is_fine(store: Backend, root: str) -> None:
    assert isinstance((await store.commit([delete(root + "a")]))[0], Committed)


async def test_a_key_twice_in_a_commit_is_a_mistake(store: Backend, root: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        await store.commit([put(root + "a"), delete(root + "a")])


async def test_a_commit_at_the_limit_passes_and_one_beyond_is_too_large(
    store: Backend, root: str
) -> None:
    changes = [create(f"{root}{number}") for number in range(200)]
    most = len(split(changes, store.limits)[0])
    assert 50 < most < 200
    for writer in (None, "limits"):
        outcomes = await store.commit(changes[:most], writer=writer)
        assert len(outcomes) == most
        with pytest.raises(TooLarge):
            await store.commit(changes[: most + 1], writer=writer)
    width = max(n for n in range(200) if is_admitted(wide(root, n), store.limits))
    assert width > 25
    (outcome,) = await store.commit([wide(root, width)], writer="limits")
    assert isinstance(outcome, Committed)
    with pytest.raises(TooLarge):
        await store.commit([wide(root, width + 1)], writer="limits")
    with pytest.raises(TooLarge):
        await store.commit([put(root + "big", b"x" * store.limits.bytes)])


async def test_large_commits_within_the_limit_pass(store: Backend, root: str) -> None:
    size = store.limits.bytes // 4 - 100
    changes = [put(f"{root}{number}", b"x" * size) for number in range(4)]
    assert len(await store.commit(changes)) == 4
    assert {len(entry.value) for entry in (await store.snapshot(root)).entries.values()} == {size}


# writers


async def test_a_writers_commits_have_true_outcomes(store: Backend, root: str) -> None:
    first = await store.commit([create(root + "a"), create(root + "b")], writer=root)
    second = await store.commit([create(root + "a"), create(root + "c")], writer=root)
    assert [type(outcome) for outcome in first] == [Committed, Committed]
    assert [type(outcome) for outcome in second] == [Refused, Committed]


async def test_commits_of_a_writer_may_be_asked_for_at_once(store: Backend, root: str) -> None:
    groups = await asyncio.gather(
        *(store.commit([create(f"{root}{number}")], writer=root) for number in range(20))
    )
    assert all(isinstance(group[0], Committed) for group in groups)


async def test_a_writer_goes_on_after_another_process_used_its_name(
    client: Client, root: str
) -> None:
    one, other = client(), client()
    await one.commit([put(root + "a")], writer=root)
    await other.commit([put(root + "a")], writer=root)
    assert isinstance((await one.commit([create(root + "b")], writer=root))[0], Committed)


async def test_an_empty_commit_changes_nothing(store: Backend, root: str) -> None:
    assert await store.commit([]) == []
    assert await store.commit([], writer=root) == []
    assert (await store.snapshot(root)).entries == {}


# fences and locks


async def test_only_the_holder_commits(client: Client, root: str) -> None:
    one, other = client(), client()
    lock = one.lock(root + "lock", "one", 5)
    fence = await lock.acquire()
    for writer in (None, root):
        assert isinstance(
            (await one.commit([put(root + "a")], fence=fence, writer=writer))[0], Committed
        )
    await lock.release()
    await other.lock(root + "lock", "other", 5).acquire()
    for writer in (None, root):
        with pytest.raises(FenceLost):
            await one.commit([put(root + "a", b"late")], fence=fence, writer=writer)
    entry = await one.get(root + "a")
    assert entry is not None
    assert entry.value == b"v"


async def test_a_fence_stays_lost_although_the_same_holder_comes_back(
    store: Backend, root: str
) -> None:
    lock = store.lock(root + "lock", "one", 5)
    old = await lock.acquire()
    await lock.release()
    with pytest.raises(FenceLost):
        await store.commit([put(root + "a")], fence=old)
    new = await lock.acquire()
    assert new != old
    with pytest.raises(FenceLost):
        await store.commit([put(root + "a")], fence=old)
    assert isinstance((await store.commit([put(root + "a")], fence=new))[0], Committed)


async def test_a_fence_of_a_lock_that_never_was(store: Backend, root: str) -> None:
    with pytest.raises(FenceLost):
        await store.commit([put(root + "a")], fence=Fence(root + "lock", 1))
    assert await store.get(root + "a") is None


async def test_a_second_holder_waits_for_the_first(client: Client, root: str) -> None:
    one, other = client().lock(root + "lock", "one", 60), client().lock(root + "lock", "other", 60)
    await one.acquire()
    async with background("second", _acquired(other)) as second:
        await asyncio.sleep(0.2)
        assert not second.done()
        assert await other.holder() == "one"
        await one.release()
        async with asyncio.timeout(WITHIN):
            await second
    assert await one.holder() == "other"


async def _acquired(lock: object) -> None:
    await lock.acquire()  # type: ignore[attr-defined]


async def test_the_holder_can_be_read_and_is_nobody_in_the_end(store: Backend, root: str) -> None:
    lock = store.lock(root + "lock", "10.0.0.1:9999", 5)
    assert await lock.holder() is None
    assert lock.valid_until == 0.0
    await lock.acquire()
    assert await lock.holder() == "10.0.0.1:9999"
    assert time.monotonic() < lock.valid_until <= time.monotonic() + 5
    await lock.release()
    await lock.release()
    assert await lock.holder() is None
    assert lock.valid_until == 0.0


async def test_a_lock_whose_key_is_gone_is_lost(client: Client, root: str) -> None:
    lock = client().lock(root + "lock", "one", 5)
    await lock.acquire()
    async with asyncio.timeout(WITHIN), background("lost", lock.lost()) as lost:
        await asyncio.sleep(0.1)
        assert not lost.done()
        await client().commit([delete(root + "lock")])
        await lost
    assert lock.valid_until == 0.0


async def test_a_waiter_that_is_cancelled_leaves_nothing(client: Client, root: str) -> None:
    one, other = client().lock(root + "lock", "one", 5), client().lock(root + "lock", "other", 5)
    await one.acquire()
    async with background("second", _acquired(other)):
        await asyncio.sleep(0.1)
    await one.release()
    assert await one.holder() is None


# leases


async def test_keys_vanish_with_their_lease(store: Backend, root: str) -> None:
    lease = await store.lease(5)
    await store.commit([Change((), (Put(root + "a", b"", lease), Put(root + "b", b"")))])
    assert time.monotonic() < lease.valid_until <= time.monotonic() + lease.ttl
    await lease.revoke()
    await lease.revoke()
    assert set((await store.snapshot(root)).entries) == {root + "b"}
    async with asyncio.timeout(WITHIN):
        await lease.lost()
    assert time.monotonic() >= lease.valid_until


async def test_a_put_without_the_lease_frees_the_key_from_it(store: Backend, root: str) -> None:
    lease = await store.lease(5)
    await store.commit([Change((), (Put(root + "a", b"", lease),))])
    await store.commit([put(root + "a", b"stays")])
    await lease.revoke()
    assert await store.get(root + "a") is not None


async def test_a_put_under_another_lease_moves_the_key(client: Client, root: str) -> None:
    one, other = client(), client()
    first, second = await one.lease(5), await other.lease(5)
    for store, lease, value in ((one, first, b"1"), (one, first, b"2"), (other, second, b"3")):
        await store.commit([Change((), (Put(root + "a", value, lease),))])
    await first.revoke()
    entry = await one.get(root + "a")
    assert entry is not None
    assert entry.value == b"3"
    await second.revoke()
    assert await one.get(root + "a") is None


async def test_a_put_under_an_ended_lease_writes_nothing(store: Backend, root: str) -> None:
    lease = await store.lease(5)
    await lease.revoke()
    with pytest.raises(NotFound):
        await store.commit([put(root + "b"), Change((), (Put(root + "a", b"", lease),))])
    assert (await store.snapshot(root)).entries == {}


async def test_a_lease_outlives_its_time_to_live(store: Backend, root: str) -> None:
    lease = await store.lease(0.2)
    await store.commit([Change((), (Put(root + "a", b"", lease),))])
    async with background("lost", lease.lost()) as lost:
        await asyncio.sleep(lease.ttl * 1.5)
        assert not lost.done()
    assert await store.get(root + "a") is not None


async def test_leases_of_a_closed_client_end_by_themselves(client: Client, root: str) -> None:
    one, other = client(), client()
    lease = await one.lease(0.2)
    await one.commit([Change((), (Put(root + "a", b"", lease),))])
    await one.close()
    async with following(other, root) as follower:
        await follower.until_values({})


# watches


async def test_a_watch_begins_with_a_snapshot_and_goes_on_with_deltas(
    client: Client, root: str
) -> None:
    writer = client()
    await writer.commit([put(root + "a", b"1"), put(root + "b", b"1")])
    async with following(client(), root) as follower:
        assert isinstance(follower.items[0], Snapshot)
        await writer.commit([put(root + "a", b"2"), delete(root + "b"), put(root + "c", b"1")])
        await follower.until_values({root + "a": b"2", root + "c": b"1"})
        assert not any(isinstance(item, Snapshot) for item in follower.items[1:])
        entry = await writer.get(root + "a")
        assert follower.world[root + "a"] == entry


async def test_a_watch_keeps_nothing_of_a_snapshot_that_was_taken(
    client: Client, root: str
) -> None:
    """All records of a store are megabytes, and a watch may wait for the next change for ever."""
    writer = client()
    await writer.commit([put(root + "a")])

    # the store in memory is made of entries itself
    kinds = (Snapshot,) if isinstance(writer, MemoryBackend) else (Snapshot, Entry)
    items = cast("AsyncGenerator[Snapshot | Delta]", client().watch(root))
    assert root + "a" in (await anext(items)).entries  # type: ignore[union-attr]
    async with background("next item", anext(items)) as following:
        await asyncio.sleep(0)
        assert not held(kinds, root)
        await writer.commit([put(root + "b")])
        await following


async def test_a_watch_whose_snapshot_has_some_parts(client: Client, root: str) -> None:
    writer = client()
    await writer.commit([put(root + name) for name in ("a-1", "b-1", "c-1", "a")])
    async with following(client(), root, lambda: [root + "a-", root + "c-"]) as follower:
        assert set(follower.items[0].entries) == {root + "a-1", root + "c-1"}  # type: ignore[union-attr]
        await writer.commit([put(root + "b-2"), delete(root + "a-1")])
        await follower.until_values({root + "b-2": b"v", root + "c-1": b"v"})


async def test_a_watch_whose_snapshot_has_no_part_reaches_what_comes(
    client: Client, root: str
) -> None:
    writer = client()
    await writer.commit([put(root + "a")])
    async with following(client(), root, list) as follower:
        assert not follower.items[0].entries  # type: ignore[union-attr]
        (outcome,) = await writer.commit([put(root + "b")])
        await follower.until_values({root + "b": b"v"})
        assert isinstance(outcome, Committed)
        assert follower.items[-1].rev >= outcome.rev > follower.items[0].rev


async def test_a_commit_is_seen_whole(client: Client, root: str) -> None:
    writer = client()
    async with following(client(), root) as follower:
        for number in range(20):
            value = str(number).encode()
            await writer.commit([put(root + "a", value), put(root + "b", value)])
        await follower.until(lambda world: len(world) == 2 and world[root + "b"].value == b"19")
        seen = dict.fromkeys((root + "a", root + "b"), b"")
        for item in follower.items[1:]:
            assert not isinstance(item, Snapshot)
            seen |= {entry.key: entry.value for entry in item.puts}
            assert len(set(seen.values())) == 1


async def test_a_watch_reaches_a_commits_revision_with_what_it_changed(
    client: Client, root: str
) -> None:
    writer = client()
    last = 0
    async with following(client(), root) as follower:
        for change, world in (
            (put(root + "a", b"1"), {root + "a": b"1"}),
            (put(root + "a", b"2"), {root + "a": b"2"}),
            (delete(root + "a"), dict[str, bytes]()),
        ):
            (outcome,) = await writer.commit([change], writer="contract")
            assert isinstance(outcome, Committed)
            last = outcome.rev
            if not any(item.rev >= last for item in follower.items):
                await follower.until_values(world)
            assert follower.items[-1].rev >= last
            await writer.commit([put("/elsewhere" + root, b"")])
    async with following(client(), root) as late:
        assert late.items[0].rev >= last


async def test_a_watch_hears_nothing_of_other_prefixes(client: Client, root: str) -> None:
    writer = client()
    async with following(client(), root + "net/") as follower:
        await writer.commit([put(root + "network/a"), put(root + "net")])
        await writer.commit([put(root + "net/a")])
        await follower.until_values({root + "net/a": b"v"})
        assert len(follower.items) == 2


async def test_leases_that_end_are_deletes(client: Client, root: str) -> None:
    writer = client()
    lease = await writer.lease(5)
    await writer.commit([Change((), (Put(root + "a", b"", lease),))])
    async with following(client(), root) as follower:
        assert set(follower.world) == {root + "a"}
        await lease.revoke()
        await follower.until_values({})


async def test_several_watches_of_one_client(client: Client, root: str) -> None:
    backend = client()
    async with following(backend, root + "a/") as one, following(backend, root + "b/") as other:
        await backend.commit([put(root + "a/x"), put(root + "b/y")])
        await one.until_values({root + "a/x": b"v"})
        await other.until_values({root + "b/y": b"v"})


@pytest.mark.parametrize("further", [0, 60], ids=["behind", "past"])
async def test_a_store_that_went_back_is_a_rewound_snapshot(
    served: Served, client: Client, root: str, further: int
) -> None:
    writer = client()
    await writer.commit([put(root + "a", b"1"), put(root + "b", b"1")])
    saved = await asyncio.to_thread(served.save)
    async with following(client(), root) as follower:
        for number in range(20):
            await writer.commit([put(root + "a", str(number).encode()), put(root + "lost")])
        await writer.commit([delete(root + "b")])
        await follower.until_values({root + "a": b"19", root + "lost": b"v"})
        await asyncio.to_thread(partial(served.restore, saved, further=further))
        await follower.until_values({root + "a": b"1", root + "b": b"1"})
        snapshots = [item for item in follower.items if isinstance(item, Snapshot)]
        assert [one.rewound for one in snapshots] == [False, True]
        await writer.commit([put(root + "new")])
        await follower.until_values({root + "a": b"1", root + "b": b"1", root + "new": b"v"})


@pytest.mark.parametrize("further", [0, 60], ids=["behind", "past"])
async def test_a_watch_of_a_single_key_that_went_back(
    served: Served, client: Client, root: str, further: int
) -> None:
    writer = client()
    await writer.commit([put(root + "a", b"1")])
    saved = await asyncio.to_thread(served.save)
    async with following(client(), root) as follower:
        await writer.commit([delete(root + "a")])
        await follower.until_values({})
        await asyncio.to_thread(partial(served.restore, saved, further=further))
        await follower.until_values({root + "a": b"1"})
        snapshots = [item for item in follower.items if isinstance(item, Snapshot)]
        assert [one.rewound for one in snapshots] == [False, True]


async def test_a_lock_that_the_restored_store_does_not_know_is_lost(
    served: Served, client: Client, root: str
) -> None:
    saved = await asyncio.to_thread(served.save)
    lock, other = client().lock(root + "lock", "me", 5), client().lock(root + "lock", "you", 5)
    fence = await lock.acquire()
    async with background("second holder", other.acquire()) as second:
        await asyncio.to_thread(partial(served.restore, saved, further=60))
        async with asyncio.timeout(WITHIN):
            await lock.lost()
            await second
    with pytest.raises(FenceLost):
        await client().commit([put(root + "a")], fence=fence)


async def test_a_commit_after_the_store_lost_the_writers_last_one_is_refused(
    served: Served, client: Client, root: str
) -> None:
    backend = client()
    fence = await backend.lock(root + "lock", "me", 60).acquire()
    await backend.commit([put(root + "a")], fence=fence, writer=root[1:-1])
    saved = await asyncio.to_thread(served.save)
    await backend.commit([put(root + "lost")], fence=fence, writer=root[1:-1])
    await asyncio.to_thread(partial(served.restore, saved, further=60))
    with pytest.raises(StoreRewound):
        await backend.commit([put(root + "b")], fence=fence, writer=root[1:-1])
    assert await backend.get(root + "b") is None
    await backend.commit([put(root + "c")], writer=root[1:-1])
    assert await backend.get(root + "c") is not None


async def test_closing_the_client_ends_its_watches(client: Client, root: str) -> None:
    backend = client()
    async with (
        following(backend, root) as follower,
        background("second", follower.follow(backend, root)) as second,
    ):
        await asyncio.sleep(0.1)
        await backend.close()
        async with asyncio.timeout(WITHIN):
            await second
