"""DNS over TCP (RFC 7766): serves the connections of a bridge's pods.

In come connections that the flows of `ofnet.pipelines.features.name_port` lead to the agent's
listener (`netplugin.kernel.links.name_space`): the peer's address tells the pod, the local one the
server it asks. Questions go to the resolver, as those by UDP do. What is left to the server is
relayed: the agent asks it by a connection of its own in the pod's network namespace, so that the
network and its policies treat it as the pod's.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Protocol

from core.errors import HostError
from core.ids import EndpointKey
from core.logs import fields
from netplugin.dns.upstream import PORT, stream_exchange
from ofnet.packets.directory import PortAttachment
from ofnet.packets.dns_answers import Deferred, NameVerdict, Outcome, Question, Resolver
from ofnet.pipelines.features.name_port import sender_of

log = logging.getLogger(__name__)

IDLE: Final = 10.0
"""Seconds after which a connection without a question is closed."""

RELAY_LIMIT: Final = 5.0
"""Seconds that the server has to answer a question that is relayed."""

CLOSING: Final = 1.0
"""Seconds that connections have to end when the agent does."""

POD_CONNECTIONS: Final = 16
CONNECTIONS: Final = 512
"""Connections of one pod, and of all of a bridge, at the same time; others are closed."""

PodSocket = Callable[[EndpointKey, int], Awaitable[socket.socket]]
"""Returns a socket in the network namespace of a pod, of a version of IP. Raises HostError."""


@dataclass(frozen=True, slots=True)
class _Client:
    """The pod at the other end of a connection, and the server it asks."""

    attachment: PortAttachment
    server: IPv4Address | IPv6Address
    judged: bool


class KnownPorts(Protocol):
    """The ports of a bridge (`ofnet.packets.directory`)."""

    def attachment(self, ofport: int) -> PortAttachment | None:
        """Return what is at a port, None for nothing known."""


class TcpServer:
    """The connections of the pods on one bridge."""

    def __init__(
        self,
        ports: KnownPorts,
        resolve: Resolver,
        pod_socket: PodSocket,
        *,
        pod_connections: int = POD_CONNECTIONS,
    ) -> None:
        self._pod_connections = pod_connections
        self._ports = ports
        self._resolve = resolve
        self._pod_socket = pod_socket
        self._open: Counter[EndpointKey] = Counter()
        self._handlers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self, listener: socket.socket) -> asyncio.Server:
        """Serve the connections of a listening socket."""
        return await asyncio.start_server(self._serve, sock=listener)

    async def close(self) -> None:
        """End all connections; a relayed question may take a moment more."""
        # Not by a cancellation, which asyncio reports as an error of the server.
        for writer in self._handlers.values():
            writer.transport.abort()
        if self._handlers:
            await asyncio.wait(tuple(self._handlers), timeout=CLOSING)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        if handler is not None:
            self._handlers[handler] = writer
            handler.add_done_callback(self._handlers.pop)
        try:
            client = self._client(writer)
            if client is not None and client.attachment.endpoint is not None:
                await self._counted(client, client.attachment.endpoint.key, reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _client(self, writer: asyncio.StreamWriter) -> _Client | None:
        peer, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        port, judged = sender_of(ip_address(peer[0]))
        attachment = self._ports.attachment(port)
        return None if attachment is None else _Client(attachment, ip_address(own[0]), judged)

    async def _counted(
        self,
        client: _Client,
        pod: EndpointKey,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if self._open[pod] >= self._pod_connections or self._open.total() >= CONNECTIONS:
            return
        self._open[pod] += 1
        try:
            # a pod that goes away, or sends half a question, ends its connection, no more
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                await self._questions(client, pod, reader, writer)
        finally:
            self._open[pod] -= 1
            if not self._open[pod]:
                del self._open[pod]

    async def _questions(
        self,
        client: _Client,
        pod: EndpointKey,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        network = client.attachment.network
        while network is not None:
            async with asyncio.timeout(IDLE):
                length = int.from_bytes(await reader.readexactly(2))
                message = await reader.readexactly(length)
            question = Question(
                pod=pod,
                network=network.id,
                server=client.server,
                message=message,
                tcp=True,
                judged=client.judged,
            )
            reply = await self._answer(question, self._resolve(question))
            if reply is None:
                return
            writer.write(len(reply).to_bytes(2) + reply)
            async with asyncio.timeout(IDLE):
                await writer.drain()

    async def _answer(self, question: Question, outcome: Outcome) -> bytes | None:
        match outcome:
            case bytes():
                return outcome
            case Deferred():
                return await awaited(outcome)
            case NameVerdict.FORWARD:
                return await self._relayed(question)
            case NameVerdict.DROP:
                return None

    async def _relayed(self, question: Question) -> bytes | None:
        """Return the reply of the server itself, None without one."""
        try:
            async with asyncio.timeout(RELAY_LIMIT):
                with await self._pod_socket(question.pod, question.server.version) as sock:
                    return await stream_exchange(
                        sock, (str(question.server), PORT), question.message
                    )
        except (HostError, OSError, TimeoutError) as exc:
            about = fields(
                endpoint=question.pod, address=question.server, error=str(exc) or "no answer"
            )
            log.info("question of a pod not relayed", extra=about)
            return None


async def awaited(answer: Deferred) -> bytes:
    """Return an answer that is asked of others."""
    reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def done(message: bytes) -> None:
        if not reply.done():  # who asked may have gone away meanwhile
            reply.set_result(message)

    answer.ask(done)
    return await reply
