"""Waits for a condition of something that runs in the same event loop."""

from collections.abc import Callable

from tests.bed.waiting import eventually_async


async def until(check: Callable[[], bool], what: str) -> None:
    async def holds() -> bool:
        return check()

    await eventually_async(holds, what)
