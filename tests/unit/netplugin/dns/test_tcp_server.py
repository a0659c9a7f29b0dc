"""DNS over TCP: who asks, what is answered, what is relayed, and what ends a connection."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Address
from unittest.mock import Mock

import pytest

from core.errors import HostError
from core.ids import EndpointKey
from netplugin.dns import tcp_server
from netplugin.dns.tcp_server import TcpServer
from ofnet.changes import ObjectKind
from ofnet.packets.directory import PortAttachment
from ofnet.packets.dns_answers import Deferred, NameVerdict, Outcome, Question
from ofnet.pipelines.features.name_port import sender_of
from tests.bed.waiting import WITHIN
from tests.unit.ofnet.worlds import NET, local, network

LOOPBACK = IPv4Address("127.0.0.1")
PORT, _ = sender_of(LOOPBACK)
"""The port of the bridge for which the loopback address stands."""

POD = local(1)
Resolve = Callable[[Question], Outcome]


async def no_socket(_pod: EndpointKey, _version: int) -> socket.socket:
    raise HostError("no such namespace")


@asynccontextmanager
async def served(
    resolve: Resolve,
    pod_socket: tcp_server.PodSocket = no_socket,
    *,
    known: bool = True,
    pod_connections: int = tcp_server.POD_CONNECTIONS,
) -> AsyncIterator[int]:
    """Serve on loopback, as for the pod; give the port."""
    attachment = PortAttachment(ObjectKind.LOCAL, POD, network())
    ports = Mock(attachment={PORT: attachment}.get if known else lambda _: None)
    server = TcpServer(ports, resolve, pod_socket, pod_connections=pod_connections)
    listener = socket.create_server((str(LOOPBACK), 0))
    number = listener.getsockname()[1]
    running = await server.start(listener)
    try:
        yield number
    finally:
        running.close()
        await server.close()
        await running.wait_closed()


async def heard(port: int, *messages: bytes, end: bool = True) -> bytes:
    """Send messages by one connection; return all that comes back."""
    async with connected(port) as (reader, writer):
        try:
            for message in messages:
                writer.write(len(message).to_bytes(2) + message)
            if end:
                writer.write_eof()
            return await reader.read()
        except ConnectionError:  # it is refused before it is read
            return b""


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(str(LOOPBACK), port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_questions_of_one_connection_are_answered_in_turn() -> None:
    asked: list[Question] = []

    def resolve(question: Question) -> Outcome:
        asked.append(question)
        return b"answer to " + question.message

    async with served(resolve) as port:
        assert await heard(port, b"one", b"two") == b"\0\x0danswer to one\0\x0danswer to two"
    assert asked == [
        Question(pod=POD.key, network=NET, server=LOOPBACK, message=message, tcp=True)
        for message in (b"one", b"two")
    ]


async def test_an_answer_may_take_time() -> None:
    def later(done: Callable[[bytes], None]) -> None:
        asyncio.get_running_loop().call_soon(done, b"late")

    async with served(lambda _: Deferred(later)) as port:
        assert await heard(port, b"one") == b"\0\x04late"


@pytest.mark.parametrize("outcome", [NameVerdict.DROP, NameVerdict.FORWARD])
async def test_what_cannot_be_answered_ends_the_connection(outcome: NameVerdict) -> None:
    async with served(lambda _: outcome) as port:
        assert await heard(port, b"one", end=False) == b""


async def test_a_stranger_is_not_served() -> None:
    async with served(lambda _: b"answer", known=False) as port:
        assert await heard(port, b"one", end=False) == b""


async def test_half_a_question_is_none() -> None:
    async with served(lambda _: b"answer") as port, connected(port) as (reader, writer):
        writer.write(b"\0\x09half")
        writer.write_eof()
        assert await reader.read() == b""


async def test_a_pod_has_so_many_connections() -> None:
    async with served(lambda question: question.message, pod_connections=2) as port:
        async with connected(port) as one, connected(port) as two:
            for reader, writer in (one, two):
                writer.write(b"\0\x01x")
                assert await reader.readexactly(3) == b"\0\x01x"
            assert await heard(port, b"one", end=False) == b""
        async with asyncio.timeout(WITHIN):
            while await heard(port, b"one") != b"\0\x03one":
                pass  # until the server has noticed


async def test_what_is_unknown_is_asked_of_the_server_by_the_pods_own_socket() -> None:
    async def relayed(_pod: EndpointKey, _version: int) -> socket.socket:
        made, other = socket.socketpair()
        other.close()
        return made

    # a socket that cannot connect: the connection ends, and the agent goes on
    async with served(lambda _: NameVerdict.FORWARD, relayed) as port:
        assert await heard(port, b"one", end=False) == b""
        assert await heard(port, b"two", end=False) == b""
