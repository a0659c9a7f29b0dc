"""A change of addresses is told, also after the kernel's events could not be followed."""

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import Mock

import pytest

from core.errors import HostError
from core.retry import Pace
from core.tasks import background
from netplugin.kernel.address_watch import AddressWatch
from tests.bed.waiting import WITHIN


async def test_changes_are_told_before_and_after_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    changes: asyncio.Queue[HostError | None] = asyncio.Queue()

    async def follow() -> AsyncIterator[None]:
        while True:
            yield
            if (failure := await changes.get()) is not None:
                raise failure

    watch = AddressWatch(Mock(address_changes=follow), Pace(0, 0))
    first = watch.changed()
    async with background("addresses", watch.run()):
        await first.wait()
        for change in (None, HostError("no buffer"), None):
            event = watch.changed()
            changes.put_nowait(change)
            async with asyncio.timeout(WITHIN):
                await event.wait()
    assert "addresses of this host not followed" in caplog.text
