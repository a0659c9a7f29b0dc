"""A bare aiohttp handler that answers everything with the same bytes: what HTTP alone costs here.

`bare_server` runs this module as a process of its own, as netmaster is one; it ends with its
standard input, and so with whoever started it.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from aiohttp import web


@contextmanager
def bare_server(body: bytes) -> Iterator[int]:
    """Give the port on loopback where the bytes are served, as JSON."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        command = [sys.executable, "-m", "bench.bare", file.name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("the bare server has no pipes")
            yield int(process.stdout.readline())
            process.stdin.close()


async def _serve(body: bytes) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, headers={"Content-Type": "application/json"})

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]).read_bytes()))
