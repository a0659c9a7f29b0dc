"""What a master keeps of the changes: whole, in order, within bounds."""

import asyncio
import json
from collections.abc import AsyncIterator
from unittest.mock import AsyncMock, patch

from contivmodel.objects import Policy, Tenant
from core import keys
from core.errors import StoreUnavailable
from core.tasks import background
from netmaster import codec
from netmaster.api.v2.events.log import EventLog
from objdb.api import Change, Delta, Entry, Put, Snapshot
from objdb.memory import MemoryBackend
from state.lineage import Lineage, Position, Term, encode
from tests.bed.held import held
from tests.bed.waiting import WITHIN


def put(rev: int, *objects: Tenant | Policy) -> Delta:
    entries = (Entry(keys.obj(o.kind, o.key), codec.encode(o), rev) for o in objects)
    return Delta(rev, tuple(entries), ())


def tenant(name: str) -> Tenant:
    return Tenant(key=name, tenant_name=name)


def log_of(*items: Snapshot | Delta, **bounds: int) -> EventLog:
    log = EventLog(**bounds)
    for item in items:
        log.take(item)
    return log


def test_a_transaction_is_one_event() -> None:
    policy = Policy(key="blue:p", tenant_name="blue", policy_name="p")
    log = log_of(Snapshot(5, {}), put(7, tenant("blue"), policy))
    (event,) = log.behind(5)
    assert (event.revision, log.first, log.last) == (7, 5, 7)
    assert [(c.plural, c.key, c.tenant) for c in event.changes] == [
        ("tenants", "blue", "blue"),
        ("policys", "blue:p", "blue"),
    ]
    told = json.loads(event.changes[1].text)
    assert (told["type"], told["object"]["policyName"]) == ("put", "p")
    assert log.behind(7) == []


def test_a_change_is_decoded_for_its_first_reader_only() -> None:
    with patch("netmaster.api.v2.events.log.codec.decode", wraps=codec.decode) as decode:
        (event,) = log_of(Snapshot(5, {}), put(7, tenant("blue"))).behind(5)
        assert decode.call_count == 0
        assert event.changes is event.changes
        assert decode.call_count == 1


def test_a_deletion_tells_the_key_alone() -> None:
    log = log_of(Snapshot(1, {}), Delta(2, (), (keys.obj("aciGw", "aciGw"),)))
    (change,) = log.behind(1)[0].changes
    assert json.loads(change.text) == {"kind": "aciGws", "key": "aciGw", "type": "delete"}
    assert change.tenant == ""


def test_the_oldest_events_go() -> None:
    log = log_of(Snapshot(1, {}), *(put(rev, tenant("t")) for rev in range(2, 9)), most_events=3)
    assert (log.first, log.last) == (5, 8)
    assert [event.revision for event in log.behind(log.first)] == [6, 7, 8]
    small = log_of(Snapshot(1, {}), put(2, tenant("t")), put(3, tenant("t")), most_bytes=10)
    assert (small.first, small.last, small.behind(3)) == (3, 3, [])


def test_a_snapshot_starts_anew() -> None:
    log = log_of(Snapshot(1, {}), put(2, tenant("t")), Snapshot(9, {}))
    assert (log.first, log.last, log.restarts, log.behind(9)) == (9, 9, 2, [])


def test_a_revision_is_of_the_term_that_made_it() -> None:
    terms = Lineage((Term("a", 0), Term("b", 5), Term("c", 8)))
    log = EventLog()
    assert log.has(Position("", 0))
    log.take(Snapshot(4, {}), terms)
    for rev in (5, 7, 9):
        log.take(put(rev, tenant("t")))
    assert [log.position(rev).term for rev in (4, 5, 6, 8, 9)] == ["a", "a", "b", "b", "c"]
    known = [Position("a", 4), Position("a", 5), Position("b", 8), Position("c", 9)]
    assert all(map(log.has, known))
    foreign = [Position("a", 6), Position("b", 9), Position("d", 5), Position("", 5)]
    outside = [Position("a", 3), Position("c", 10)]
    assert not any(map(log.has, foreign + outside))


async def test_the_terms_are_read_behind_each_change() -> None:
    backend = AsyncMock()
    entry = Entry(keys.LINEAGE, encode(Lineage((Term("a", 0),))), 1)
    backend.get.side_effect = [entry, StoreUnavailable("away"), None]

    async def items(*_: object, **__: object) -> AsyncIterator[Snapshot | Delta]:
        yield Snapshot(4, {})
        yield put(5, tenant("t"))

    backend.watch = items
    log = EventLog()
    await log.follow(backend)
    assert (log.last, log.lineage) == (5, Lineage())
    assert backend.get.await_count == 3


def test_what_cannot_be_read_is_no_change() -> None:
    strange = Entry(keys.OBJECTS + "newer/x", b"{}", 2)
    broken = Entry(keys.obj("tenant", "t"), b"{", 2)
    log = log_of(Snapshot(1, {}), Delta(2, (strange, broken), (keys.OBJECTS + "odd",)))
    assert [event.changes for event in log.behind(1)] == [()]


async def test_a_list_is_looked_at_while_somebody_wants_it() -> None:
    backend, log = MemoryBackend(), EventLog()

    async def counted(times: int) -> None:
        async with asyncio.timeout(WITHIN):
            while log.touches["endpoints"] < times:
                await log.grown()
        assert log.touches["endpoints"] == times

    async def change() -> None:
        await backend.commit([Change((), (Put(f"{keys.ENDPOINTS}a", b"1"),))])

    async with background("list", log.follow_list(backend, "endpoints", keys.ENDPOINTS)):
        await change()
        assert not log.touches
        with log.wanting({"endpoints"}):
            await counted(1)  # the snapshot
            await change()
            await counted(2)
        await change()  # it is looked at until then
        await counted(3)
        await change()
        with log.wanting({"endpoints"}):
            await counted(4)
    assert set(log.touches) == {"endpoints"}


async def test_nothing_is_kept_of_a_snapshot_while_a_change_is_waited_for() -> None:
    """All endpoints of a cluster, as the store has them, are megabytes."""
    backend, log = MemoryBackend(), EventLog()
    listed, kept = f"{keys.ENDPOINTS}kept-no-more", keys.obj("tenant", "kept-no-more")
    value = codec.encode(tenant("kept-no-more"))
    await backend.commit([Change((), (Put(listed, b"1"), Put(kept, value)))])
    async with (
        background("list", log.follow_list(backend, "endpoints", keys.ENDPOINTS)),
        background("objects", log.follow(backend)),
    ):
        with log.wanting({"endpoints"}):
            async with asyncio.timeout(WITHIN):
                while not (log.touches["endpoints"] and log.restarts):
                    await log.grown()
            await asyncio.sleep(0)
            assert not held((Snapshot,), "kept-no-more")
