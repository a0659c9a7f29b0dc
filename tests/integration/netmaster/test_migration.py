"""The schema of a store that an older release used, on real stores: raised once, and never back."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from core import keys
from core.errors import NotLeader
from netmaster.migration import migrate
from netmaster.plan.migrations import Migration
from objdb.api import Backend, Change, Fence, Outcome, Put, split
from state import codec, schema
from state.records import ServiceInstance
from state.schema import VERSION, SchemaStamp
from tests.bed.master import Master
from tests.bed.store import Store, client
from tests.bed.waiting import eventually, eventually_async

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd", "consul")]

RECORDS = {f"{keys.ROOT}state/x/{number}": b"a" * 100 for number in range(300)}
"""More than one transaction takes."""


def moved(key: str, value: bytes) -> Mapping[str, bytes]:
    """Move a record, unless that was done."""
    return {key.replace("/x/", "/y/"): value}


MOVES = (Migration(2, moved),)


async def put(backend: Backend, values: Mapping[str, bytes]) -> None:
    changes = [Change((), (Put(key, value),)) for key, value in values.items()]
    for group in split(changes, backend.limits):
        await backend.commit(group)


async def version_of(backend: Backend) -> SchemaStamp | None:
    entry = await backend.get(keys.SCHEMA)
    return schema.decode(entry.value) if entry else None


async def test_a_migration_of_a_deposed_leader_is_ended_by_the_next(store: Store) -> None:
    first, second = client(store), client(store)
    try:
        await put(first, {keys.SCHEMA: schema.encode(SchemaStamp(1)), **RECORDS})
        lock = first.lock(keys.LEADER_LOCK, "first", 5.0)
        fence = await lock.acquire()
        commit, made = first.commit, itertools.count(1)

        async def deposed_later(
            changes: Sequence[Change], *, fence: Fence | None, writer: str | None
        ) -> list[Outcome]:
            if next(made) == 3:  # after the stamp and some records
                await lock.release()
            return await commit(changes, fence=fence, writer=writer)

        with patch.object(first, "commit", deposed_later), pytest.raises(NotLeader):
            await migrate(first, fence, "first", MOVES)
        assert await version_of(second) == SchemaStamp(2, came_from=1)
        half = await second.snapshot(keys.ROOT + "state/x/")
        assert 0 < len(half.entries) < len(RECORDS)
        fence = await second.lock(keys.LEADER_LOCK, "second", 5.0).acquire()
        assert await migrate(second, fence, "second", MOVES) == 2
        assert await version_of(second) == SchemaStamp(2)
        found = await second.snapshot(keys.ROOT + "state/")
        assert {key: entry.value for key, entry in found.entries.items()} == {
            key.replace("/x/", "/y/"): value for key, value in RECORDS.items()
        }
    finally:
        await first.close()
        await second.close()


async def test_masters_raise_the_schema_when_the_last_older_one_has_gone(
    bed_dir: Path, store: Store
) -> None:
    older = ServiceInstance(service=keys.SERVICE_NETMASTER, address="127.0.0.1", port=1)
    registration = keys.service(older.service, older.address, older.port)
    backend = client(store)
    master = Master(bed_dir, store)
    try:
        await put(
            backend,
            {keys.SCHEMA: schema.encode(SchemaStamp(1)), registration: codec.encode(older)},
        )
        master.start()
        assert await version_of(backend) == SchemaStamp(1)
        assert await backend.get(keys.LINEAGE) is None
        assert master.ask("POST", "/api/v1/tenants/t/", {"tenantName": "t"}).status == 200
        store.delete(registration)

        async def raised() -> bool:
            return await version_of(backend) == SchemaStamp(VERSION)

        await eventually_async(raised, "the schema is raised")
        eventually(
            lambda: master.ask("POST", "/api/v1/tenants/u/", {"tenantName": "u"}).status == 200,
            "it leads again",
        )
        assert await backend.get(keys.LINEAGE) is not None
        assert master.ask("GET", "/api/v1/tenants/t/").status == 200
    finally:
        master.kill()
        await backend.close()
