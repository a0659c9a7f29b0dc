"""A TCP relay before a store that loses answers, and keeps requests back to deliver them late.

In come a target and a running loop; out comes `endpoint` for a client. What a client gave up
after a while (its cancellation follows on the same connection) can be left out of the late
delivery, as if it had been lost on the way.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_CHUNK = 1 << 16

# what is to be lost is the answer to something that was applied: consul's refusals and reads pass
_REFUSAL = b"HTTP/1.1 409"
_READ = b"?consistent"


@dataclass(slots=True)
class _Line:
    """One connection: whether its last request only reads, as far as can be seen."""

    reads: bool = False


@dataclass(slots=True)
class Relay:
    """One listening port; flags act on every byte that passes from then on."""

    target: tuple[str, int]
    endpoint: str = ""
    drop_answers: bool = False
    hold_requests: bool = False
    delay: float = 0.0
    """Seconds by which answers are late; once set, it stays."""
    seen: int = 0
    """Bytes of requests that came in while they were held."""
    answers: bytearray = field(default_factory=bytearray)
    """All that was answered so far, dropped or not."""

    _held: list[tuple[bytes, asyncio.StreamWriter]] = field(default_factory=list)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    def cut(self) -> None:
        """Break every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    def holds(self, text: bytes) -> bool:
        """Whether a request that is held back has some text in it."""
        return any(text in data for data, _ in self._held)

    async def ended(self) -> None:
        """Wait until no connection is left."""
        await asyncio.gather(*self._serving)

    async def release(self, text: bytes) -> None:
        """Deliver what was held, up to the first request with some text in it; drop the rest.

        What follows it may be the client's cancellation. Leave `hold_requests` on, or that
        overtakes the delivery.
        """
        held, self._held = self._held, []
        for data, writer in held:
            if not writer.is_closing():
                writer.write(data)
                await writer.drain()
            if text in data:
                return

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection until either side ends it."""
        task = asyncio.current_task()
        if task is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        line = _Line()
        upstream, downstream = await asyncio.open_connection(*self.target)
        self._writers |= {writer, downstream}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, downstream, line))
                group.create_task(self._answers(upstream, writer, line))
        except* ConnectionError:
            pass  # either side may break off at any time
        for one in (writer, downstream):
            self._writers.discard(one)
            one.close()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line
    ) -> None:
        while data := await reader.read(_CHUNK):
            line.reads = _READ in data
            if self.hold_requests:
                self.seen += len(data)
                self._held.append((data, writer))
            else:
                writer.write(data)
                await writer.drain()
        if not self.hold_requests:  # else what is held can still be delivered
            writer.close()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line
    ) -> None:
        while data := await reader.read(_CHUNK):
            self.answers += data
            if not self.drop_answers or line.reads or data.startswith(_REFUSAL):
                if self.delay:
                    asyncio.get_running_loop().call_later(self.delay, _deliver, writer, data)
                    continue
                writer.write(data)
                await writer.drain()
        writer.close()


def _deliver(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)


@asynccontextmanager
async def relay(target: str) -> AsyncIterator[Relay]:
    """Run a relay to `host:port`."""
    host, _, port = target.rpartition(":")
    one = Relay((host, int(port)))
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    one.endpoint = f"{address[0]}:{address[1]}"
    try:
        yield one
    finally:
        server.close()
        one.cut()
        await one.ended()
