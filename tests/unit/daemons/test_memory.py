"""Memory that a daemon holds without using it: arenas of threads, garbage, free pages."""

import asyncio
import gc
import weakref

from core.tasks import supervisor
from daemons.memory import reclaim_regularly
from tests.bed.waiting import WITHIN


class Cycle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.own = self


async def test_old_garbage_is_collected_again_and_again() -> None:
    async with supervisor() as tasks:
        tasks.supervise("memory", reclaim_regularly(interval=0.001, share=0.0))
        for _ in range(2):
            cycle = Cycle()
            gc.collect()  # it is in the oldest generation from here on
            collected = asyncio.Event()
            weakref.finalize(cycle, collected.set)
            del cycle
            async with asyncio.timeout(WITHIN):
                await collected.wait()
