"""Commits with a lost answer or a late copy: applied at most once, with the true outcome."""

import asyncio

import pytest

from core.errors import FenceLost, StoreUnavailable
from core.tasks import background
from objdb.api import Absent, Backend, Change, Committed, Delete, Put, Refused, Unchanged
from tests.bed.store import Store
from tests.bed.waiting import WITHIN, eventually_async
from tests.integration.objdb.conftest import Connect, endpoint
from tests.integration.objdb.relay import Relay, relay

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd", "consul")]

A, B, C = "/test/a", "/test/b", "/test/c"
IN_A = b"test/a"
"""How A stands in a request to either store."""


def put(key: str, value: bytes = b"v") -> Change:
    return Change((), (Put(key, value),))


def create(key: str, value: bytes = b"v") -> Change:
    return Change((Absent(key),), (Put(key, value),))


async def value(backend: Backend, key: str) -> bytes | None:
    entry = await backend.get(key)
    return entry.value if entry else None


async def lose_one_answer(one: Relay, backend: Backend, watched: str) -> None:
    """Let a commit through, drop its answer, and break the connection once it is applied."""
    one.drop_answers = True

    async def applied() -> bool:
        return await backend.get(watched) is not None

    await eventually_async(applied, "the commit applied")
    one.cut()
    one.drop_answers = False


async def test_a_lost_answer_is_resolved_for_each_change(store: Store, connect: Connect) -> None:
    direct = connect(endpoint(store))
    await direct.commit([put("/test/taken", b"there"), put("/test/old")])
    taken = await direct.get("/test/taken")
    async with relay(endpoint(store)) as one:
        backend = connect(one.endpoint)
        await backend.commit([], writer="w")
        changes = [
            create(A),
            Change((Absent(B), Absent("/test/taken")), (Put(B, b""), Put(C, b""))),
            Change((), (Delete("/test/old"),)),
            Change((Unchanged("/test/never", 7),), (Delete("/test/x"),)),
        ]
        async with background("lose", lose_one_answer(one, direct, A)) as lost:
            outcomes = await backend.commit(changes, writer="w")
            await lost
        created = await direct.get(A)
        assert created is not None
        assert outcomes == [
            Committed(created.rev),
            Refused(Absent("/test/taken"), taken),
            Committed(created.rev),
            Refused(Unchanged("/test/never", 7), None),
        ]
        assert await value(direct, "/test/old") is None
        assert await direct.get(B) is None
        # the writer goes on
        assert isinstance((await backend.commit([create(B)], writer="w"))[0], Committed)


async def test_a_lost_answer_is_resolved_although_the_keys_have_changed_since(
    store: Store, connect: Connect
) -> None:
    direct = connect(endpoint(store))
    async with relay(endpoint(store)) as one:
        backend = connect(one.endpoint)
        await backend.commit([], writer="w")
        one.drop_answers = True

        async def overwrite() -> None:
            await lose_one_answer_after_overwrite(one, direct)

        async with background("overwrite", overwrite()) as done:
            (outcome,) = await backend.commit([create(A, b"mine")], writer="w")
            await done
        assert isinstance(outcome, Committed)
        assert await value(direct, A) == b"theirs"


async def lose_one_answer_after_overwrite(one: Relay, direct: Backend) -> None:
    async def applied() -> bool:
        return await direct.get(A) is not None

    await eventually_async(applied, "the commit applied")
    await direct.commit([put(A, b"theirs")])
    one.cut()
    one.drop_answers = False


async def test_without_a_writer_checks_make_it_unknown_and_no_checks_send_it_again(
    store: Store, connect: Connect
) -> None:
    direct = connect(endpoint(store))
    async with relay(endpoint(store)) as one:
        backend = connect(one.endpoint)
        await backend.get(A)
        async with background("lose", lose_one_answer(one, direct, A)) as lost:
            with pytest.raises(StoreUnavailable) as caught:
                await backend.commit([create(A)])
            await lost
        assert caught.value.outcome_unknown
        await backend.get(A)
        async with background("lose", lose_one_answer(one, direct, B)) as lost:
            assert isinstance((await backend.commit([put(B)]))[0], Committed)
            await lost


async def test_a_late_copy_is_refused(store: Store, connect: Connect) -> None:
    """The first member keeps the request back, the second applies it, then the first goes on."""
    direct = connect(endpoint(store))
    async with relay(endpoint(store)) as late, relay(endpoint(store)) as prompt:
        backend = connect(late.endpoint, prompt.endpoint)
        await backend.commit([], writer="w")
        late.hold_requests = True
        assert isinstance((await backend.commit([put(A, b"1")], writer="w"))[0], Committed)
        assert isinstance((await backend.commit([put(A, b"2")], writer="w"))[0], Committed)
        assert late.seen > 0
        marker = await direct.get("/contiv.io/commit/w")
        await late.release(IN_A)
        await asyncio.sleep(0.3)  # the time in which it must not be applied
        assert await value(direct, A) == b"2"
        assert await direct.get("/contiv.io/commit/w") == marker


async def test_a_late_copy_without_a_writer_does_overwrite(store: Store, connect: Connect) -> None:
    """Shows that the test above could fail: nothing guards a commit without writer and checks."""
    direct = connect(endpoint(store))
    async with relay(endpoint(store)) as late, relay(endpoint(store)) as prompt:
        backend = connect(late.endpoint, prompt.endpoint)
        await backend.get(A)
        late.hold_requests = True
        await backend.commit([put(A, b"1")])
        await backend.commit([put(A, b"2")])
        await late.release(IN_A)

        async def overwritten() -> bool:
            return await value(direct, A) == b"1"

        await eventually_async(overwritten, "the late copy applied")


async def test_the_next_commit_ends_what_was_given_up(store: Store, connect: Connect) -> None:
    direct = connect(endpoint(store))
    async with relay(endpoint(store)) as late:
        backend = connect(late.endpoint, budget=0.5)
        await backend.commit([], writer="w")
        late.hold_requests = True
        with pytest.raises(StoreUnavailable) as caught:
            await backend.commit([put(A, b"late")], writer="w")
        assert caught.value.outcome_unknown
        other = connect(endpoint(store))
        assert await other.commit([], writer="w") == []
        await late.release(IN_A)
        await asyncio.sleep(0.3)  # the time in which it must not be applied
        assert await value(direct, A) is None


async def test_what_was_given_up_and_came_late_does_not_confuse_the_next(
    store: Store, connect: Connect
) -> None:
    direct = connect(endpoint(store))
    async with relay(endpoint(store)) as late:
        backend = connect(late.endpoint, budget=0.5)
        await backend.commit([], writer="w")
        late.hold_requests = True
        with pytest.raises(StoreUnavailable):
            await backend.commit([create(A, b"late")], writer="w")
        await late.release(IN_A)

        async def arrived() -> bool:
            return await direct.get(A) is not None

        await eventually_async(arrived, "the late copy applied")
        late.hold_requests = False
        late.cut()
        outcomes = await backend.commit([create(A, b"again"), create(B)], writer="w")
        assert [type(outcome) for outcome in outcomes] == [Refused, Committed]


async def test_a_dead_first_endpoint_leaves_no_outcome_unknown(
    store: Store, connect: Connect
) -> None:
    backend = connect("127.0.0.1:1", endpoint(store))
    assert isinstance((await backend.commit([create(A)]))[0], Committed)


async def test_a_store_that_is_away_is_said_in_time(connect: Connect) -> None:
    backend = connect("127.0.0.1:1", budget=0.5)
    with pytest.raises(StoreUnavailable, match=r"127.0.0.1:1: .*connect") as caught:
        async with asyncio.timeout(WITHIN):
            await backend.commit([create(A)], writer="w")
    assert not caught.value.outcome_unknown


async def test_a_frozen_store_applies_a_commit_once(store: Store, connect: Connect) -> None:
    backend, direct = connect(endpoint(store)), connect(endpoint(store))
    lock = backend.lock("/test/lock", "me", 30)
    fence = await lock.acquire()
    for number in range(3):
        store.pause()
        key = f"/test/{number}"

        async def commit(key: str = key) -> None:
            (outcome,) = await backend.commit([create(key)], fence=fence, writer="w")
            assert isinstance(outcome, Committed)

        async with background("commit", commit()) as done:
            await asyncio.sleep(1.3)  # more than an attempt
            store.resume()
            await done
        assert await value(direct, key) == b"v"
    await lock.release()
    with pytest.raises(FenceLost):
        await backend.commit([create("/test/late")], fence=fence, writer="w")
