"""Supervised tasks: the only door to `asyncio.create_task`, the only place with a broad `except`.

A daemon is a `TaskGroup`-like `Supervisor`. An eternal task that ends, by return or by exception,
is a bug that stops the daemon: the supervisor remembers the first such end and `wait` raises it.
Finite work that must not be lost but has nobody waiting for it goes through `Supervisor.spawn`,
whose failures are logged and counted. Steps that cannot be taken back half done go through
`unbroken`.
"""

import asyncio
import logging
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
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
        """Start an eternal task. If it ends, the supervisor stops and `wait` raises the reason."""
        return self._start(name, self._eternal(name, coro), coro)

    def spawn(self, name: str, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start finite work nobody waits for; a failure is logged and counted, never silent."""
        return self._start(name, self._finite(name, coro), coro)

    def stop(self) -> None:
        """Ask the daemon to end in good order; `wait` returns."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        """True once stop was asked for or an eternal task has ended."""
        return self._stopping.is_set()

    async def wait(self) -> None:
        """Wait until stop is asked for or an eternal task ends; raise the latter's reason."""
        await self._stopping.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Cancel all tasks, last started first, and wait for their end."""
        while self._tasks:  # what is being cancelled may still start something
            tasks = list(self._tasks)[::-1]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start(
        self, name: str, coro: Coroutine[Any, Any, None], work: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(coro, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        # a task cancelled before its first step never touches what it was to run
        task.add_done_callback(lambda _: work.close())
        return task

    async def _eternal(self, name: str, coro: Coroutine[Any, Any, None]) -> None:
        try:
            await coro
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                self._fail(TaskEnded(f"task {name} gave itself up"))
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
        if self._failure is None:
            self._failure = exc
        self._stopping.set()


@asynccontextmanager
async def supervisor(*, signals: bool = False) -> AsyncIterator[Supervisor]:
    """Run a supervisor for the body; with `signals`, SIGTERM and SIGINT ask it to stop."""
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
    """Run a task for the length of the body, then cancel it; its failure is raised at the end."""
    task = asyncio.create_task(coro, name=name)
    try:
        yield task
    finally:
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            # the task's own end; a cancellation that meets us here is the caller's to see
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise


def _report(name: str, exc: BaseException) -> BaseException:
    """Log a task's failure and return its reason: the first of those that came together."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, ContivError):  # foreseen: its text says it all
        log.error("task failed", extra={"task": name, "error": exc})
    else:
        log.error("task failed", exc_info=exc, extra={"task": name})
    return exc


async def unbroken(coro: Coroutine[Any, Any, T]) -> T:
    """Return the result of `coro`, which runs to its end even when the caller is cancelled.

    The cancellation is raised then; a failure that comes after it is logged.
    """
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

    For the outermost edge of a server alone, where an unforeseen failure must become an answer
    instead of a dropped connection.
    """
    try:
        return await work()
    except asyncio.CancelledError:
        raise
    except BaseException as exc:
        return on_error(exc)


def backoff(
    first: float = 0.05, limit: float = 2.0, *, jitter: Callable[[], float] = random.random
) -> Iterator[float]:
    """Yield waiting times in seconds: doubling up to `limit`, each up to a quarter shorter."""
    delay = first
    while True:
        yield delay * (1.0 - 0.25 * jitter())
        delay = min(delay * 2, limit)
