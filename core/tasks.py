"""Supervised tasks: the only callers of `asyncio.create_task`, the only broad `except` clauses.

A daemon's tasks belong to one `Supervisor`. An eternal task that ends, by return or by exception,
is a bug that stops the daemon: the supervisor keeps the first such reason and `wait` raises it.
Finite background work goes through `Supervisor.spawn`, which logs and counts its failures. Steps
that must not be cancelled half-way go through `unbroken`, callbacks of the loop start what they
cannot wait for by `detached`.
"""

# Why all tasks start here: asyncio keeps only weak references to tasks and reports the exception
# of an unawaited task when it is garbage collected, if at all. A watch or a renewal that ended
# unnoticed would leave a daemon that looks alive and no longer follows the store. So the
# supervisor holds each task, and the end of an eternal task ends the process: the daemon is
# restarted and reads its whole state anew, which is simpler than a restart of parts.

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from core.errors import ContivError

log = logging.getLogger(__name__)

T = TypeVar("T")


class TaskEnded(Exception):
    """A task that was to run for ever returned."""


class Supervisor:
    """Owns the tasks of a daemon; stops all of them when one that must not end does end."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order of their start
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self.spawn_failures = 0

    def supervise(self, name: str, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start an eternal task; its end stops the supervisor, and `wait` raises the reason."""
        return self._start(name, self._eternal(name, coro), coro)

    def spawn(self, name: str, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start finite background work; a failure is logged and counted."""
        return self._start(name, self._finite(name, coro), coro)

    def stop(self) -> None:
        """Request an orderly shutdown; `wait` returns."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        """True once a stop was requested or an eternal task has ended."""
        return self._stopping.is_set()

    async def wait(self) -> None:
        """Wait until a stop is requested or an eternal task ends; raise the latter's reason."""
        await self._stopping.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Cancel all tasks, last started first, and wait for their end."""
        # Last started first: later tasks use what earlier ones provide, such as a connection.
        # Repeated, because a task may start another one while it handles its cancellation.
        while self._tasks:
            tasks = list(self._tasks)[::-1]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Since Python 3.12 `gather` takes no turn of the loop when all have ended already, and
            # without one the callbacks never take them out of `_tasks`.
            await asyncio.sleep(0)

    def _start(
        self, name: str, coro: Coroutine[Any, Any, None], work: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(coro, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        # A task cancelled before its first step never awaits its coroutine; close it, or Python
        # warns of a coroutine that was never awaited.
        task.add_done_callback(lambda _: work.close())
        return task

    async def _eternal(self, name: str, coro: Coroutine[Any, Any, None]) -> None:
        try:
            await coro
        except asyncio.CancelledError:
            # Nothing cancelled this task, so the error comes from inside, for instance from an
            # awaited task that another one cancelled. The eternal task has ended all the same.
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                self._fail(TaskEnded(f"task {name} cancelled itself"))
            raise
        except BaseException as exc:
            self._fail(_report(name, exc))
        else:
            self._fail(TaskEnded(f"task {name} ended"))

    async def _finite(self, name: str, coro: Coroutine[Any, Any, None]) -> None:
        try:
            await coro
        except asyncio.CancelledError:
            raise
        except Exception as exc:
            self.spawn_failures += 1
            _report(name, exc)

    def _fail(self, exc: BaseException) -> None:
        # The first failure is the cause; later ones are mostly its consequences.
        if self._failure is None:
            self._failure = exc
        self._stopping.set()


@asynccontextmanager
async def supervisor(*, signals: bool = False) -> AsyncIterator[Supervisor]:
    """Run a supervisor for the body; with `signals`, SIGTERM and SIGINT stop it."""
    sup = Supervisor()
    if signals:
        loop = asyncio.get_running_loop()
        for sig in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sig, sup.stop)
    try:
        yield sup
    finally:
        await sup.close()


@asynccontextmanager
async def background(name: str, coro: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run a task during the body, then cancel it; its failure is raised when the body ends."""
    task = asyncio.create_task(coro, name=name)
    try:
        yield task
    finally:
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            # Two cancellations look alike here: that of the task, which we asked for, and one
            # of the caller that arrives while we wait. Only the caller's must be raised.
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise


_detached: set[asyncio.Task[None]] = set()
"""The loop itself refers to its tasks weakly."""


def detached(name: str, coro: Coroutine[Any, Any, None]) -> None:
    """Start short work that ends by itself, as from a callback of the loop; failures are logged."""

    async def work() -> None:
        try:
            await coro
        except Exception as exc:
            _report(name, exc)

    task = asyncio.create_task(work(), name=name)
    _detached.add(task)
    task.add_done_callback(_detached.discard)
    task.add_done_callback(lambda _: coro.close())  # as in `Supervisor._start`


def _report(name: str, exc: BaseException) -> BaseException:
    """Log a task's failure and return its reason: the first exception of a group."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, ContivError):  # expected: its text is enough
        log.error("task failed", extra={"task": name, "error": exc})
    else:
        log.error("task failed", exc_info=exc, extra={"task": name})
    return exc


async def unbroken(coro: Coroutine[Any, Any, T]) -> T:
    """Run `coro` to its end even when the caller is cancelled; return its result.

    The cancellation is raised afterwards; a failure after it is logged.
    """
    # Unlike `asyncio.shield` this returns only when the work has ended. The caller's `finally`
    # clauses and locks thus never run beside work that is still under way.
    task = asyncio.create_task(coro)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (failure := task.exception()) is not None:
        log.warning("work failed after its caller was cancelled", extra={"error": failure})
    raise cancelled


async def guard(
    work: Callable[[], Coroutine[Any, Any, T]], on_error: Callable[[BaseException], T]
) -> T:
    """Return the result of `work()`, or of `on_error(exc)` for any exception but cancellation.

    For the request handler of a server alone, where an unexpected failure must become an error
    response instead of a dropped connection.
    """
    try:
        return await work()
    except asyncio.CancelledError:
        raise
    except BaseException as exc:
        return on_error(exc)


def attempt(work: Callable[[], T], on_error: Callable[[Exception], T]) -> T:
    """Return the result of `work()`, or of `on_error(exc)` for any exception.

    For one of many items that came from outside, where an unexpected failure must not cost the
    others; `on_error` reports it.
    """
    try:
        return work()
    except Exception as exc:
        return on_error(exc)
