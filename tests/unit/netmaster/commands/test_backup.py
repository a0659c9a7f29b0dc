"""Backups: what they hold, what is refused, and what becomes of a load that is cut short."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from core import keys
from core.errors import Conflict, ContivError, Invalid, SchemaMismatch, StoreUnavailable
from netmaster.commands import backup
from objdb.api import Change, Put
from objdb.memory import MemoryBackend, MemoryStore
from objdb.memory.faults import LostAnswer
from state import lineage, schema
from tests.unit.netmaster.term import load, term


async def a_store() -> MemoryStore:
    """Return a store in which something of each sort is stored."""
    store = MemoryStore()
    async with term(store) as leading:
        await leading.network("n1")
        await leading.endpoint("c1")
        stamp = Put(keys.SCHEMA, schema.encode(schema.CURRENT))
        store.apply([Change((), (stamp, Put(keys.HOSTS + "h1", b"{}")))])
    return store


def values(store: MemoryStore) -> dict[str, bytes]:
    """Return what a store holds."""
    return {key: entry.value for key, entry in store.snapshot(keys.ROOT).entries.items()}


async def test_a_round_trip_is_equal() -> None:
    store, other = await a_store(), MemoryStore()
    text = await backup.dump(MemoryBackend(store))
    count = await backup.load(MemoryBackend(other), text, replace=False)
    expected = values(store)
    del expected[keys.HOSTS + "h1"]
    begun = lineage.decode(values(other)[keys.LINEAGE])
    assert begun.was_loaded, "the loaded store has a history of its own"
    assert values(other) == expected | {keys.LINEAGE: lineage.encode(begun)}
    assert count == len(expected) - 1  # the stamp is not one of the backup's
    assert load(other).endpoints == load(store).endpoints


async def test_replacing_changes_only_what_differs() -> None:
    store = await a_store()
    text = await backup.dump(MemoryBackend(store))
    before = store.snapshot(keys.ROOT).entries
    async with term(store) as leading:
        await leading.network("n2", "10.2.0.0/16")
        await leading.delete_endpoint("c1")
    await backup.load(MemoryBackend(store), text, replace=True)
    after = store.snapshot(keys.ROOT).entries
    assert {key: entry.value for key, entry in after.items() if key != keys.LINEAGE} == {
        key: entry.value for key, entry in before.items()
    }
    network = keys.obj("network", "default:n1")
    assert after[network].rev == before[network].rev


async def test_a_store_in_use_is_not_replaced_unasked() -> None:
    store = await a_store()
    text = await backup.dump(MemoryBackend(store))
    before = values(store)
    with pytest.raises(Conflict, match="--replace"):
        await backup.load(MemoryBackend(store), text, replace=False)
    assert values(store) == before


async def test_a_leader_is_not_loaded_over() -> None:
    store = await a_store()
    text = await backup.dump(MemoryBackend(store))
    async with term(store):
        before = values(store)
        with pytest.raises(Conflict, match="here:9999 leads: stop every netmaster"):
            await backup.load(MemoryBackend(store), text, replace=True)
        assert values(store) == before


async def test_no_master_leads_on_a_load_that_was_cut_short() -> None:
    text = await backup.dump(MemoryBackend(await a_store()))
    backend = MemoryBackend()
    backend.faults.lost_answers.append(LostAnswer.APPLIED)
    with pytest.raises(StoreUnavailable):
        await backup.load(backend, text, replace=False)
    with pytest.raises(SchemaMismatch, match="run `netmaster load --replace`"):
        load(backend.store)
    with pytest.raises(SchemaMismatch):
        await backup.dump(backend)
    await backup.load(backend, text, replace=True)
    assert load(backend.store).schema == schema.CURRENT


async def test_a_store_without_a_leader_yet_is_not_dumped() -> None:
    with pytest.raises(Invalid, match="nothing to dump"):
        await backup.dump(MemoryBackend())


def changed(text: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Return a backup with something changed."""
    found = json.loads(text)
    change(found)
    return json.dumps(found)


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (
            lambda b: b.update(schema=schema.VERSION + 1, release="9.9"),
            SchemaMismatch,
            "that wrote it, 9.9",
        ),
        (lambda b: b.update(schema="1"), SchemaMismatch, "schema version 1, this netmaster"),
        (lambda b: b.pop("keys"), Invalid, "not a backup"),
        (lambda b: b["keys"].update({keys.HOSTS + "h": "{}"}), Invalid, "not a key of the leader"),
        (lambda b: b["keys"].update({keys.SCHEMA: "{}"}), Invalid, "not a key of the leader"),
        (lambda b: b["keys"].update({keys.NETWORKS + "n": "?"}), Invalid, "state/nets/n"),
        (lambda b: b["keys"].update({keys.NETWORKS + "n": 1}), Invalid, "not a backup"),
    ],
)
async def test_what_cannot_be_led_on_is_refused(
    change: Callable[[dict[str, Any]], None], kind: type[ContivError], text: str
) -> None:
    written = await backup.dump(MemoryBackend(await a_store()))
    backend = MemoryBackend()
    with pytest.raises(kind, match=text):
        await backup.load(backend, changed(written, change), replace=False)
    assert not values(backend.store)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema":1}'])
def test_what_is_no_backup_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a backup"):
        backup.read(text)
