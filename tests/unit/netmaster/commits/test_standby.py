"""A standby hands over what the store holds, and all that its watch reports after that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import keys
from core.errors import NotLeader, StoreDenied
from core.tasks import background
from netmaster.commits.mirror import PART, Mirror
from netmaster.commits.standby import Standby, following
from objdb.api import Change, Delete, Delta, Entry, Put, Snapshot
from objdb.memory import Faults, MemoryBackend, MemoryStore
from tests.bed.held import held
from tests.bed.waiting import eventually_async

KEYS = [keys.HOSTS + name for name in "abc"]


class Costly(MemoryBackend):
    """A store whose watches cost all that they read, at each change."""

    incremental = False


def put(store: MemoryStore, key: str, value: bytes = b"") -> Entry:
    """Put a key; return its entry."""
    store.apply([Change((), (Put(key, value),))])
    entry = store.get(key)
    assert entry is not None
    return entry


def delete(store: MemoryStore, key: str) -> None:
    store.apply([Change((), (Delete(key),))])


def revs(store: MemoryStore) -> dict[str, int]:
    """Return the revisions of all keys."""
    return {key: entry.rev for key, entry in store.snapshot(keys.ROOT).entries.items()}


@asynccontextmanager
async def ready(backend: MemoryBackend) -> AsyncIterator[Standby]:
    """Follow until the store was read, then no longer."""
    async with following(backend) as standby:
        async with background("follow", standby.follow()):

            async def has_read() -> bool:
                return standby.is_ready

            await eventually_async(has_read, "it has read the store")
        yield standby


async def until(mirror: Mirror, reports: AsyncIterator[Snapshot | Delta], rev: int) -> None:
    """Take over reports up to a revision."""
    while mirror.rev < rev:
        for _ in mirror.update(await anext(reports)):
            pass


async def test_what_was_written_before_is_handed_over_and_the_rest_reported() -> None:
    store = MemoryStore()
    put(store, KEYS[0])
    async with ready(MemoryBackend(store)) as standby:
        delete(store, KEYS[0])
        mark = put(store, KEYS[1])
        mirror, reports = await standby.hand_over([mark])
        assert mirror.revs == {KEYS[1]: mark.rev}
        later = put(store, KEYS[2])
        await until(mirror, reports, later.rev)
        assert mirror.revs == revs(store)


async def test_nothing_is_kept_of_a_snapshot_but_its_records() -> None:
    store = MemoryStore()
    kept = keys.HOSTS + "kept-no-more"
    put(store, kept)
    async with ready(MemoryBackend(store)) as standby:
        assert not held((Snapshot,), kept)
        mirror, _reports = await standby.hand_over([])
        assert kept in mirror.revs


async def test_without_a_follower_all_is_read_at_the_hand_over() -> None:
    store = MemoryStore()
    mark = put(store, KEYS[0])
    for backend in (MemoryBackend(store), Costly(store)):
        async with following(backend) as standby:
            mirror, _ = await standby.hand_over([mark])
            assert mirror.revs == revs(store)


async def test_where_watches_cost_everything_nothing_is_followed() -> None:
    async with following(Costly()) as standby:
        await standby.follow()
        assert not standby.is_ready


async def test_a_mark_is_waited_for() -> None:
    store = MemoryStore()
    follower = MemoryBackend(store, Faults())
    async with ready(follower) as standby:
        follower.faults.reachable.clear()
        mark = put(store, KEYS[0])
        async with background("hand-over", standby.hand_over([mark])) as handing:
            await asyncio.sleep(0.01)
            assert not handing.done()
            follower.faults.reachable.set()
            mirror, _ = await handing
            assert mirror.revs == revs(store)


async def test_a_mark_that_the_store_lost_is_not_waited_for() -> None:
    store = MemoryStore()
    before = store.save()
    async with ready(MemoryBackend(store)) as standby:
        mark = put(store, KEYS[0])
        store.restore(before)
        mirror, _ = await standby.hand_over([mark])
        assert mirror.revs == {}


@pytest.mark.parametrize("steps_of_loop", range(1, 9))
async def test_a_follower_that_is_stopped_within_an_item_goes_on_with_it(
    steps_of_loop: int,
) -> None:
    store = MemoryStore()
    many = Change((), tuple(Put(f"{keys.HOSTS}{number}", b"") for number in range(3 * PART)))
    async with ready(MemoryBackend(store)) as standby:
        async with background("follow", standby.follow()):
            await asyncio.sleep(0)
            store.apply([many])
            for _ in range(steps_of_loop):
                await asyncio.sleep(0)
        mark = store.get(many.ops[0].key)
        assert mark is not None
        mirror, _ = await standby.hand_over([mark])
        assert mirror.revs == revs(store)


async def test_a_closed_store_has_no_next_leader() -> None:
    backend = MemoryBackend()
    async with ready(backend) as standby:
        await backend.close()
        with pytest.raises(NotLeader):
            await standby.hand_over([Entry(KEYS[0], b"", 1)])


async def test_a_refusal_of_the_store_is_told_who_leads() -> None:
    class Denied(MemoryBackend):
        async def watch(self, *_: object, **__: object) -> AsyncIterator[Snapshot | Delta]:
            yield Snapshot(0, {})
            raise StoreDenied("no permission")

    async with following(Denied()) as standby:
        with pytest.raises(StoreDenied):
            await standby.follow()
        with pytest.raises(StoreDenied):
            await standby.hand_over([Entry(KEYS[0], b"", 1)])


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(KEYS)),
        st.tuples(st.just("delete"), st.sampled_from(KEYS)),
        st.tuples(st.just("lose continuity"), st.just("")),
        st.tuples(st.just("other tasks run"), st.just("")),
    ),
    max_size=10,
)


@given(before=st.lists(steps, max_size=4), after=steps)
async def test_nothing_is_missed_whenever_the_follower_stops(
    before: list[list[tuple[str, str]]], after: list[tuple[str, str]]
) -> None:
    store = MemoryStore()
    async with following(MemoryBackend(store)) as standby:
        for steps_that_are_followed in before:
            async with background("follow", standby.follow()):
                for step, key in steps_that_are_followed:
                    await _change(store, step, key)
        mark = put(store, KEYS[0], b"mark")
        mirror, reports = await standby.hand_over([mark])
        assert mirror.revs == revs(store)
        for step, key in after:
            await _change(store, step, key)
        last = put(store, KEYS[1], b"last")
        await until(mirror, reports, last.rev)
        assert mirror.revs == revs(store)


async def _change(store: MemoryStore, step: str, key: str) -> None:
    match step:
        case "put":
            put(store, key)
        case "delete":
            delete(store, key)
        case "lose continuity":
            store.lose_continuity()
        case _:
            await asyncio.sleep(0)
