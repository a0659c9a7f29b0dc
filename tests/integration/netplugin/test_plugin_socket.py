"""The plugin socket before and after the agent is ready, and requests that are none."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector

from core.errors import Conflict, HostError
from netplugin.libnetwork.calls import BadBody
from netplugin.libnetwork.server import MAX_BODY, PluginServer

Answer = tuple[int, dict[str, Any]]


async def _echo(body: bytes) -> Mapping[str, object]:
    return {"heard": body.decode()}


async def _refuse(_: bytes) -> Mapping[str, object]:
    raise Conflict("no")


async def _bad(_: bytes) -> Mapping[str, object]:
    raise BadBody("no call")


async def _crash(_: bytes) -> Mapping[str, object]:
    raise ZeroDivisionError("secret")


HANDLERS = {
    "NetworkDriver.Join": _echo,
    "IpamDriver.RequestPool": _echo,
    "NetworkDriver.Leave": _refuse,
    "NetworkDriver.CreateEndpoint": _bad,
    "NetworkDriver.DeleteEndpoint": _crash,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plugins" / "netplugin.sock"


@pytest.fixture
async def client(path: Path) -> AsyncIterator[ClientSession]:
    async with ClientSession(connector=UnixConnector(str(path))) as client:
        yield client


async def ask(client: ClientSession, call: str, body: bytes = b"", method: str = "POST") -> Answer:
    async with client.request(method, f"http://x/{call}", data=BytesIO(body)) as answer:
        assert answer.headers["Connection"] == "close"
        return answer.status, json.loads(await answer.read())


async def test_handshakes_are_answered_before_the_agent_is_ready(
    client: ClientSession, path: Path
) -> None:
    server = PluginServer("local", ready_wait=0.01)
    async with server.listening(path):
        shown = await ask(client, "Plugin.Activate")
        assert shown == (200, {"Implements": ["NetworkDriver", "IpamDriver"], "Err": ""})
        assert (await ask(client, "NetworkDriver.GetCapabilities"))[1]["Scope"] == "local"
        for call in ("IpamDriver.GetCapabilities", "IpamDriver.GetDefaultAddressSpaces"):
            assert (await ask(client, call))[0] == 200
        status, answer = await ask(client, "NetworkDriver.Join")
        assert status == 503
        assert "netplugin is starting" in answer["Err"]


async def test_a_call_waits_for_the_agent(client: ClientSession, path: Path) -> None:
    server = PluginServer("local", ready_wait=30)
    async with server.listening(path), asyncio.TaskGroup() as calls:
        waiting = calls.create_task(ask(client, "NetworkDriver.Join", b"x"))
        await ask(client, "Plugin.Activate")
        assert not waiting.done()
        server.serve_calls(HANDLERS)
        assert await waiting == (200, {"Err": "", "heard": "x"})


async def test_answers_and_errors(client: ClientSession, path: Path) -> None:
    server = PluginServer("local")
    server.serve_calls(HANDLERS)
    async with server.listening(path):
        assert await ask(client, "IpamDriver.RequestPool", b"{}") == (
            200,
            {"Error": "", "heard": "{}"},
        )
        no = {"Err": "no", "Error": "no"}
        assert await ask(client, "NetworkDriver.Leave") == (500, no)
        assert (await ask(client, "NetworkDriver.CreateEndpoint"))[0] == 400
        status, answer = await ask(client, "NetworkDriver.DeleteEndpoint")
        assert (status, "secret" in answer["Err"]) == (500, False)
        for call in ("NetworkDriver.AllocateNetwork", "IpamDriver.X", "", "x/y"):
            assert (await ask(client, call))[0] == 404
        assert (await ask(client, "NetworkDriver.Join", method="GET"))[0] == 404
        status, answer = await ask(client, "NetworkDriver.Join", b"x" * (MAX_BODY + 1))
        assert status == 413
        assert "is larger than" in answer["Err"]
        assert (await ask(client, "NetworkDriver.Join", b"x" * MAX_BODY))[0] == 200


async def test_one_agent_alone_has_the_socket(client: ClientSession, path: Path) -> None:
    async with PluginServer("local").listening(path):
        with pytest.raises(HostError, match="another agent listens there"):
            async with PluginServer("local").listening(path):
                raise AssertionError("not reached")
        mode = await asyncio.to_thread(lambda: stat.S_IMODE(path.stat().st_mode))
        assert mode == 0o600
        assert (await ask(client, "Plugin.Activate"))[0] == 200
