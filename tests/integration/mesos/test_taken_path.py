"""A socket of Mesos that cannot be made is an error of the host, and is made once it can be."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from core.retry import begin_loops
from core.tasks import supervisor
from netplugin.mesos import server as mesos
from netplugin.startup.servers import serve_mesos
from tests.bed.waiting import eventually_async


async def test_a_path_that_is_taken_is_told_and_served_later(tmp_path: Path) -> None:
    loops, path = begin_loops(), tmp_path / mesos.SOCKET
    path.touch()
    pods: Any = None

    async def is_served() -> bool:
        try:
            _, writer = await asyncio.open_unix_connection(path)
        except OSError:
            return False
        writer.close()
        return True

    async with AsyncExitStack() as stack, supervisor() as sup:
        settings = SimpleNamespace(run_dir=tmp_path)
        context: Any = SimpleNamespace(settings=settings, stack=stack, supervisor=sup)
        await serve_mesos(context, pods)
        (fault,) = loops.faults()
        assert fault.startswith(f"Mesos not served: {path}: ")
        assert "the path exists and is not a socket" in fault
        path.unlink()
        await eventually_async(is_served, "the socket is there")
        assert loops.faults() == []
