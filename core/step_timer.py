"""Time limits of which a time in which this process stood still counts little.

Where a host has too little processor a process may stand still for seconds. What it waited for then
has come meanwhile, and is not read yet: an ordinary time limit would be over before it is.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

_STEPS: Final = 10
"""In how many parts a time is measured. Of a standstill one part counts at most."""


class StepTimer:
    """Calls something after some seconds, which are measured in parts, unless it is cancelled."""

    __slots__ = ("_call", "_handle", "_pause")

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self._pause = seconds / _STEPS
        self._call = call
        self._go_on(_STEPS)

    def cancel(self) -> None:
        """Call nothing, if that has not been called."""
        self._handle.cancel()

    def _go_on(self, steps: int) -> None:
        if steps == 0:
            self._call()
        else:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_later(self._pause, self._go_on, steps - 1)


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError if the body takes longer, measured in parts."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        timer = StepTimer(seconds, lambda: limit.reschedule(loop.time()))
        try:
            yield
        finally:
            timer.cancel()
