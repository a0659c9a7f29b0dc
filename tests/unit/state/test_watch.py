"""`state.watch` over the memory backend: typed events, coalesced, with nothing ignored silently."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core import keys
from core.ids import EndpointKey, HostLabel
from core.tasks import background
from objdb.api import Change, Delete, Put
from objdb.memory import MemoryBackend, MemoryStore
from state import codec
from state.records import EndpointRecord, GlobalRecord, HostRecord, Record
from state.watch import AGENT_PREFIXES, SLICE, Changed, Event, RecordFeed, Removed, Resynced
from tests.unit.state.test_codec import ENDPOINT, HOST, NETWORK

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
    async with asyncio.timeout(5):
        return await feed.take(limit)


async def take_until_complete(feed: RecordFeed) -> list[Event]:
    events: list[Event] = []
    while not feed.complete:
        events += await take(feed)
    return events


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
    assert {e.prefix for e in events if isinstance(e, Resynced)} == set(AGENT_PREFIXES)
    for prefix in AGENT_PREFIXES:
        order = [e for e in events if getattr(e, "key", prefix).startswith(prefix)]
        assert (
            order.index(Resynced(prefix)) >= len([e for e in order if isinstance(e, Changed)]) - 1
        )


async def test_changes_carry_what_the_reader_knew(store: MemoryStore) -> None:
    store.apply([put(HOST_KEY, host("h1", "1"))])
    async with running(store, keys.HOSTS) as feed:
        assert await take(feed) == [Changed(HOST_KEY, host("h1", "1"), None), Resynced(keys.HOSTS)]
        store.apply([put(HOST_KEY, host("h1", "2"))])
        assert await take(feed) == [Changed(HOST_KEY, host("h1", "2"), host("h1", "1"))]
        store.apply([delete(HOST_KEY)])
        assert await take(feed) == [Removed(HOST_KEY, host("h1", "2"))]


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
        assert await take(feed) == [
            Changed(HOST_KEY, host("h1", "3"), None),
            Changed(last, host("h3"), None),
        ]


async def test_a_rewrite_of_the_same_record_is_not_news(store: MemoryStore) -> None:
    store.apply([put(HOST_KEY, HOST)])
    async with running(store, keys.HOSTS) as feed:
        await take_until_complete(feed)
        store.apply([put(HOST_KEY, HOST)])
        other = keys.host(HostLabel("h2"))
        store.apply([put(other, host("h2"))])
        assert await take(feed) == [Changed(other, host("h2"), None)]


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
            Resynced(keys.HOSTS),
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
            assert [type(event) for event in await take(feed)] == [Changed]
        assert feed.undecodable == 1
        assert HOST_KEY in str(caplog.records[0].__dict__["key"])
        assert feed.records[HOST_KEY] == HOST
        store.apply([delete(HOST_KEY)])
        assert await take(feed) == [Removed(HOST_KEY, HOST)]


async def test_an_unknown_key_is_counted(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.apply([Change((), (Put(keys.MASTER_CONFIG + "other", b"{}"),))])
    async with running(store, keys.MASTER_CONFIG) as feed:
        with caplog.at_level(logging.WARNING, "state.watch"):
            assert await take(feed) == [Resynced(keys.MASTER_CONFIG)]
    assert feed.unknown == 1
    assert "key of no known kind" in caplog.text


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


async def test_many_endpoints_do_not_hold_the_loop(store: MemoryStore) -> None:
    store.apply([put(keys.endpoint(record.key), record) for record in endpoints(20_000)])
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with running(store, keys.ENDPOINTS) as feed, background("ticks", tick()):
        events = await take_until_complete(feed)
    assert len(events) == 20_001
    assert turns >= 20_000 // SLICE


async def _delivered(feed: RecordFeed, key: str) -> None:
    async with asyncio.timeout(5):
        while key not in feed.records:  # noqa: ASYNC110 - the feed has no event for tests
            await asyncio.sleep(0)
