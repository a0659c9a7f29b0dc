"""A bare aiohttp handler that answers everything with the same bytes: what HTTP alone costs here.

`bare_server` runs this module as a process of its own, as netmaster is one; it ends with its
standard input, and so with whoever started it.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from aiohttp import web

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextmanager
def bare_server(body: bytes) -> Iterator[int]:
    """Give the port on loopback where the bytes are served, as JSON."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        with bare_process("bench.bare", file.name) as port:
            yield int(port)


@contextmanager
def bare_process(module: str, *arguments: str) -> Iterator[bytes]:
    """Run a module as a process; give its first line. It ends with its standard input."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError(f"the process of {module} has no pipes")
        yield process.stdout.readline()
        process.stdin.close()


async def serve(handle: Handle, port: int = 0, *, shared: bool = False) -> None:
    """Serve on a port of loopback, any for 0, which others may share, until standard input ends."""
    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, reuse_port=shared or None).start()
    await until_told(runner.addresses[0][1])
    await runner.cleanup()


async def until_told(ready: object) -> None:
    """Print what the process that started this one waits for; return when standard input ends."""
    print(ready, flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def _serve(body: bytes) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, headers={"Content-Type": "application/json"})

    await serve(answer)


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]).read_bytes()))
