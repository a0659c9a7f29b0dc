"""A follower between a client and a leader, both of which do as they please.

The leader is a script: it reads a request's head, and does what the test says. Nothing of netmaster
runs beside `RestServer` and `Proxy`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from gzip import compress

import pytest

from daemons.listen_address import ListenAddress
from netmaster.api.http.bodies import BodyLimits
from netmaster.api.http.proxy import Proxy, ProxyTiming
from netmaster.api.http.server import RestServer
from tests.bed.waiting import WITHIN, eventually_async

OWN = "10.0.0.1:9999"
DONE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"
SOON = 2.0
"""Seconds for what takes a minute outside of tests; a busy machine is quicker to connect."""

Script = Callable[["Call"], Awaitable[None]]


@dataclass
class Call:
    """A request as the leader gets it, and the connection to answer it on."""

    head: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def headers(self) -> list[str]:
        """Return the lines of the head."""
        return self.head.decode().strip().split("\r\n")[1:]

    async def says(self, text: bytes) -> None:
        self.writer.write(text)
        await self.writer.drain()


@dataclass
class Leader:
    """Whoever the lock names; each request is answered by `script`."""

    script: Script
    calls: list[Call] = field(default_factory=list)
    gone: int = 0
    """How many connections have ended."""
    address: str | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                call = Call(await reader.readuntil(b"\r\n\r\n"), reader, writer)
                self.calls.append(call)
                await self.script(call)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the follower has ended the connection
        finally:
            self.gone += 1
            writer.close()

    async def holder(self) -> str | None:
        return self.address


@dataclass
class Client:
    """One connection to the follower."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def sends(self, text: bytes) -> None:
        self.writer.write(text)
        await self.writer.drain()

    async def gets(self, text: bytes) -> None:
        """Wait until the follower has sent a text."""
        async with asyncio.timeout(WITHIN):
            await self.reader.readuntil(text)

    async def rest(self) -> bytes:
        """Return all that comes until the follower ends the connection."""
        async with asyncio.timeout(WITHIN):
            return await self.reader.read()


@asynccontextmanager
async def follower(
    leader: Leader, timing: ProxyTiming | None = None, bodies: BodyLimits | None = None
) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    """Run a follower of a leader; give what connects clients to it."""
    listening = await asyncio.start_server(leader.serve, "127.0.0.1", 0)
    leader.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    server, proxy = RestServer(bodies=bodies), Proxy(leader.holder, OWN, timing)
    clients: list[Client] = []
    server.role = proxy.answer
    address = await server.listen(ListenAddress("127.0.0.1", 0))

    async def connected() -> Client:
        clients.append(Client(*await asyncio.open_connection(address.host, address.port)))
        return clients[-1]

    try:
        yield connected
    finally:
        for client in clients:
            client.writer.transport.abort()
        for call in leader.calls:
            call.writer.transport.abort()
        await server.close()
        await proxy.close()
        listening.close()


async def done(call: Call) -> None:
    await call.says(DONE)


async def hangs_up(call: Call) -> None:
    call.writer.transport.abort()


async def silence(call: Call) -> None:
    await call.reader.read()


def request(method: str = "GET", *headers: str, body: bytes = b"", path: str = "/x") -> bytes:
    """Return a request after which the follower ends the connection."""
    lines = (f"{method} {path} HTTP/1.1", "Host: a", *headers)
    if not any(header.startswith("Connection:") for header in headers):
        lines += ("Connection: close",)
    return "\r\n".join([*lines, "", ""]).encode() + body


async def until(holds: Callable[[], bool], what: str) -> None:
    async def check() -> bool:
        return holds()

    await eventually_async(check, what)


async def test_info_names_the_follower_beside_the_leader() -> None:
    async def info(call: Call) -> None:
        body = b'{"leader-ip":"10.0.0.1:9999","local-ip":"10.0.0.1"}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
        await call.says(head.encode() + body)

    async with follower(Leader(info)) as connected:
        client = await connected()
        await client.sends(request(path="/info"))
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")
    assert body == (
        f'{{"forwarded-by":"{OWN}","leader-ip":"10.0.0.1:9999","local-ip":"10.0.0.1"}}'.encode()
    )
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"Content-Type: text/plain" in head


async def test_an_answer_is_passed_on_while_it_comes() -> None:
    go_on = asyncio.Event()

    async def in_parts(call: Call) -> None:
        await call.says(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nfirst")
        await go_on.wait()
        await call.says(b"end")

    async with follower(Leader(in_parts)) as connected:
        client = await connected()
        await client.sends(request())
        await client.gets(b"first")
        go_on.set()
        assert await client.rest() == b"end"


@pytest.mark.parametrize(
    ("announced", "first", "end"),
    [("Content-Length: 8", b"first", b"end"),
     ("Transfer-Encoding: chunked", b"5\r\nfirst\r\n", b"3\r\nend\r\n0\r\n\r\n")],
)  # fmt: skip
async def test_a_slow_body_holds_no_connection_of_the_leader(
    announced: str, first: bytes, end: bytes
) -> None:
    """The finding of docs/notes/trust.md §11."""
    bodies: list[bytes] = []

    async def reads(call: Call) -> None:
        if call.head.startswith(b"POST"):
            bodies.append(await call.reader.readexactly(8))
        await call.says(DONE)

    async with follower(Leader(reads), ProxyTiming(connections=1)) as connected:
        slow, other = await connected(), await connected()
        await slow.sends(request("POST", announced, body=first))
        await other.sends(request())
        assert (await other.rest()).endswith(b"done")
        await slow.sends(end)
        assert (await slow.rest()).endswith(b"done")
        assert bodies == [b"firstend"]


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    """The finding of docs/notes/trust.md §11."""
    leader = Leader(done)
    async with follower(leader, bodies=BodyLimits(arrival=0.1)) as connected:
        client = await connected()
        await client.sends(request("POST", "Content-Length: 8", body=b"first"))
        await client.gets(b"HTTP/1.1 408 ")
        await client.gets(b"request body not received within 0.1 s\n")
        assert leader.calls == []


async def test_bodies_share_a_bounded_memory() -> None:
    """The finding of docs/notes/trust.md §11."""
    async with follower(Leader(done), bodies=BodyLimits(in_memory=100, per_peer=100)) as connected:
        holding, refused, later = [await connected() for _ in range(3)]
        await holding.sends(request("POST", "Content-Length: 99", body=b"x" * 98))
        await until_refused(refused)
        await holding.sends(b"x")
        assert b"200 OK" in await holding.rest()
        await later.sends(request("POST", "Content-Length: 98", body=b"x" * 98))
        assert b"200 OK" in await later.rest()


async def until_refused(client: Client) -> None:
    """Send bodies of a few bytes until the first does not fit beside what others hold."""
    while True:
        await client.sends(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n" + b"x" * 50)
        async with asyncio.timeout(WITHIN):
            head = await client.reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 503 "):
            await client.gets(b"too many large requests at once: try again\n")
            return
        await client.gets(b"done")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_method_passes_with_its_body(method: str) -> None:
    async def echoes(call: Call) -> None:
        assert await call.reader.readexactly(3) == b"abc"
        await call.says(DONE)

    leader = Leader(echoes)
    async with follower(leader) as connected:
        client = await connected()
        await client.sends(request(method, "Content-Length: 3", body=b"abc"))
        assert (await client.rest()).endswith(b"done")
        (call,) = leader.calls
        assert call.head.startswith(f"{method} /x HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_request_is_sent_once_whatever_becomes_of_its_connection(method: str) -> None:
    answered = 0

    async def answers_once(call: Call) -> None:
        nonlocal answered
        answered += 1
        await (done(call) if answered == 1 else hangs_up(call))

    leader = Leader(answers_once)
    async with follower(leader) as connected:
        client = await connected()
        await client.sends(request())
        assert (await client.rest()).endswith(b"done")
        client = await connected()
        await client.sends(request(method))
        answer = await client.rest()
        assert b"does not answer" in answer
        if method == "GET":
            assert answer.startswith(b"HTTP/1.1 502 ")
            assert b"\r\nContiv-Outcome: refused\r\n" in answer
        else:
            assert answer.startswith(b"HTTP/1.1 500 ")
            assert b"\r\nContiv-Outcome: unknown\r\n" in answer
            assert b"outcome unknown: %s /x may have been done; ask" % method.encode() in answer
        assert len(leader.calls) == 2
        assert leader.calls[0].writer is leader.calls[1].writer, "the connection was not kept"


async def test_a_request_of_a_deposed_leader_is_not_sent_to_the_next() -> None:
    first, second = Leader(silence), Leader(done)
    async with follower(first, ProxyTiming(leader_check=0.01)) as connected, follower(second):
        client = await connected()
        await client.sends(request("POST", "Content-Length: 0"))
        await until(lambda: len(first.calls) == 1, "the leader is asked")
        first.address = second.address
        assert b"\r\nContiv-Outcome: unknown\r\n" in await client.rest()
        assert second.calls == []


async def test_a_leader_that_cannot_be_reached_has_done_nothing(unused_tcp_port: int) -> None:
    leader = Leader(silence)
    async with follower(leader) as connected:
        leader.address = f"127.0.0.1:{unused_tcp_port}"
        client = await connected()
        await client.sends(request("POST", "Content-Length: 0"))
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"\r\nContiv-Outcome: refused\r\n" in answer
        assert leader.calls == []


@pytest.mark.parametrize(
    "announced", [b"Content-Length: 9\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n9\r\n"]
)
async def test_an_answer_that_is_cut_is_seen_to_be(announced: bytes) -> None:
    async def breaks_off(call: Call) -> None:
        await call.says(b"HTTP/1.1 200 OK\r\n" + announced + b"half")
        call.writer.close()

    async with follower(Leader(breaks_off)) as connected:
        client = await connected()
        await client.sends(request())
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        if b"chunked" in head:
            assert b"\r\n0\r\n" not in body
        else:
            assert body == b"half"


@pytest.mark.parametrize(
    ("announced", "part"),
    [("Content-Length: 9", b"half"), ("Transfer-Encoding: chunked", b"4\r\nhalf\r\n")],
)
async def test_the_leader_is_not_asked_for_a_body_that_is_cut(announced: str, part: bytes) -> None:
    leader = Leader(done)
    async with follower(leader, bodies=BodyLimits(in_memory=6)) as connected:
        client, other = await connected(), await connected()
        await client.sends(request("POST", announced, body=part))
        client.writer.transport.abort()
        # The memory of the half body is free again once the follower has seen its end.
        while b" 200 " not in (answer := await six_bytes(other)):
            assert b" 503 " in answer
        assert len(leader.calls) == 1


async def six_bytes(client: Client) -> bytes:
    """Send a body of six bytes and return the head of the answer."""
    await client.sends(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsixsix")
    async with asyncio.timeout(WITHIN):
        head = await client.reader.readuntil(b"\r\n\r\n")
    await client.gets(b"done" if b" 200 " in head else b"\n")
    return head


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "does not read"])
async def test_who_takes_no_answer_holds_no_connection_of_the_leader(leaves: bool) -> None:
    timing = ProxyTiming() if leaves else ProxyTiming(answer=SOON)

    async def endless(call: Call) -> None:
        await call.says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await call.says(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    leader = Leader(endless)
    async with follower(leader, timing) as connected:
        client = await connected()
        await client.sends(request())
        await client.gets(b"xxx")
        if leaves:
            client.writer.transport.abort()
        await until(lambda: leader.gone == 1, "the leader is let go")


async def test_who_waits_for_a_connection_waits_for_a_while() -> None:
    leader = Leader(silence)
    timing = ProxyTiming(connections=1, free_connection=SOON)
    async with follower(leader, timing) as connected:
        first, second = await connected(), await connected()
        await first.sends(request())
        await until(lambda: len(leader.calls) == 1, "the first is asked")
        await second.sends(request())
        assert (await second.rest()).startswith(b"HTTP/1.1 502 ")
        assert len(leader.calls) == 1


@pytest.mark.parametrize(
    "sent",
    [
        request("CONNECT", path="0@127.0.0.1:{port}"),
        request("CONNECT", path="127.0.0.1:{port}"),
        request("GET", path="http://127.0.0.1:{port}/x"),
        request("OPTIONS", path="*"),
    ],
)
async def test_nobody_but_the_leader_is_asked(sent: bytes) -> None:
    leader, other = Leader(done), Leader(done)
    async with follower(leader) as connected, follower(other):
        assert other.address is not None
        port = other.address.rpartition(":")[2]
        client = await connected()
        await client.sends(sent.replace(b"{port}", port.encode()))
        await client.gets(b"404 page not found\n")
        assert leader.calls == other.calls == []


@pytest.mark.parametrize(
    "sent",
    [
        request("POST", "Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        request("POST", "Content-Length: 3", "Content-Length: 4", body=b"abc"),
        request("POST", "Transfer-Encoding: chunked", body=b"3\nabc\n0\n\n"),
        request("POST", "Content-Length: 3", "X: a\r\n b: c", body=b"abc"),
        request("GET", "X: a\rTransfer-Encoding: chunked"),
    ],
    ids=["two kinds of length", "two lengths", "bare line feeds", "folded line", "carriage return"],
)
async def test_what_could_be_read_in_two_ways_goes_no_further(sent: bytes) -> None:
    leader = Leader(done)
    async with follower(leader) as connected:
        client = await connected()
        await client.sends(sent)
        assert b" 400 Bad Request\r\n" in await client.rest()
        assert leader.calls == []


async def test_headers_for_the_follower_alone_go_no_further() -> None:
    leader = Leader(done)
    async with follower(leader) as connected:
        client = await connected()
        await client.sends(
            request(
                "GET",
                *("Connection: close, X-Near", "Connection: x-nearer", "Proxy-Connection: close"),
                *("X-Near: 1", "X-Nearer: 1", "TE: trailers", "Upgrade: h2c", "X-Far: 1"),
                "X-Forwarded-For: 10.9.9.9",
            )
        )
        assert (await client.rest()).endswith(b"done")
        (call,) = leader.calls
        assert call.headers() == ["Host: a", "X-Far: 1", "X-Forwarded-For: 10.9.9.9, 127.0.0.1"]


async def test_who_asks_whether_to_send_a_body_is_told_to() -> None:
    async def reads(call: Call) -> None:
        await call.reader.readexactly(3)
        await call.says(DONE)

    leader = Leader(reads)
    async with follower(leader) as connected:
        client = await connected()
        await client.sends(request("POST", "Content-Length: 3", "Expect: 100-continue"))
        await client.gets(b"HTTP/1.1 100 Continue\r\n\r\n")
        await client.sends(b"abc")
        assert (await client.rest()).endswith(b"done")
        assert not [line for line in leader.calls[0].headers() if line.startswith("Expect")]


async def test_who_speaks_an_older_http_is_not_told_to_send() -> None:
    async with follower(Leader(done)) as connected:
        client = await connected()
        await client.sends(b"POST /x HTTP/1.0\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.0 200 ")


async def test_a_compressed_body_passes_as_it_is() -> None:
    body = compress(b"{}" * 1000)
    got: list[bytes] = []

    async def reads(call: Call) -> None:
        got.append(await call.reader.readexactly(len(body)))
        await call.says(DONE)

    async with follower(Leader(reads)) as connected:
        client = await connected()
        announced = ("Content-Encoding: gzip", f"Content-Length: {len(body)}")
        await client.sends(request("POST", *announced, body=body))
        assert (await client.rest()).endswith(b"done")
        assert got == [body]
