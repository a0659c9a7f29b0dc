"""Limits the memory that a daemon holds without using it: malloc's arenas, and garbage.

`use_one_arena` is called before threads start, `reclaim_regularly` runs as a task. What is used is
not looked at here; `daemons.collector` sets when Python collects garbage by itself.

By default each thread that allocates gets an arena of glibc's malloc, of up to eight for each
processor. What one arena has free serves none of the others, and a free block below a used one is
kept. A daemon has some twenty threads, of gRPC, of executors and of the OVSDB client, which take
turns by Python's lock, so they gain nothing by arenas: an agent had 5 to 13 MiB in fifteen of them,
2 MiB of that free.

Python itself collects old garbage after a million new objects, hours on a quiet host. What waits
for it lies between what is used, so that neither Python nor malloc can give pages back: with each
crowd of pods after a fault an agent grew by some 100 KiB.
"""

import asyncio
import ctypes
import gc
import time
from typing import Final

INTERVAL: Final = 60.0
"""Seconds between two collections, at least."""
SHARE: Final = 2000.0
"""How much longer than a collection the time between two is: the event loop stands still in one,
15 ms with the 70 000 objects of an agent among few hosts."""

_M_ARENA_MAX: Final = -8
"""malloc.h's number of the option (mallopt(3))."""
_libc: Final = ctypes.CDLL(None)


def use_one_arena() -> None:
    """Have all threads allocate from one arena. Arenas of threads that have begun stay."""
    mallopt = getattr(_libc, "mallopt", None)  # musl has no arenas, and no mallopt
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def reclaim() -> None:
    """Collect all garbage, and give pages that are free back to the kernel."""
    gc.collect()
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)


async def reclaim_regularly(interval: float = INTERVAL, share: float = SHARE) -> None:
    """Reclaim memory, for ever."""
    pause = interval
    while True:
        await asyncio.sleep(pause)
        began = time.monotonic()
        reclaim()
        pause = max(interval, share * (time.monotonic() - began))
