"""Tasks with an owner: a supervisor, a `with` body, or a caller that waits despite cancellation."""

import asyncio
import logging

import pytest

from core.errors import HostError
from core.tasks import TaskEnded, background, guard, supervisor, unbroken


async def forever() -> None:
    await asyncio.Event().wait()


async def stubborn() -> None:
    """End only some turns of the loop after it was cancelled."""
    try:
        await forever()
    finally:
        for _ in range(5):
            await asyncio.sleep(0)


async def fail() -> None:
    raise ValueError("failed")


async def nothing() -> None:
    pass


# -- background --------------------------------------------------------------------------------


async def test_the_task_ends_with_the_body() -> None:
    async with background("task", forever()) as task:
        assert not task.done()
    assert task.cancelled()


async def test_its_failure_is_raised_at_the_end() -> None:
    with pytest.raises(ValueError, match="failed"):
        async with background("task", fail()):
            await asyncio.sleep(0)


async def test_a_cancellation_that_meets_the_end_of_the_body_is_not_lost() -> None:
    entered, went_on = asyncio.Event(), False

    async def caller() -> None:
        nonlocal went_on
        async with background("inner", stubborn()):
            await asyncio.sleep(0)
            entered.set()
        went_on = True

    async with background("caller", caller()) as task:
        await entered.wait()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert not went_on


async def test_a_timeout_around_it_is_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), background("task", stubborn()):
            await forever()


# -- supervisor --------------------------------------------------------------------------------


async def test_stopping_ends_the_wait_and_all_tasks() -> None:
    async with supervisor() as sup:
        tasks = [sup.supervise(f"t{n}", forever()) for n in range(3)]
        sup.spawn("finite", forever())
        await asyncio.sleep(0)
        before = sup.stopping
        sup.stop()
        await sup.wait()
        assert (before, sup.stopping) == (False, True)
    assert all(task.cancelled() for task in tasks)


@pytest.mark.timeout(20)  # a loop that spins is not ended by any timeout of its own
async def test_it_closes_when_all_tasks_have_just_ended() -> None:
    replied: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        replied.set_result(None)

    async with supervisor() as sup:
        task = sup.spawn("work", work())
        await replied
        assert task.done()


async def test_the_first_failure_of_an_eternal_task_ends_the_daemon() -> None:
    async with supervisor() as sup:
        sup.supervise("other", forever())
        sup.supervise("bad", fail())
        sup.supervise("late", nothing())
        with pytest.raises(ValueError, match="failed"):
            await sup.wait()


async def test_an_eternal_task_that_returns_ends_the_daemon() -> None:
    async with supervisor() as sup:
        sup.supervise("short", nothing())
        with pytest.raises(TaskEnded, match="short"):
            await sup.wait()


async def test_an_eternal_task_that_cancels_itself_ends_the_daemon() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    async with supervisor() as sup:
        sup.supervise("quitter", give_up())
        with pytest.raises(TaskEnded, match="quitter"):
            await sup.wait()


async def test_the_reason_of_a_group_is_its_first_failure() -> None:
    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(refuse())
            group.create_task(forever())

    async def refuse() -> None:
        raise HostError("no permission")

    async with supervisor() as sup:
        sup.supervise("group", together())
        with pytest.raises(HostError, match="no permission"):
            await sup.wait()


@pytest.mark.parametrize(
    ("failure", "traced"), [(HostError("foreseen"), False), (KeyError(), True)]
)
async def test_only_what_nobody_foresaw_is_logged_with_its_trace(
    failure: Exception, caplog: pytest.LogCaptureFixture, *, traced: bool
) -> None:
    async def raiser() -> None:
        raise failure

    async with supervisor() as sup:
        await asyncio.wait([sup.spawn("finite", raiser()), sup.supervise("eternal", raiser())])
        assert sup.spawn_failures == 1
    records = [record for record in caplog.records if record.message == "task failed"]
    assert [record.task for record in records] == ["finite", "eternal"]  # type: ignore[attr-defined]
    assert all((record.exc_info is not None) is traced for record in records)
    assert all(record.levelno == logging.ERROR for record in records)


async def test_finite_work_may_end() -> None:
    async with supervisor() as sup:
        await sup.spawn("work", nothing())
        assert not sup.stopping
        assert sup.spawn_failures == 0


async def test_tasks_are_cancelled_last_started_first() -> None:
    ended: list[int] = []

    async def note(number: int) -> None:
        try:
            await forever()
        finally:
            ended.append(number)

    async with supervisor() as sup:
        for number in range(20):
            sup.supervise(str(number), note(number))
        await asyncio.sleep(0)
    assert ended == list(range(20))[::-1]


async def test_what_is_started_while_closing_is_ended_too() -> None:
    started: list[asyncio.Task[None]] = []
    async with supervisor() as sup:

        async def last_wish() -> None:
            try:
                await forever()
            finally:
                started.append(sup.spawn("wish", forever()))

        sup.supervise("dying", last_wish())
        await asyncio.sleep(0)
    assert started[0].cancelled()


async def test_a_task_may_be_cancelled_before_it_began() -> None:
    # pytest turns the warning of a coroutine that was never awaited into a failure
    async with supervisor() as sup:
        sup.supervise("a", forever())
        sup.spawn("b", forever())


# -- unbroken ----------------------------------------------------------------------------------


async def test_unbroken_work_gives_its_result_or_failure() -> None:
    async def answer() -> int:
        return 42

    assert await unbroken(answer()) == 42
    with pytest.raises(ValueError, match="failed"):
        await unbroken(fail())


async def test_unbroken_work_ends_before_its_callers_cancellation_is_felt() -> None:
    gate, done = asyncio.Event(), False

    async def work() -> None:
        nonlocal done
        await gate.wait()
        done = True

    async with asyncio.TaskGroup() as group:
        caller = group.create_task(unbroken(work()))
        for _ in range(3):
            await asyncio.sleep(0)
            caller.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not caller.done()
        gate.set()
    assert caller.cancelled()
    assert done


async def test_unbroken_work_that_fails_after_a_cancellation_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()
        raise HostError("no link")

    async with asyncio.TaskGroup() as group:
        caller = group.create_task(unbroken(work()))
        await asyncio.sleep(0)
        caller.cancel()
        gate.set()
    assert caller.cancelled()
    assert "work failed after its caller was cancelled" in caplog.text


# -- guard -------------------------------------------------------------------------------------


async def test_a_guarded_failure_is_an_answer() -> None:
    async def answer() -> str:
        return "fine"

    async def broken() -> str:
        raise KeyError("x")

    assert await guard(answer, repr) == "fine"
    assert await guard(broken, repr) == "KeyError('x')"


async def test_a_cancellation_is_no_answer() -> None:
    async def slow() -> str:
        await forever()
        return ""

    async with asyncio.TaskGroup() as group:
        call = group.create_task(guard(slow, repr))
        await asyncio.sleep(0)
        call.cancel()
    assert call.cancelled()
