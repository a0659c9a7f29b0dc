"""`state.watch` over the memory backend: typed events, one per key, with unknown keys counted."""

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core import keys
from core.ids import EndpointKey, HostLabel
from core.tasks import background
from objdb.api import Change, Delete, Put, Snapshot
from objdb.memory import MemoryBackend, MemoryStore
from state import codec, lineage
from state.lineage import Lineage, Term
from state.records import EndpointRecord, GlobalRecord, HostRecord, Record
from state.watch import (
    AGENT_PREFIXES,
    Changed,
    Event,
    HistoryUnverified,
    RecordFeed,
    Removed,
    ScopeChanged,
    StoreRolledBack,
    SyncedTo,
)
from tests.bed.held import held
from tests.bed.waiting import WITHIN
from tests.unit.state.codec import ENDPOINT, HOST, NETWORK

HOST_KEY = keys.host(HOST.label)


def put(key: str, record: Record) -> Change:
    return Change((), (Put(key, codec.encode(record)),))


def delete(key: str) -> Change:
    return Change((), (Delete(key),))


def host(label: str, version: str = "1") -> HostRecord:
    return dataclasses.replace(HOST, label=HostLabel(label), version=version)


@asynccontextmanager
async def running(store: MemoryStore, *prefixes: str) -> AsyncIterator[RecordFeed]:
    backend = MemoryBackend(store)
    feed = RecordFeed(backend, prefixes or AGENT_PREFIXES)
    async with background("feed", feed.run()):
        yield feed
    await backend.close()


async def take(feed: RecordFeed, limit: int = 5000) -> list[Event]:
    async with asyncio.timeout(WITHIN):
        return await feed.take(limit)


async def take_until_complete(feed: RecordFeed) -> list[Event]:
    events: list[Event] = []
    while not feed.complete:
        events += await take(feed)
    return events


async def test_nothing_is_kept_of_a_snapshot_but_its_records() -> None:
    store = MemoryStore()
    store.apply([put(HOST_KEY, HOST)])
    async with running(store, keys.HOSTS) as feed:
        await take_until_complete(feed)
        assert not held((Snapshot,), HOST_KEY)
        assert HOST_KEY in feed.records


def reached(store: MemoryStore, prefix: str) -> SyncedTo:
    """Return the event that follows all current content of the store."""
    return SyncedTo(prefix, store.snapshot(prefix).rev)


async def take_all(feed: RecordFeed, store: MemoryStore, prefix: str = keys.HOSTS) -> list[Event]:
    """Return the changes up to what the store holds now."""
    last, events = reached(store, prefix), list[Event]()
    while last not in events:
        events += await take(feed)
    return [event for event in events if not isinstance(event, SyncedTo)]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_an_agent_reads_every_source_once_then_it_is_complete(store: MemoryStore) -> None:
    config = GlobalRecord(
        infra_type="default", fwd_mode="routing", arp_mode="proxy", pvt_subnet="172.19.0.0/16"
    )
    wanted: dict[str, Record] = {
        keys.GLOBAL_CONFIG: config,
        keys.network(NETWORK.id): NETWORK,
        keys.endpoint(ENDPOINT.key): ENDPOINT,
        HOST_KEY: HOST,
    }
    store.apply([put(key, record) for key, record in wanted.items()])
    async with running(store) as feed:
        assert not feed.complete
        events = await take_until_complete(feed)
    changed = {event.key: event.record for event in events if isinstance(event, Changed)}
    assert changed == wanted == feed.records
    assert {e.prefix for e in events if isinstance(e, SyncedTo)} == set(AGENT_PREFIXES)
    for prefix in AGENT_PREFIXES:
        order = [e for e in events if _about(e).startswith(prefix)]
        assert order[-1] == reached(store, prefix)


async def test_changes_carry_what_the_reader_knew(store: MemoryStore) -> None:
    store.apply([put(HOST_KEY, host("h1", "1"))])
    async with running(store, keys.HOSTS) as feed:
        assert await take(feed) == [
            Changed(HOST_KEY, host("h1", "1"), None),
            reached(store, keys.HOSTS),
        ]
        store.apply([put(HOST_KEY, host("h1", "2"))])
        assert await take_all(feed, store) == [
            Changed(HOST_KEY, host("h1", "2"), host("h1", "1")),
        ]
        store.apply([delete(HOST_KEY)])
        assert await take_all(feed, store) == [Removed(HOST_KEY, host("h1", "2"))]


async def test_what_is_reached_stands_behind_what_is_told(store: MemoryStore) -> None:
    async with running(store, keys.HOSTS) as feed:
        await take_until_complete(feed)
        for label in ("h1", "h2"):
            store.apply([put(keys.host(HostLabel(label)), host(label))])
            await _delivered(feed, keys.host(HostLabel(label)))
        first, second = await take(feed, 2)
        assert [type(first), type(second)] == [Changed, Changed]
        assert await take(feed) == [reached(store, keys.HOSTS)]


async def test_prefixes_are_reached_each_for_itself(store: MemoryStore) -> None:
    async with running(store, keys.HOSTS, keys.NETWORKS) as feed:
        assert await take_until_complete(feed) == [
            reached(store, keys.HOSTS),
            reached(store, keys.NETWORKS),
        ]
        store.apply([put(HOST_KEY, HOST)])
        known = reached(store, keys.HOSTS)
        store.apply([Change((), (Put(keys.COMMITS + "somebody", b""),))])
        assert await take(feed) == [Changed(HOST_KEY, HOST, None), known]


async def test_a_key_waits_once_with_its_last_state(store: MemoryStore) -> None:
    async with running(store, keys.HOSTS) as feed:
        await take_until_complete(feed)
        for version in ("1", "2", "3"):
            store.apply([put(HOST_KEY, host("h1", version))])
        other = keys.host(HostLabel("h2"))
        store.apply([put(other, host("h2"))])
        store.apply([delete(other)])
        last = keys.host(HostLabel("h3"))
        store.apply([put(last, host("h3"))])
        await _delivered(feed, last)
        assert await take_all(feed, store) == [
            Changed(HOST_KEY, host("h1", "3"), None),
            Changed(last, host("h3"), None),
        ]


async def test_a_rewrite_of_the_same_record_changes_nothing_and_is_reached(
    store: MemoryStore,
) -> None:
    store.apply([put(HOST_KEY, HOST)])
    async with running(store, keys.HOSTS) as feed:
        await take_until_complete(feed)
        store.apply([put(HOST_KEY, HOST)])
        assert await take(feed) == [reached(store, keys.HOSTS)]


async def test_deletes_found_by_a_resync_are_events_like_any_other(store: MemoryStore) -> None:
    labels = [HostLabel(f"h{number}") for number in range(3)]
    store.apply([put(keys.host(label), host(label)) for label in labels])
    async with running(store, keys.HOSTS) as feed:
        await take_until_complete(feed)
        store.apply([delete(keys.host(labels[0])), put(keys.host(labels[1]), host("h1", "2"))])
        store.lose_continuity()
        assert await take(feed) == [
            Removed(keys.host(labels[0]), host("h0")),
            Changed(keys.host(labels[1]), host("h1", "2"), host("h1")),
            reached(store, keys.HOSTS),
        ]
        assert feed.complete


async def test_an_unreadable_value_is_counted_and_the_last_good_record_stays(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.apply([put(HOST_KEY, HOST)])
    async with running(store, keys.HOSTS) as feed:
        await take_until_complete(feed)
        with caplog.at_level(logging.WARNING, "state.watch"):
            store.apply([Change((), (Put(HOST_KEY, b"{"),))])
            store.apply([put(keys.host(HostLabel("h2")), host("h2"))])
            assert [type(event) for event in await take_all(feed, store)] == [Changed]
        assert feed.undecodable == 1
        assert feed.unreadable.keys() == {HOST_KEY}
        assert HOST_KEY in str(caplog.records[0].__dict__["key"])
        assert feed.records[HOST_KEY] == HOST
        store.apply([delete(HOST_KEY)])
        assert await take_all(feed, store) == [Removed(HOST_KEY, HOST)]
        assert feed.unreadable == {}


async def test_what_can_be_read_again_or_is_gone_is_no_longer_unreadable(
    store: MemoryStore,
) -> None:
    other = keys.host(HostLabel("h2"))
    bad = [Change((), (Put(key, b"{"),)) for key in (HOST_KEY, other)]
    store.apply(bad)
    async with running(store, keys.HOSTS) as feed:
        await take_until_complete(feed)
        assert feed.unreadable.keys() == {HOST_KEY, other}
        store.apply([put(HOST_KEY, HOST), delete(other)])
        store.lose_continuity()
        await take_all(feed, store)
        assert feed.unreadable == {}


async def test_an_unknown_key_is_counted(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.apply([Change((), (Put(keys.MASTER_CONFIG + "other", b"{}"),))])
    async with running(store, keys.MASTER_CONFIG) as feed:
        with caplog.at_level(logging.WARNING, "state.watch"):
            assert await take(feed) == [reached(store, keys.MASTER_CONFIG)]
    assert feed.unknown == 1
    assert "unknown key" in caplog.text


async def test_take_gives_no_more_than_asked(store: MemoryStore) -> None:
    store.apply([put(keys.host(HostLabel(f"h{n}")), host(f"h{n}")) for n in range(10)])
    async with running(store, keys.HOSTS) as feed:
        sizes = []
        while not feed.complete:
            sizes.append(len(await take(feed, 4)))
    assert sizes == [4, 4, 3]


def endpoints(count: int) -> list[EndpointRecord]:
    return [
        dataclasses.replace(ENDPOINT, key=EndpointKey(f"n.t-{n}"), endpoint_id=str(n))
        for n in range(count)
    ]


async def test_many_endpoints_do_not_hold_the_loop(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply([put(keys.endpoint(record.key), record) for record in endpoints(20_000)])
    turn, decode = 0, codec.decode
    decoded: Counter[int] = Counter()

    async def tick() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def counted(key: str, value: bytes) -> Record | None:
        decoded[turn] += 1
        return decode(key, value)

    monkeypatch.setattr(codec, "decode", counted)
    async with running(store, keys.ENDPOINTS) as feed, background("ticks", tick()):
        events = await take_until_complete(feed)
    assert len(events) == 20_001
    assert decoded.total() == 20_000
    assert max(decoded.values()) <= 500, "records decoded in one turn of the loop"


FOLLOWED = (keys.MASTER_CONFIG, keys.HOSTS)


def begin(store: MemoryStore, *terms: Term) -> None:
    store.apply([Change((), (Put(keys.LINEAGE, lineage.encode(Lineage(terms))),))])


async def test_what_was_read_further_than_the_next_term_shares_is_read_anew(
    store: MemoryStore,
) -> None:
    begin(store, Term("a", 0))
    store.apply([put(HOST_KEY, HOST)])
    async with running(store, *FOLLOWED) as feed:
        await take_until_complete(feed)
        begin(store, Term("a", 0), Term("b", store.snapshot(keys.HOSTS).rev - 1))
        events = await take_reached(feed, store, keys.HOSTS)
    assert HistoryUnverified(keys.HOSTS) in events[:2], "before anything else of the new history"
    assert {event.key for event in events if isinstance(event, Changed)} == {keys.LINEAGE}


async def test_what_the_next_term_shares_is_kept(store: MemoryStore) -> None:
    begin(store, Term("a", 0))
    async with running(store, *FOLLOWED) as feed:
        await take_until_complete(feed)
        begin(store, Term("a", 0), Term("b", store.snapshot(keys.HOSTS).rev))
        events = await take_all(feed, store, keys.MASTER_CONFIG)
    assert [type(event) for event in events] == [Changed]


@pytest.mark.parametrize("terms", [(Term("c", 0, loaded=True),), (Term("c", 0), Term("d", 9))])
async def test_a_lineage_without_the_last_term_shares_nothing(
    store: MemoryStore, terms: tuple[Term, ...]
) -> None:
    """Also what the watch of the settings itself has read is doubted."""
    begin(store, Term("a", 0))
    async with running(store, *FOLLOWED) as feed:
        await take_until_complete(feed)
        begin(store, *terms)
        events = await take_reached(feed, store, *FOLLOWED)
        assert {event.prefix for event in events if isinstance(event, HistoryUnverified)} == set(
            FOLLOWED
        )
        store.apply([put(HOST_KEY, HOST)])
        assert await take_all(feed, store) == [Changed(HOST_KEY, HOST, None)]


async def test_the_first_lineage_of_a_store_casts_no_doubt(store: MemoryStore) -> None:
    async with running(store, *FOLLOWED) as feed:
        await take_until_complete(feed)
        begin(store, Term("a", 0))
        events = await take_all(feed, store, keys.MASTER_CONFIG)
    assert [type(event) for event in events] == [Changed]


async def take_reached(feed: RecordFeed, store: MemoryStore, *prefixes: str) -> list[Event]:
    """Return the events until prefixes are reached as the store holds them now."""
    events = list[Event]()
    while any(reached(store, prefix) not in events for prefix in prefixes):
        events += await take(feed)
    return events


def _about(event: Event) -> str:
    assert not isinstance(event, ScopeChanged)
    return (
        event.prefix
        if isinstance(event, SyncedTo | StoreRolledBack | HistoryUnverified)
        else event.key
    )


async def _delivered(feed: RecordFeed, key: str) -> None:
    async with asyncio.timeout(WITHIN):
        while key not in feed.records:  # noqa: ASYNC110 - the feed has no event for tests
            await asyncio.sleep(0)


async def test_a_store_that_went_back_is_told_of_before_its_records(store: MemoryStore) -> None:
    store.apply([put(HOST_KEY, host("h1", "1"))])
    saved = store.save()
    async with running(store, keys.HOSTS) as feed:
        await take_all(feed, store)
        for version in ("2", "3"):
            store.apply([put(HOST_KEY, host("h1", version))])
            await take_all(feed, store)
        store.restore(saved)
        events: list[Event] = []
        while reached(store, keys.HOSTS) not in events:
            events += await take(feed)
    assert events == [
        StoreRolledBack(keys.HOSTS),
        Changed(HOST_KEY, host("h1", "1"), host("h1", "3")),
        reached(store, keys.HOSTS),
    ]
