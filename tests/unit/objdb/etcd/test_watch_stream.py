"""A stream that watches share: what each of them gets, and when it ends, without an etcd."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

import grpc.aio
import pytest
from aetcd import rpc

from objdb.etcd.channel import Channels, EtcdMember
from objdb.etcd.watch_stream import (
    MAX_MISSED_HEARTBEATS,
    MAX_UNREAD,
    TO_ALL,
    EtcdWatch,
    StreamBroken,
    TooSlow,
    WatchRefused,
    WatchStreams,
)


class Call:
    """The member's end of a stream: what was asked, and what it says."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Any] = asyncio.Queue()
        self.said: asyncio.Queue[Any] = asyncio.Queue()
        self.cancelled = False

    async def write(self, request: Any) -> None:
        self.asked.put_nowait(request)

    async def read(self) -> Any:
        found = await self.said.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def cancel(self) -> None:
        self.cancelled = True
        self.said.put_nowait(asyncio.CancelledError())

    async def create(self, number: int, **fields: Any) -> Any:
        """Answer the next request for a watch; return it."""
        request = await self.asked.get()
        self.said.put_nowait(rpc.WatchResponse(created=True, watch_id=number, **fields))
        return request.create_request

    def say(self, number: int, **fields: Any) -> None:
        self.said.put_nowait(rpc.WatchResponse(watch_id=number, **fields))


class Member:
    """A member that opens streams; `calls` has one for each."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.watch = self

    def Watch(self, metadata: Any) -> Call:  # noqa: N802 - the name in gRPC's stub
        del metadata
        self.calls.append(Call())
        return self.calls[-1]


class WatchedMember:
    """Watches on a member; `open` adds one."""

    def __init__(self, stack: AsyncExitStack, heartbeat: float, others: int = 0) -> None:
        self.member = Member()
        self.members = [self.member] * (1 + others)
        self.token: tuple[tuple[str, str], ...] = ()
        self._stack = stack
        self._streams = WatchStreams(cast("Channels", self), heartbeat)

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        return self.token

    async def open(self, stack: AsyncExitStack | None = None) -> EtcdWatch:
        watching = self._streams.watch(
            cast("EtcdMember", self.member), rpc.WatchCreateRequest(key=b"k")
        )
        return await (stack or self._stack).enter_async_context(watching)

    async def created(self, number: int, stack: AsyncExitStack | None = None) -> EtcdWatch:
        watch = await self.open(stack)
        await self.member.calls[-1].create(number)
        assert (await watch.read()).created
        return watch


@pytest.fixture
async def watched() -> AsyncIterator[WatchedMember]:
    async with AsyncExitStack() as stack:
        yield WatchedMember(stack, heartbeat=60.0)


async def test_watches_share_a_stream_and_each_gets_its_own_events(watched: WatchedMember) -> None:
    one, two = await watched.created(0), await watched.created(1)
    (call,) = watched.member.calls
    call.say(1, events=[rpc.Event()])
    call.say(TO_ALL)
    assert len((await two.read()).events) == 1
    assert [(await watch.read()).watch_id for watch in (one, two)] == [TO_ALL] * 2


async def test_a_refused_watch_is_told_from_the_others_by_its_turn(watched: WatchedMember) -> None:
    one, two, three = [await watched.open() for _ in range(3)]
    (call,) = watched.member.calls
    await call.create(0)
    await call.create(TO_ALL, canceled=True, cancel_reason="permission denied")
    await call.create(1)
    assert (await two.read()).cancel_reason == "permission denied"
    assert [(await watch.read()).watch_id for watch in (one, three)] == [0, 1]


async def test_the_end_of_a_stream_is_told_to_all_after_what_is_unread(
    watched: WatchedMember,
) -> None:
    one, two = await watched.created(0), await watched.open()
    (call,) = watched.member.calls
    call.say(0, events=[rpc.Event()])
    call.said.put_nowait(grpc.aio.EOF)  # type: ignore[attr-defined]
    assert len((await one.read()).events) == 1
    for watch in (one, two):
        with pytest.raises(StreamBroken):
            await watch.read()
    await watched.created(0)
    assert len(watched.member.calls) == 2


async def test_a_watch_that_does_not_read_is_ended_and_no_other(watched: WatchedMember) -> None:
    slow, other = await watched.created(0), await watched.created(1)
    (call,) = watched.member.calls
    for _ in range(MAX_UNREAD + 5):
        call.say(0)
    call.say(1)
    assert (await other.read()).watch_id == 1
    for _ in range(MAX_UNREAD):
        await slow.read()
    with pytest.raises(TooSlow):
        await slow.read()
    assert (await call.asked.get()).cancel_request.watch_id == 0


async def test_a_stream_is_closed_with_its_last_watch(watched: WatchedMember) -> None:
    await watched.created(0)
    (call,) = watched.member.calls
    async with AsyncExitStack() as stack:
        await watched.created(1, stack)
    assert (await call.asked.get()).cancel_request.watch_id == 1
    assert not call.cancelled
    alone = WatchedMember(AsyncExitStack(), heartbeat=60.0)
    async with AsyncExitStack() as stack:
        await alone.open(stack)
    assert alone.member.calls[0].cancelled


async def test_a_watch_that_is_removed_before_it_is_created_is_ended_then(
    watched: WatchedMember,
) -> None:
    await watched.created(0)
    (call,) = watched.member.calls
    async with AsyncExitStack() as stack:
        await watched.open(stack)
    await call.create(1)
    assert (await call.asked.get()).cancel_request.watch_id == 1


async def test_another_token_is_another_stream(watched: WatchedMember) -> None:
    await watched.created(0)
    watched.token = (("token", "new"),)
    await watched.created(0)
    assert len(watched.member.calls) == 2


async def test_a_silent_member_is_asked_and_then_left() -> None:
    async with AsyncExitStack() as stack:
        watched = WatchedMember(stack, heartbeat=0.01, others=1)
        watch = await watched.created(0)
        with pytest.raises(StreamBroken, match="heartbeats without an answer"):
            await watch.read()
        assert watched.member.calls[0].asked.get_nowait().HasField("progress_request")


async def test_a_late_process_reads_its_answers_before_it_takes_a_member_for_silent() -> None:
    async with AsyncExitStack() as stack:
        watched = WatchedMember(stack, heartbeat=0.05, others=1)
        watch = await watched.created(0)
        (call,) = watched.member.calls
        asyncio.get_running_loop().call_soon(call.say, TO_ALL)
        time.sleep(0.05 * (MAX_MISSED_HEARTBEATS + 2))  # noqa: ASYNC251 - the process does not run
        assert (await watch.read()).watch_id == TO_ALL
        assert not call.cancelled


async def test_members_that_are_all_silent_have_twice_as_long_each_time() -> None:
    async with AsyncExitStack() as stack:
        watched = WatchedMember(stack, heartbeat=0.01, others=1)
        asked = [await _asked_in_vain(watched, answers=number == 4) for number in range(6)]
        assert max(asked[:2]) < min(asked[2:4])
        assert max(asked[2:4]) < asked[4]
        assert asked[5] < min(asked[2:4])


async def test_a_lone_member_has_long_at_once() -> None:
    async with AsyncExitStack() as stack:
        asked = await _asked_in_vain(WatchedMember(stack, heartbeat=0.01))
        assert asked > 4 * MAX_MISSED_HEARTBEATS


async def _asked_in_vain(watched: WatchedMember, *, answers: bool = False) -> int:
    """Return how many heartbeats a member had that was silent, or answered one of them."""
    watch = await watched.created(0)
    call = watched.member.calls[-1]
    if answers:
        call.say(TO_ALL)
        await watch.read()
    with pytest.raises(StreamBroken):
        await watch.read()
    return call.asked.qsize()


async def test_an_expired_token_is_a_refusal(watched: WatchedMember) -> None:
    watch = await watched.open()
    stale = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(),
        details="etcdserver: invalid auth token",
        debug_error_string="",
    )
    watched.member.calls[0].said.put_nowait(stale)
    with pytest.raises(WatchRefused):
        await watch.read()
