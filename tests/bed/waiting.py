"""Waiting for a condition, with a limit and a reason, and repeating something meanwhile.

In comes a check; out comes its first true value, or `TimeoutError` that names what was awaited.
"""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

WITHIN = 240.0
"""Seconds after which a wait is given up, everywhere. The condition is what is tested, not how soon
it holds: a machine that runs four parts of the tests at a time is slow now and then. Where it has
to hold at once, nothing else may bring it about: an audit of the agent is a day away."""
PATIENCE = float(os.environ.get("BED_PATIENCE", "1"))
"""How many times longer everything may take: in a slow guest (`make kernel-check`)."""
FIRST, LONGEST = 0.01 * PATIENCE, 0.05 * PATIENCE
"""Seconds between two checks: a tenth of what has been waited. Many a check starts a program, and a
tight loop of programs takes the processor from what is awaited."""


def eventually(check: Callable[[], T], what: str, *, within: float = WITHIN) -> T:
    """Repeat `check` until its value is true, and return that value."""
    began = time.monotonic()
    while not (value := check()):
        time.sleep(_pause(began, within, what))
    return value


async def eventually_async(
    check: Callable[[], Awaitable[T]], what: str, *, within: float = WITHIN
) -> T:
    """Repeat an asynchronous `check` until its value is true, and return that value."""
    began = time.monotonic()
    while True:
        if value := await check():
            return value
        await asyncio.sleep(_pause(began, within, what))


def _pause(began: float, within: float, what: str) -> float:
    """Return the seconds until the next check. Raises TimeoutError when it is too late for one."""
    waited = time.monotonic() - began
    if waited > within * PATIENCE:
        raise TimeoutError(f"not within {within:g} s: {what}")
    return min(max(FIRST, waited / 10), LONGEST)


@contextmanager
def repeating(action: Callable[[], object], pause: float) -> Iterator[None]:
    """Do something in a thread during the body, again and again after a pause in seconds."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(pause):
            action()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
