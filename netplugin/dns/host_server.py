"""Answers this host's own questions, where the agent is the cluster's own name server.

In come questions of programs on the host, and of pods in its network, at loopback ports that
`netplugin.bridges.host.host_names` leads them to; out go answers of a resolver. Nobody but the host
reaches these ports. Must not know what is in a message.
"""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Final, Protocol, cast

from core.errors import HostError
from core.tasks import Supervisor
from netplugin.dns.tcp_server import IDLE, awaited
from ofnet.packets.dns_answers import Deferred, NameVerdict, Outcome

LOOPBACK: Final = {4: "127.0.0.1", 6: "::1"}
"""Where it is asked, by the version of IP of the address that stands for it."""
CONNECTIONS: Final = 512
"""Connections at the same time; others are closed."""
PENDING: Final = 512
"""Datagrams that may wait for an answer; further ones are dropped, and asked again."""


class HostResolver(Protocol):
    """Answers a question of the host."""

    def __call__(self, message: bytes, *, tcp: bool) -> Outcome:
        """Return the answer, or what else becomes of the question."""


class HostServer:
    """One per agent; `tasks` runs what waits for an answer."""

    def __init__(self, resolve: HostResolver, tasks: Supervisor) -> None:
        self._resolve = resolve
        self._tasks = tasks
        self._open = 0
        self._stack = AsyncExitStack()

    async def start(self, version: int) -> dict[str, int]:
        """Serve from now on by a version of IP; return the ports by transport. Raises HostError."""
        loop = asyncio.get_running_loop()
        local = LOOPBACK[version]
        try:
            datagrams, _ = await loop.create_datagram_endpoint(
                lambda: _Datagrams(self._resolve, self._tasks), local_addr=(local, 0)
            )
            self._stack.callback(datagrams.close)
            streams = await asyncio.start_server(self._serve, local, 0)
            self._stack.callback(streams.close)
        except OSError as exc:
            raise HostError(f"cannot listen for this host's questions: {exc}") from exc
        return {
            "udp": datagrams.get_extra_info("sockname")[1],
            "tcp": streams.sockets[0].getsockname()[1],
        }

    async def close(self) -> None:
        """End what `start` began; connections end by themselves."""
        await self._stack.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS:
                # who goes away, or sends half a question, ends the connection, no more
                with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                    await self._questions(reader, writer)
        finally:
            self._open -= 1
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            async with asyncio.timeout(IDLE):
                length = int.from_bytes(await reader.readexactly(2))
                message = await reader.readexactly(length)
            reply = await _reply(self._resolve(message, tcp=True))
            if reply is None:
                return
            writer.write(len(reply).to_bytes(2) + reply)
            async with asyncio.timeout(IDLE):
                await writer.drain()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, resolve: HostResolver, tasks: Supervisor) -> None:
        self._resolve = resolve
        self._tasks = tasks
        self._pending = 0
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers are sent by."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a question, at once or when others have."""
        match self._resolve(data, tcp=False):
            case bytes() as reply:
                self._send(reply, addr)
            case Deferred() as answer if self._pending < PENDING:
                self._pending += 1
                self._tasks.spawn("question of this host", self._later(answer, addr))

    def _send(self, reply: bytes, addr: tuple[str, int]) -> None:
        if self._transport is not None:
            self._transport.sendto(reply, addr)

    async def _later(self, answer: Deferred, addr: tuple[str, int]) -> None:
        try:
            self._send(await awaited(answer), addr)
        finally:
            self._pending -= 1


async def _reply(outcome: Outcome) -> bytes | None:
    match outcome:
        case bytes():
            return outcome
        case Deferred():
            return await awaited(outcome)
        case NameVerdict():
            return None
