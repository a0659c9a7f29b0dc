"""JSON-RPC over loopback: calls, failures, unknown_sources."""

import asyncio
import errno
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from unittest.mock import Mock

import pytest

from core.errors import Invalid
from core.net.connections import ConnectionLimits
from ofnet.rpc import control, jsonrpc
from ofnet.rpc.control import AgentReport, Node, OfnetAgent, OfnetMaster
from tests.bed.waiting import WITHIN


@asynccontextmanager
async def served(
    methods: dict[str, jsonrpc.RpcMethod],
    *,
    port: int = 0,
    limits: ConnectionLimits = jsonrpc.LIMITS,
    call_time: float = jsonrpc.CALL_TIME,
) -> AsyncIterator[jsonrpc.RpcServer]:
    server = jsonrpc.RpcServer(
        methods, host="127.0.0.1", port=port, limits=limits, call_time=call_time
    )
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def raw(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def echo(argument: Any) -> Any:
    return argument


async def refuse(_argument: Any) -> Any:
    raise Invalid("not like this")


async def test_the_wire_form_is_gos() -> None:
    async with served({"Test.Echo": echo}) as server, raw(server.port) as (reader, writer):
        writer.write(b'{"method":"Test.Echo","params":[{"a":1}],"id":7}\n')
        writer.write(b'{"method":"Test.Nope","params":[1],"id":8}\n')
        assert await reader.readline() == b'{"id":7,"result":{"a":1},"error":null}\n'
        assert json.loads(await reader.readline()) == {
            "id": 8,
            "result": None,
            "error": "rpc: can't find service Test.Nope",
        }


async def test_calls_at_once_get_their_own_answers() -> None:
    async with served({"Test.Echo": echo}) as server:
        client = jsonrpc.RpcClient("127.0.0.1", server.port)
        answers = await asyncio.gather(*(client.call("Test.Echo", n) for n in range(100)))
        assert answers == list(range(100))
        client.close()


async def test_a_refusal_is_an_error_and_the_connection_lives_on() -> None:
    async with served({"Test.Refuse": refuse, "Test.Echo": echo}) as server:
        client = jsonrpc.RpcClient("127.0.0.1", server.port)
        with pytest.raises(jsonrpc.RpcFailed, match="not like this"):
            await client.call("Test.Refuse", None)
        assert await client.call("Test.Echo", "still there") == "still there"
        client.close()


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\n",
        b'{"method":"Test.Echo","params":[],"id":1}\n',
        b'{"method":"Test.Echo","params":[1,2],"id":1}\n',
        b'{"method":5,"params":[1],"id":1}\n',
        b"[" * 100_000 + b"\n",
        b"x" * (2 * jsonrpc.MAX_CALL + 10),
    ],
)
async def test_connections_that_are_no_json_rpc_are_dropped(line: bytes) -> None:
    async with served({"Test.Echo": echo}) as server:
        async with raw(server.port) as (reader, writer):
            writer.write(line)
            with suppress(ConnectionResetError):  # it is closed before all is read
                assert await asyncio.wait_for(reader.read(), WITHIN) == b""
        assert server.counters["dropped: not JSON-RPC"] == 1
        client = jsonrpc.RpcClient("127.0.0.1", server.port)
        assert await client.call("Test.Echo", 1) == 1
        client.close()


@pytest.mark.parametrize("number", [errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ECONNRESET])
async def test_a_peer_whose_host_is_gone_is_lost_not_slow(number: int) -> None:
    async with served({}) as server:
        reader, writer = asyncio.StreamReader(), Mock(asyncio.StreamWriter)
        reader.set_exception(OSError(number, "as keepalive says"))
        await server._serve(reader, writer)
        assert server.counters == {"dropped: connection lost": 1}
        writer.transport.abort.assert_called_once_with()


async def test_a_call_that_does_not_end_is_dropped() -> None:
    async with served({"Test.Echo": echo}, call_time=0.1) as server:
        async with raw(server.port) as (reader, writer):
            writer.write(b'{"method":')
            assert await asyncio.wait_for(reader.read(), WITHIN) == b""
        assert server.counters["dropped: too slow"] == 1


async def test_silent_connections_make_room_for_others() -> None:
    limits = ConnectionLimits(total=8, per_peer=2)
    async with (
        served({"Test.Echo": echo}, limits=limits) as server,
        raw(server.port) as (oldest, _),
        raw(server.port),
    ):
        client = jsonrpc.RpcClient("127.0.0.1", server.port)
        assert await client.call("Test.Echo", 1) == 1
        assert await asyncio.wait_for(oldest.read(), WITHIN) == b""
        client.close()


async def test_a_client_finds_its_server_again() -> None:
    async with served({"Test.Echo": echo}) as server:
        port = server.port
        client = jsonrpc.RpcClient("127.0.0.1", port)
        assert await client.call("Test.Echo", 1) == 1
    with pytest.raises(jsonrpc.RpcFailed, match=f"Test.Echo on 127.0.0.1:{port}"):
        await client.call("Test.Echo", 2)
    async with served({"Test.Echo": echo}, port=port):
        assert await client.call("Test.Echo", 3) == 3
        client.close()


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    async def never(_argument: Any) -> Any:
        await asyncio.Event().wait()

    async with served({"Test.Never": never, "Test.Echo": echo}) as server:
        client = jsonrpc.RpcClient("127.0.0.1", server.port, timeout=0.1)
        with pytest.raises(jsonrpc.RpcFailed, match=r"no answer within 0\.1 s"):
            await client.call("Test.Never", None)
        assert await client.call("Test.Echo", 1) == 1
        client.close()


@pytest.mark.parametrize("answer", [b"no json\n", b"{}\n", b"[1]\n", b'{"id":[],"error":null}\n'])
async def test_a_server_that_talks_nonsense_is_an_error(answer: bytes) -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    async with server:
        client = jsonrpc.RpcClient("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(jsonrpc.RpcFailed, match="not a JSON-RPC response"):
            await client.call("Test.Echo", 1)
        client.close()


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with served({}) as server:
        with pytest.raises(jsonrpc.RpcFailed, match="cannot listen"):
            await jsonrpc.RpcServer({}, host="127.0.0.1", port=server.port).start()


async def test_an_agent_registers_with_a_master_and_reports() -> None:
    master, joined = OfnetMaster(), asyncio.Queue[Node]()
    agent = OfnetAgent(add_master=joined.put, inspect=lambda: {"vxlan": {"DpName": "vrouter"}})
    async with (
        served(dict(master.methods())) as masters,
        served(dict(agent.methods())) as agents,
    ):
        own = Node("127.0.0.1", agents.port)
        up = jsonrpc.RpcClient("127.0.0.1", masters.port)
        down = jsonrpc.RpcClient("127.0.0.1", agents.port)
        await down.call(control.ADD_MASTER, Node("127.0.0.1", masters.port).to_json())
        assert joined.get_nowait() == Node("127.0.0.1", masters.port)
        await control.register(up, own)
        await control.report(up, AgentReport(node=own, host="h1", revisions={"/a/": 3}))
        assert master.nodes == {own: AgentReport(node=own, host="h1", revisions={"/a/": 3})}
        assert await control.inspect(down) == {"vxlan": {"DpName": "vrouter"}}
        await control.unregister(up, own)
        assert not master.nodes
        up.close()
        down.close()
