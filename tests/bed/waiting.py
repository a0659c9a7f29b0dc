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

WITHIN = 15.0
PATIENCE = float(os.environ.get("BED_PATIENCE", "1"))
"""How many times longer everything may take: on emulated processors (`make kernel-check`)."""
INTERVAL = 0.01 * PATIENCE
"""Seconds between two checks, which must not take the time of what is waited for."""


def eventually(check: Callable[[], T], what: str, *, within: float = WITHIN) -> T:
    """Repeat `check` until its value is true, and return that value."""
    deadline = time.monotonic() + within * PATIENCE
    while not (value := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within:g} s: {what}")
        time.sleep(INTERVAL)
    return value


async def eventually_async(
    check: Callable[[], Awaitable[T]], what: str, *, within: float = WITHIN
) -> T:
    """Repeat an asynchronous `check` until its value is true, and return that value."""
    deadline = time.monotonic() + within * PATIENCE
    while not (value := await check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within:g} s: {what}")
        await asyncio.sleep(INTERVAL)
    return value


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
