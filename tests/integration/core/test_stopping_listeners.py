"""No client is left waiting by a server that ends, whenever it comes, on both event loops."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web

from daemons.health import Health
from daemons.listen_address import ListenAddress
from netmaster.api.http.server import RestServer
from netplugin.plugin_socket import PluginSocket
from netplugin.startup import inspect
from ofnet.rpc.jsonrpc import RpcServer
from tests.bed.waiting import WITHIN

HOST = "127.0.0.1"
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
TURNS = 8
"""Turns of the loop after which a connection is made and read, and more."""

Address = tuple[str, int] | str
Serving = Callable[[Path], AbstractAsyncContextManager[Address]]


async def greet(_: web.BaseRequest) -> web.Response:
    return web.Response(text="hello")


async def echo(argument: Any) -> Any:
    return argument


@asynccontextmanager
async def master(_: Path) -> AsyncIterator[Address]:
    server = RestServer()
    server.role = greet
    try:
        yield HOST, (await server.listen(ListenAddress(HOST, 0))).port
    finally:
        await server.close()


@asynccontextmanager
async def agent(_: Path) -> AsyncIterator[Address]:
    app = inspect.application(Health({}))
    async with inspect.serve(ListenAddress(HOST, 0), app) as port:
        yield HOST, port


@asynccontextmanager
async def plugin(directory: Path) -> AsyncIterator[Address]:
    path = directory / "plugin.sock"
    async with PluginSocket("plugin").listening(path, greet):
        yield str(path)


@asynccontextmanager
async def rpc(_: Path) -> AsyncIterator[Address]:
    server = RpcServer({"T.Echo": echo}, host=HOST)
    await server.start()
    try:
        yield HOST, server.port
    finally:
        await server.close()


GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
CALL = b'{"method":"T.Echo","params":[1],"id":1}\n'
SERVERS: dict[Serving, bytes] = {master: GET, agent: GET, plugin: GET, rpc: CALL}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("said", [True, False], ids=["asking", "silent"])
@pytest.mark.parametrize("serving", SERVERS)
def test_a_client_is_answered_or_let_go(
    serving: Serving,
    said: bool,
    loop: str,
    tmp_path: Path,
) -> None:
    async def left(turns: int) -> bool:
        """Return whether a client waits after the end of a server that came so many turns later."""
        async with serving(tmp_path) as address:
            client = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
            client.connect(address)
            client.sendall(SERVERS[serving] if said else b"")
            for _ in range(turns):
                await asyncio.sleep(0)
        with client:
            client.settimeout(0)
            return not await _ends(client)

    async def work() -> list[int]:
        return [turns for turns in range(TURNS) if await left(turns)]

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        assert runner.run(work()) == []


async def _ends(client: socket.socket) -> bool:
    """Return whether a connection ends, after an answer or without."""
    try:
        async with asyncio.timeout(WITHIN):
            while await asyncio.get_running_loop().sock_recv(client, 4096):
                pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True
