"""Terms of leadership on the memory store."""

import asyncio
import json
from unittest.mock import Mock

from aiohttp import StreamReader
from aiohttp.test_utils import make_mocked_request

from core import keys
from core.retry import begin_loops
from netmaster.api.http.server import RestServer, Role
from netmaster.leadership import (
    LeadershipTiming,
)
from objdb.api import Change, Delete, Put
from objdb.memory import Faults, MemoryStore
from objdb.memory.locks import MemoryLock
from state import codec, schema
from state.records import ServiceInstance
from state.schema import SchemaStamp
from tests.bed.waiting import eventually_async
from tests.unit.netmaster.leadership import Master, candidate

OTHER = "10.0.0.2:9999"


async def test_a_new_leader_makes_what_must_exist_and_gives_the_lock_back() -> None:
    store = MemoryStore()
    async with candidate(store) as master:
        await master.until_leading()
        assert master.announced == ["leader"]
        assert store.get(keys.obj("tenant", "default"))
        stored = store.get(keys.obj("global", "global"))
        assert stored
        assert b'"fwdMode":"routing"' in stored.value
        assert store.get(keys.LEADER_LOCK)
    assert master.follows()
    assert store.get(keys.LEADER_LOCK) is None


async def test_what_is_under_way_when_a_leader_ends_is_committed_and_answered() -> None:
    store = MemoryStore()
    async with asyncio.TaskGroup() as tasks:
        async with candidate(store, timing=LeadershipTiming(flush=30.0)) as master:
            await master.until_leading()
            master.backend.arrived.clear()
            master.backend.gate.clear()
            asked = tasks.create_task(created(master.server.role, "t"))
            await master.backend.arrived.wait()
            tasks.create_task(open_when_it_follows(master))
        assert store.get(keys.obj("tenant", "t"))
        assert store.get(keys.LEADER_LOCK) is None
    assert asked.result() == 200


async def created(role: Role, name: str) -> int:
    """Create a tenant; the status of the answer."""
    body = StreamReader(Mock(_reading_paused=False), 1 << 16)
    body.feed_data(json.dumps({"tenantName": name}).encode())
    body.feed_eof()
    server = RestServer()
    server.role = role
    request = make_mocked_request("POST", f"/api/v1/tenants/{name}/", payload=body)
    return (await server._handle(request)).status


async def open_when_it_follows(master: Master) -> None:
    """Let commits go on once new requests go elsewhere."""
    await master.until_following()
    master.backend.gate.set()


async def test_a_master_without_the_lock_forwards() -> None:
    store = MemoryStore()
    other = MemoryLock(store, keys.LEADER_LOCK, OTHER, 5)
    await other.acquire()
    async with candidate(store) as master:
        assert master.follows()
        await other.release()
        await master.until_leading()


async def test_a_leader_whose_lock_ends_follows_and_stands_again() -> None:
    store = MemoryStore()
    async with candidate(store) as master:
        await master.until_leading()
        other = MemoryLock(store, keys.LEADER_LOCK, OTHER, 5)
        assert master.lock.lease
        master.lock.lease.expire()
        await other.acquire()
        await master.until_following()
        assert master.announced == ["leader", "follower"]
        assert await master.lock.holder() == OTHER
        await other.release()
        await master.until_leading()
        assert master.announced == ["leader", "follower", "leader"]


async def test_a_leader_begins_anew_when_the_store_went_back() -> None:
    store = MemoryStore()
    async with candidate(store) as master:
        await master.until_leading()
        saved = store.save()
        assert await created(master.server.role, "lost") == 200
        first = master.server.role
        store.restore(saved)

        async def leads_anew() -> bool:
            return master.leads() and master.server.role != first

        await eventually_async(leads_anew, "another term began")
        assert master.announced == ["leader", "follower", "leader"]
        assert await created(master.server.role, "lost") == 200
        assert store.get(keys.obj("tenant", "lost"))


async def test_a_refused_fence_ends_the_term() -> None:
    store, faults = MemoryStore(), Faults(refuse_fences=True)
    terms: set[int] = set()
    async with candidate(store, faults=faults) as master:

        async def third_term() -> bool:
            terms.add(store.created(keys.LEADER_LOCK))
            return len(terms - {0}) > 2

        await eventually_async(third_term, "two terms ended")
        assert master.announced == []
        faults.refuse_fences = False
        await master.until_leading()


async def test_a_view_that_cannot_be_read_gives_the_lock_up() -> None:
    store = MemoryStore()
    bad = keys.obj("network", "t:n")
    store.apply([Change((), (Put(bad, b"{"),))])
    loops = begin_loops()
    async with candidate(store) as master:
        tried = master.lock

        async def free() -> bool:
            return tried.lease is not None and store.get(keys.LEADER_LOCK) is None

        await eventually_async(free, "the lock is given up")
        assert master.follows()
        assert master.announced == []
        (fault,) = loops.faults()
        assert fault.startswith(f"leading failed: key {bad}: ")
        store.apply([Change((), (Delete(bad),))])
        await master.until_leading()
        assert loops.faults() == []


async def test_stored_settings_survive_a_change_of_leader() -> None:
    store = MemoryStore()
    async with candidate(store) as master:
        await master.until_leading()
    kept = store.get(keys.obj("global", "global"))
    async with candidate(store) as master:
        await master.until_leading()
    assert store.get(keys.obj("global", "global")) == kept


async def test_beside_an_older_master_the_older_schema_is_kept_until_it_has_gone() -> None:
    store = MemoryStore()
    older = ServiceInstance(service=keys.SERVICE_NETMASTER, address="10.0.0.2", port=9999)
    key = keys.service(older.service, older.address, older.port)
    store.apply([Change((), (Put(key, codec.encode(older)),))])
    async with candidate(store, timing=LeadershipTiming(schema=0.0)) as master:
        await master.until_leading()
        stamp, lock = store.get(keys.SCHEMA), store.get(keys.LEADER_LOCK)
        assert stamp
        assert lock
        assert schema.decode(stamp.value) == SchemaStamp(schema.OLDEST)
        assert store.get(keys.LINEAGE) is None, "the older master could not read it"
        store.apply([Change((), (Delete(key),))])

        async def raised() -> bool:
            return store.get(keys.LINEAGE) is not None

        await eventually_async(raised, "the next term has begun")
        await master.until_leading()
        stamp, held = store.get(keys.SCHEMA), store.get(keys.LEADER_LOCK)
        assert stamp
        assert schema.decode(stamp.value) == schema.CURRENT
        assert held == lock, "nobody else could lead in between"
        assert await created(master.server.role, "t") == 200
