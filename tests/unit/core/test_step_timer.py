"""Time limits of which a standstill of this process counts little."""

import asyncio
import time

import pytest

from core.step_timer import time_limit


async def test_what_takes_longer_is_ended() -> None:
    with pytest.raises(TimeoutError):
        async with time_limit(0.02):
            await asyncio.Event().wait()


async def test_what_is_in_time_is_not_disturbed() -> None:
    async with time_limit(0.02):
        await asyncio.sleep(0)
    await asyncio.sleep(0.04)


async def test_a_standstill_counts_little() -> None:
    async with time_limit(0.1):
        time.sleep(0.2)  # noqa: ASYNC251 - the loop stands still
        for _ in range(3):
            await asyncio.sleep(0)


async def test_a_time_out_of_the_body_is_its_own() -> None:
    with pytest.raises(TimeoutError, match="another"):
        async with time_limit(1.0):
            raise TimeoutError("another")
