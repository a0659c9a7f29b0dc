"""The recorded calls of real engines (`docker/README.md`), sent to our plugin socket in order.

Every answer must have what an engine reads of it. What an answer chooses is ours: the id of the
pool, addresses, names of links.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector

from core.ids import NetworkName
from netplugin.libnetwork.server import PluginServer
from netplugin.startup.docker import handlers
from state.records import DocknetRecord, NetworkRecord
from tests.unit.netplugin.agent import NOTHING_LEFT, Outside, eventually
from tests.unit.netplugin.libnetwork.scene import Drivers, drivers
from tests.unit.netplugin.records import network

RECORDED = Path(__file__).parent / "docker"
FILES = sorted(RECORDED.glob("*.jsonl"))
SWARM_ONLY = {"/NetworkDriver.AllocateNetwork", "/NetworkDriver.FreeNetwork"}
"""Calls to a driver of networks of scope swarm, which this agent does not serve."""


SUBNETS = (("10.79.0.", "10.1.0."), ("02:02:0a:4f:", "02:02:0a:01:"))
"""The recorder's addresses, and those that our fake of netmaster grants."""


@dataclass
class Line:
    path: str
    request: dict[str, Any] | None
    answer: dict[str, Any]


def lines_of(file: Path) -> list[Line]:
    text = file.read_text()
    for was, ours in SUBNETS:
        text = text.replace(was, ours)
    return [Line(**json.loads(line)) for line in text.splitlines()]


def recorded_network() -> NetworkRecord:
    """Return the network that the recorder played."""
    return replace(
        network(gateway="10.1.0.254"),
        name=NetworkName("net1"),
        subnet="10.1.0.0",
        subnet_len=24,
        first="10.1.0.0",
        last="10.1.0.255",
    )


@dataclass
class Replay:
    """One recording, as far as it has been sent."""

    session: ClientSession
    it: Drivers
    pool: str = ""

    async def send(self, line: Line) -> tuple[int, dict[str, Any]]:
        request = self._request(line)
        body = None if request is None else json.dumps(request)
        headers = {"Accept": "application/vnd.docker.plugins.v1.2+json"}
        async with self.session.post(f"http://x{line.path}", data=body, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    def _request(self, line: Line) -> dict[str, Any] | None:
        if line.request is None:
            return None
        request = dict(line.request)
        if "PoolID" in request:
            request["PoolID"] = self.pool
        return request


@pytest.fixture
async def outside() -> Outside:
    outside = Outside.new()
    outside.master.networks.add(recorded_network().id)
    return outside


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_recorded_calls_are_answered(file: Path, outside: Outside, tmp_path: Path) -> None:
    lines = lines_of(file)
    ids = {
        line.request["NetworkID"] for line in lines if line.request and "NetworkID" in line.request
    }
    async with drivers(outside, tmp_path / "networks", (recorded_network(),)) as it:
        for docker_id in ids:
            it.agent.world.put(
                DocknetRecord(
                    tenant=network().tenant,
                    network=recorded_network().name,
                    group=None,
                    uuid=docker_id,
                )
            )
        server = PluginServer("local")
        server.serve_calls(handlers(it.driver, it.ipam))
        path = tmp_path / "p.sock"
        async with server.listening(path), ClientSession(connector=UnixConnector(str(path))) as one:
            replay = Replay(one, it)
            for line in lines:
                status, answer = await replay.send(line)
                if line.path in SWARM_ONLY:
                    assert status == 404
                    continue
                assert status == 200, (line, answer)
                assert not answer.get("Err")
                assert not answer.get("Error")
                check(line, answer)
                replay.pool = answer.get("PoolID", replay.pool)
        if any(line.path == "/NetworkDriver.DeleteNetwork" for line in lines):
            await eventually(lambda: it.agent.traces()[:4] == NOTHING_LEFT[:4])


def check(line: Line, answer: Mapping[str, Any]) -> None:
    """See that an answer has what the engine reads, as the recorded one had it."""
    match line.path.removeprefix("/"):
        case "Plugin.Activate" | "NetworkDriver.GetCapabilities" as name:
            same = {"Implements": ["NetworkDriver", "IpamDriver"]}
            assert answer.items() >= (same if "Plugin" in name else {"Scope": "local"}).items()
        case "IpamDriver.RequestPool":
            assert answer["Pool"] == line.answer["Pool"]
            assert answer["PoolID"] == "net1.default|10.1.0.0/24"
        case "IpamDriver.RequestAddress":
            assert line.request is not None
            asked = line.request["Address"]
            assert answer["Address"].startswith(asked or "10.1.0.")
            assert answer["Address"].endswith("/24")
        case "NetworkDriver.CreateEndpoint":
            given = answer["Interface"]
            assert (given["Address"], given["AddressIPv6"]) == ("", ""), "the engine has chosen it"
            assert given["MacAddress"].startswith("02:02:")
        case "NetworkDriver.Join":
            assert answer["Gateway"] == line.answer["Gateway"]
            assert answer["InterfaceName"]["DstPrefix"] == "eth"
            assert answer["InterfaceName"]["SrcName"]
        case _:
            pass
