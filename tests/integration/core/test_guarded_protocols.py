"""Limits of connections under TLS, on real sockets and both event loops."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvloop

from core.net import tls_trust
from core.net.connections import ConnectionGuard, ConnectionLimits
from core.net.guarded_protocols import guarded
from core.net.keepalive import PROBES
from ofnet.rpc.jsonrpc import RpcClient, RpcFailed, RpcServer
from tests.bed.certificates import make_certificates
from tests.bed.waiting import WITHIN, eventually_async

HOST = "127.0.0.1"
SHORT = 0.2
TCP_REPAIR = 19
"""Of Linux (linux/tcp.h)."""
ENOUGH = 2.0
"""Seconds: for a handshake on a busy machine."""
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class Tls:
    """The contexts of a server and of its clients."""

    def __init__(self, directory: Path) -> None:
        make_certificates(directory)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(directory / "server.pem", directory / "server.key")
        self.client = tls_trust.client_context(ca_file=str(directory / "ca.pem"))


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    def runs(work: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(work)

    return runs


class Echo(asyncio.Protocol):
    """Sends everything back, so many times."""

    times = 1
    last: ClassVar[Any] = None
    """The transport of the last connection."""

    def __init__(self, limited: ConnectionGuard) -> None:
        self._guard = limited
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = Echo.last = transport

    def data_received(self, data: bytes) -> None:
        with self._guard.busy(self._transport):
            self._transport.write(data * self.times)


@asynccontextmanager
async def served(
    tls: Tls | None, *, handshake_time: float = 10.0, times: int = 1, **limits: Any
) -> AsyncIterator[tuple[int, ConnectionGuard]]:
    limited = ConnectionGuard("test", ConnectionLimits(**{"total": 100, "per_peer": 100, **limits}))

    def echo() -> Echo:
        protocol = Echo(limited)
        protocol.times = times
        return protocol

    factory = guarded(limited, echo, tls.server if tls else None, handshake_time)
    server = await asyncio.get_running_loop().create_server(factory, HOST, 0)
    try:
        yield int(server.sockets[0].getsockname()[1]), limited
    finally:
        server.close()
        limited.stop()


@asynccontextmanager
async def dialled(
    port: int, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Return whether the server ended the connection."""
    try:
        async with asyncio.timeout(WITHIN):
            return await reader.read() == b""
    except ConnectionError:
        return True


async def settles(limited: ConnectionGuard, count: int) -> None:
    async def reached() -> bool:
        return len(limited) == count

    await eventually_async(reached, f"{count} connections")


def test_a_handshake_that_waits_while_this_process_stands_still_goes_on(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with served(tls, handshake_time=ENOUGH) as (port, limited):
            plain = socket.create_connection((HOST, port))
            await settles(limited, 1)
            plain.settimeout(WITHIN)
            client = partial(tls.client.wrap_socket, plain, server_hostname=HOST)
            shaking = asyncio.get_running_loop().run_in_executor(None, client)
            time.sleep(ENOUGH * 1.5)  # noqa: ASYNC251 - the loop stands still
            with await shaking as secured:
                await asyncio.to_thread(secured.sendall, b"?")
                assert await asyncio.to_thread(secured.recv, 1) == b"?"

    run(work())


def test_a_peer_that_never_finishes_its_handshake_is_let_go(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with served(tls, handshake_time=SHORT) as (port, limited):
            async with dialled(port) as (reader, _):
                await settles(limited, 1)
                assert await ended(reader)
            await settles(limited, 0)
            assert limited.counters == {"TLS handshake failed": 1}

    run(work())


def test_a_peer_that_does_not_speak_tls_is_let_go(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with served(tls) as (port, limited):
            async with dialled(port) as (reader, writer):
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                async with asyncio.timeout(WITHIN):
                    await reader.read()
            await settles(limited, 0)
            assert limited.counters == {"TLS handshake failed": 1}

    run(work())


def test_a_peer_that_leaves_during_its_handshake_is_forgotten(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with served(tls) as (port, limited):
            async with dialled(port):
                await settles(limited, 1)
            await settles(limited, 0)

    run(work())


def test_a_peer_that_sends_no_request_behind_its_handshake_is_let_go(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with served(tls, first_request=ENOUGH) as (port, limited):
            async with dialled(port, tls.client) as (reader, _), dialled(port) as (plain, _):
                assert await ended(reader)
                assert await ended(plain)
            await settles(limited, 0)
            assert limited.counters == {"no request in time": 2}

    run(work())


def test_a_request_ends_the_limit_of_the_first(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with (
            served(tls, first_request=ENOUGH) as (port, _),
            dialled(port, tls.client) as (reader, writer),
        ):
            writer.write(b"a")
            assert await reader.read(1) == b"a"
            async with dialled(port) as (silent, _):
                assert await ended(silent)  # the limit has passed
            writer.write(b"b")
            assert await reader.read(1) == b"b"

    run(work())


def test_connections_in_their_handshake_make_room_for_others(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with served(tls, per_peer=2) as (port, limited), dialled(port) as (oldest, _):
            await settles(limited, 1)
            async with dialled(port), dialled(port, tls.client) as (reader, writer):
                assert await ended(oldest)
                writer.write(b"x")
                assert await reader.read(1) == b"x"
                assert len(limited) == 2
                assert limited.counters["too many of one peer"] == 1

    run(work())


def test_what_comes_with_the_handshake_is_not_lost(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with served(tls) as (port, limited):
            for number in range(30):
                async with dialled(port, tls.client) as (reader, writer):
                    sent = f"{number}".encode() * 1000
                    writer.write(sent)
                    assert await reader.readexactly(len(sent)) == sent
            await settles(limited, 0)

    run(work())


def test_a_peer_that_does_not_read_is_let_go(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with (
            served(tls, unread=SHORT, times=16 << 20) as (port, limited),
            dialled(port, tls.client) as (_, writer),
        ):
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"x")
            await settles(limited, 0)

    run(work())


@pytest.mark.parametrize("secured", [False, True])
def test_a_peer_whose_host_is_gone_is_forgotten(tls: Tls, run: Any, secured: bool) -> None:
    """It may be silent for as long as it likes, but has to be there."""

    async def work() -> None:
        async with served(tls if secured else None, keepalive=1) as (port, limited):
            context = tls.client if secured else None
            async with dialled(port, context) as (reader, writer):
                writer.write(b"?")
                assert await reader.readexactly(1) == b"?"
                await asyncio.sleep(2.5)
                assert len(limited) == 1, "a peer that answers for its host stays"
                # what is closed in this mode says nothing, as a host that lost its power
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            await settles(limited, 0)

    run(work())


def test_a_probe_that_is_lost_ends_no_connection(tls: Tls, run: Any) -> None:
    """Not by the kernel's time for a peer to read either, which ends it with the first one."""

    async def work() -> None:
        async with (
            served(tls, unread=60.0) as (port, _),
            dialled(port, tls.client) as (reader, writer),
        ):
            writer.write(b"?")
            assert await reader.readexactly(1) == b"?"
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_USER_TIMEOUT)
            accepted = Echo.last.get_extra_info("socket")
            idle, interval, unread = (
                accepted.getsockopt(socket.IPPROTO_TCP, option) for option in options
            )
            assert idle + PROBES * interval <= unread / 1000

    run(work())


def test_a_listener_that_stops_ends_handshakes(tls: Tls, run: Any) -> None:
    async def work() -> None:
        async with served(tls) as (port, limited):
            async with dialled(port) as (reader, _):
                await settles(limited, 1)
                limited.stop()
                assert await ended(reader)
            assert len(limited) == 0

    run(work())


@contextmanager
def _closing(client: RpcClient) -> Iterator[RpcClient]:
    try:
        yield client
    finally:
        client.close()


def test_rpc_calls_pass_beside_peers_in_their_handshake(tls: Tls, run: Any) -> None:
    async def echo(argument: Any) -> Any:
        return argument

    async def work() -> None:
        limits = ConnectionLimits(total=8, per_peer=3)
        server = RpcServer({"T.Echo": echo}, host=HOST, ssl=tls.server, limits=limits)
        await server.start()
        try:
            silent = [await asyncio.open_connection(HOST, server.port) for _ in range(3)]
            await settles(server.connections, 3)
            with _closing(RpcClient(HOST, server.port, ssl=lambda: tls.client)) as client:
                assert await client.call("T.Echo", 7) == 7
                assert len(server.connections) == 3
                assert await ended(silent[0][0])
                with _closing(RpcClient(HOST, server.port)) as plain, pytest.raises(RpcFailed):
                    await plain.call("T.Echo", 8)
            for _, writer in silent:
                writer.transport.abort()
            await settles(server.connections, 0)
        finally:
            await server.close()

    run(work())
