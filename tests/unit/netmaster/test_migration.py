"""Migrations of the store's schema: who is waited for, and what a cut leaves."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from core import keys
from core.errors import NotLeader, SchemaMismatch
from core.ids import HostLabel
from netmaster.migration import Readers, migrate, readers, until_all_read_newest
from netmaster.plan.migrations import Migration
from objdb.api import Change, Delete, Limits, Put
from objdb.memory import Faults, MemoryBackend, MemoryStore
from state import codec, schema
from state.records import HostRecord, ServiceInstance
from state.schema import VERSION, SchemaStamp
from tests.unit.netmaster.term import GatedBackend

RECORDS = {f"{keys.ROOT}state/x/{number}": b"a" for number in range(20)}
OLD = ServiceInstance(service=keys.SERVICE_NETMASTER, address="10.0.0.2", port=9999)
HOST = HostRecord(label=HostLabel("h1"), control_ip="10.0.0.1", vtep_ip="", vxlan_port=4789)
WRITER = "netmaster-10.0.0.1:9999"


def twice(key: str, value: bytes) -> Mapping[str, bytes]:
    """Move a record and double its value, unless that was done."""
    return {key: value} if key.endswith("-2") else {f"{key}-2": value * 2}


MOVES = (Migration(2, twice),)


def store_of(*puts: Put) -> MemoryStore:
    store = MemoryStore()
    store.apply([Change((), (put,)) for put in puts])
    return store


def stamp(number: int) -> Put:
    return Put(keys.SCHEMA, schema.encode(SchemaStamp(number)))


def registered(instance: ServiceInstance) -> Put:
    key = keys.service(instance.service, instance.address, instance.port)
    return Put(key, codec.encode(instance))


def stamp_of(store: MemoryStore) -> SchemaStamp:
    entry = store.get(keys.SCHEMA)
    assert entry is not None
    return schema.decode(entry.value)


def moved(store: MemoryStore) -> dict[str, bytes]:
    found = store.snapshot(keys.ROOT + "state/x/").entries
    return {key: entry.value for key, entry in found.items()}


async def led(backend: MemoryBackend, migrations: tuple[Migration, ...]) -> int:
    lock = backend.lock(keys.LEADER_LOCK, "here", 10.0)
    fence = await lock.acquire()
    try:
        return await migrate(backend, fence, WRITER, migrations)
    finally:
        await lock.release()


async def test_an_empty_store_gets_the_newest_version() -> None:
    store = MemoryStore()
    assert await led(MemoryBackend(store), (Migration(VERSION),)) == VERSION
    assert stamp_of(store) == schema.CURRENT


async def test_a_store_is_converted_once() -> None:
    store = store_of(stamp(1), *(Put(key, value) for key, value in RECORDS.items()))
    assert await led(MemoryBackend(store), MOVES) == 2
    expected = {f"{key}-2": b"aa" for key in RECORDS}
    assert (moved(store), stamp_of(store)) == (expected, SchemaStamp(2))
    before = store.snapshot(keys.ROOT + "state/").rev
    assert await led(MemoryBackend(store), MOVES) == 2
    assert max(e.rev for e in store.snapshot(keys.ROOT + "state/").entries.values()) <= before


@pytest.mark.parametrize("made", range(1, 7))
async def test_a_migration_cut_off_anywhere_is_ended_by_the_next_leader(made: int) -> None:
    store = store_of(stamp(1), *(Put(key, value) for key, value in RECORDS.items()))
    cut = GatedBackend(store, Faults())
    cut.limits = Limits(budget=6, bytes=10_000)  # so that several commits are needed
    cut.last_commit = made
    with pytest.raises(NotLeader):
        await led(cut, MOVES)
    halfway = stamp_of(store)
    assert halfway == SchemaStamp(2, came_from=1), "no older release leads on half of it"
    # An older master appeared meanwhile. What was begun is ended: it could not read the rest.
    store.apply([Change((), (registered(OLD),))])
    assert await led(MemoryBackend(store), MOVES) == 2
    assert moved(store) == {f"{key}-2": b"aa" for key in RECORDS}
    assert stamp_of(store) == SchemaStamp(2)


@pytest.mark.parametrize(
    ("older", "name"),
    [
        (registered(OLD), "master 10.0.0.2:9999"),
        (Put(keys.host(HOST.label), codec.encode(HOST)), "host h1"),
    ],
)
async def test_an_older_master_or_host_is_waited_for(older: Put, name: str) -> None:
    store = store_of(stamp(1), *(Put(key, value) for key, value in RECORDS.items()), older)
    backend = MemoryBackend(store)
    assert (await readers(backend)).behind(VERSION) == [name]
    assert await led(backend, MOVES) == 1
    assert (moved(store), stamp_of(store)) == (RECORDS, SchemaStamp(1))
    store.apply([Change((), (Delete(older.key),))])
    await until_all_read_newest(backend, 0)
    assert await led(backend, MOVES) == 2


async def test_an_upgraded_master_and_host_are_not_waited_for() -> None:
    new = replace(OLD, schema=VERSION)
    host = replace(HOST, schema=VERSION)
    store = store_of(registered(new), Put(keys.host(host.label), codec.encode(host)))
    assert (await readers(MemoryBackend(store))).newest() == VERSION


def test_a_newer_reader_raises_nothing() -> None:
    assert Readers(versions={"master m": VERSION + 1}).newest() == VERSION


async def test_a_store_of_a_newer_release_is_refused() -> None:
    store = store_of(stamp(VERSION + 1))
    with pytest.raises(SchemaMismatch, match=f"version {VERSION + 1}"):
        await led(MemoryBackend(store), MOVES)


async def test_a_deposed_leader_converts_nothing() -> None:
    store = store_of(stamp(1), *(Put(key, value) for key, value in RECORDS.items()))
    backend = MemoryBackend(store)
    lock = backend.lock(keys.LEADER_LOCK, "here", 10.0)
    fence = await lock.acquire()
    await lock.release()
    with pytest.raises(NotLeader):
        await migrate(backend, fence, WRITER, MOVES)
    assert (moved(store), stamp_of(store)) == (RECORDS, SchemaStamp(1))
