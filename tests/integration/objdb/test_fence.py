"""A lock holder, a separate process, is frozen past its lease: its commits are refused."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from objdb.api import Change, Put
from tests.bed.janitor import process_janitor
from tests.bed.store import Store, store_url
from tests.bed.waiting import WITHIN
from tests.integration.objdb.conftest import Connect, endpoint
from tests.integration.objdb.holder import LOCK, VALUE

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd", "consul")]


class Holder:
    """The process, by what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def said(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN):
            return (await self.process.stdout.readline()).decode().strip()

    async def commit(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(b"commit\n")
        return await self.said()


@asynccontextmanager
async def holder(store: Store) -> AsyncIterator[Holder]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.objdb.holder", store_url(store)),
        cwd=Path(__file__).parents[3],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    process_janitor().watch_pid(process.pid)
    try:
        yield Holder(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_holder_frozen_past_its_lease_is_refused(store: Store, connect: Connect) -> None:
    backend = connect(endpoint(store))
    async with holder(store) as first:
        assert await first.said() == "held"
        assert await first.commit() == "committed"
        first.process.send_signal(signal.SIGSTOP)
        lock = backend.lock(LOCK, "second", 5)
        async with asyncio.timeout(WITHIN):
            fence = await lock.acquire()
        await backend.commit([Change((), (Put(VALUE, b"second"),))], fence=fence, writer="second")
        first.process.send_signal(signal.SIGCONT)
        assert await first.commit() == "refused"
        entry = await backend.get(VALUE)
        assert entry is not None
        assert entry.value == b"second"
        await lock.release()


async def test_a_killed_holders_lock_is_free_when_its_lease_ends(
    store: Store, connect: Connect
) -> None:
    async with holder(store) as first:
        assert await first.said() == "held"
        lock = connect(endpoint(store)).lock(LOCK, "second", 5)
        first.process.kill()
        async with asyncio.timeout(WITHIN):
            await lock.acquire()
        await lock.release()
