"""What processes that accept for one that decides would bring: `python -m bench.acceptors`.

Bare masters that answer createEndpoint and decide nothing: a body is decoded, one put is committed
in a group with others, a body is answered. That is the floor of a master on aiohttp, the store's
client and this machine. One process does it all, or some accept by SO_REUSEPORT and hand bodies to
the one that commits, in frames on a unix socket, many in a write. The reference of each is what the
store does with single puts in the same run.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, cast

import uvloop
from aiohttp import web

from bench.bare import bare_process, serve, until_told
from bench.endpoints import CLIENTS, CROWD, created_by, puts_per_second
from bench.table import Row, show
from core.tasks import background
from objdb.api import Backend, Change, Put
from objdb.connect import connect, parse_store_url
from tests.bed.etcd import Etcd
from tests.bed.netns import free_port
from tests.bed.store import store_url

ACCEPTORS: Final = (0, 1, 2)
_MODULE: Final = "bench.acceptors"
_GATHER: Final = 0.004
_HEAD: Final = 8
"""Bytes before a body: its number and its length, four each."""

Handle = Callable[[bytes], Awaitable[bytes]]


def rows() -> Iterable[Row]:
    """Measure a bare master that accepts itself, and with one and two processes that accept."""
    for acceptors in ACCEPTORS:
        with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
            yield from _measured(Path(directory), acceptors)


def _measured(directory: Path, acceptors: int) -> Iterator[Row]:
    store = Etcd(directory)
    store.start()
    try:
        with ExitStack() as processes:
            port, at = free_port(), str(directory / "bodies")
            url = store_url(store)
            if acceptors:
                processes.enter_context(bare_process(_MODULE, "commit", url, at))
            else:
                processes.enter_context(bare_process(_MODULE, "alone", url, str(port)))
            for _ in range(acceptors):
                processes.enter_context(bare_process(_MODULE, "accept", at, str(port)))
            puts = uvloop.run(puts_per_second(store))
            for clients in (CLIENTS, CROWD):
                rate = uvloop.run(created_by(clients, port))
                yield Row(
                    what=f"bare createEndpoint, {clients} clients, {acceptors} accept for it",
                    ours=rate,
                    unit="1/s",
                    reference=puts,
                    ratio=rate / puts,
                    note=f"reference: single puts by {CLIENTS} writers",
                )
    finally:
        store.kill()


class _Commits:
    """Commits puts in groups, one in flight, as `netmaster.commits.commit` does."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._queue: list[tuple[Put, asyncio.Future[None]]] = []
        self._wake = asyncio.Event()

    async def answer(self, body: bytes) -> bytes:
        """Commit what a body says, and return the body of the answer."""
        asked = json.loads(body)
        answer = json.dumps({**asked, "IPAddress": "10.1.0.1"}).encode()
        done = asyncio.get_running_loop().create_future()
        self._queue.append((Put(f"/bench/{asked['EndpointID']}", answer), done))
        self._wake.set()
        await done
        return answer

    async def run(self) -> None:
        """Commit for ever."""
        last = 0
        while True:
            until = asyncio.get_running_loop().time() + _GATHER
            while not self._queue or len(self._queue) < last:
                left = until - asyncio.get_running_loop().time() if self._queue else None
                try:
                    async with asyncio.timeout(left):
                        await self._wake.wait()
                except TimeoutError:
                    break
                self._wake.clear()
            group, self._queue = self._queue[:CROWD], self._queue[CROWD:]
            last = len(group)
            await self._backend.commit([Change((), tuple(put for put, _ in group))])
            for _, done in group:
                done.set_result(None)


class _Frames(asyncio.Protocol):
    """Numbered bodies on a stream; those that are sent in one turn of the loop go in one write."""

    def __init__(self, received: Callable[["_Frames", int, bytes], None]) -> None:
        self._received = received
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._leaving: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the stream."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand on the bodies that are complete."""
        self._buffer += data
        while len(self._buffer) >= _HEAD:
            end = _HEAD + int.from_bytes(self._buffer[4:_HEAD], "big")
            if len(self._buffer) < end:
                return
            number, body = int.from_bytes(self._buffer[:4], "big"), bytes(self._buffer[_HEAD:end])
            del self._buffer[:end]
            self._received(self, number, body)

    def send(self, number: int, body: bytes) -> None:
        """Send a body with the others of this turn."""
        if not self._leaving:
            asyncio.get_running_loop().call_soon(self._flush)
        self._leaving += [number.to_bytes(4, "big"), len(body).to_bytes(4, "big"), body]

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._leaving))
        self._leaving.clear()


async def _serve(answer: Handle, port: int) -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = await answer(await request.read())
        return web.Response(body=body, headers={"Content-Type": "application/json"})

    await serve(handle, port, shared=True)


async def _alone(url: str, port: int) -> None:
    backend = connect(parse_store_url(url))
    commits = _Commits(backend)
    async with background("commits", commits.run()):
        await _serve(commits.answer, port)
    await backend.close()


async def _commit(url: str, at: str) -> None:
    backend = connect(parse_store_url(url))
    commits = _Commits(backend)
    async with asyncio.TaskGroup() as answers, background("commits", commits.run()):

        async def answer(frames: _Frames, number: int, body: bytes) -> None:
            frames.send(number, await commits.answer(body))

        def received(frames: _Frames, number: int, body: bytes) -> None:
            answers.create_task(answer(frames, number, body))

        server = await asyncio.get_running_loop().create_unix_server(lambda: _Frames(received), at)
        await until_told("ready")
        server.close()
    await backend.close()


async def _accept(at: str, port: int) -> None:
    waiting = dict[int, asyncio.Future[bytes]]()

    def received(_: _Frames, number: int, body: bytes) -> None:
        waiting.pop(number).set_result(body)

    loop = asyncio.get_running_loop()
    _, frames = await loop.create_unix_connection(lambda: _Frames(received), at)
    numbers = iter(range(1 << 32))

    async def answer(body: bytes) -> bytes:
        number = next(numbers)
        waiting[number] = loop.create_future()
        frames.send(number, body)
        return await waiting[number]

    await _serve(answer, port)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["alone", url, port]:
            uvloop.run(_alone(url, int(port)))
        case ["commit", url, at]:
            uvloop.run(_commit(url, at))
        case ["accept", at, port]:
            uvloop.run(_accept(at, int(port)))
        case _:
            show(rows())
