"""The recorded calls of real engines (`docker/README.md`), sent to our plugin socket in order.

Every answer must have what an engine reads of it. What an answer chooses is ours: the id of the
pool, addresses, names of links.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector

from core.ids import NetworkName
from netplugin.libnetwork.calls import GENERIC_OPTIONS
from netplugin.libnetwork.server import PluginServer
from netplugin.libnetwork.swarm import SwarmNetworks
from netplugin.startup.docker import handlers, swarm_handlers
from state.records import DocknetRecord, Encap, NetworkRecord
from tests.unit.netplugin.agent import NOTHING_LEFT, Outside, eventually
from tests.unit.netplugin.libnetwork.scene import Drivers, drivers
from tests.unit.netplugin.records import network

RECORDED = Path(__file__).parent / "docker"
FILES = sorted(RECORDED.glob("*.jsonl"))
SERIAL = "com.docker.network.ipam.serial"
SWARM = "swarm-"
"""What the names of the recordings of a swarm begin with."""
SAME = (
    ("10.79.0.", "10.1.0."),
    ("02:02:0a:4f:", "02:02:0a:01:"),
    ('"recLocal"', '"contivLocal"'),
    ('"recGlobal"', '"contivGlobal"'),
)
"""The recorder's addresses and spaces, and those of our driver and of our fake of netmaster."""


@dataclass
class Line:
    path: str
    request: dict[str, Any] | None
    answer: dict[str, Any]


def lines_of(file: Path) -> list[Line]:
    text = file.read_text()
    for was, ours in SAME:
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
    managers_pool: str = ""
    named: dict[str, str] = field(default_factory=dict)
    """The options of the network that the swarm's manager was answered: each node is told them."""

    async def send(self, line: Line) -> tuple[int, dict[str, Any]]:
        request = self._request(line)
        body = None if request is None else json.dumps(request)
        headers = {"Accept": "application/vnd.docker.plugins.v1.2+json"}
        async with self.session.post(f"http://x{line.path}", data=body, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def succeed(self, line: Line) -> dict[str, Any]:
        status, answer = await self.send(line)
        assert status == 200, (line, answer)
        assert not answer.get("Err")
        assert not answer.get("Error")
        return answer

    def _request(self, line: Line) -> dict[str, Any] | None:
        if line.request is None:
            return None
        request = dict(line.request)
        if "PoolID" in request:
            # The recorder had one id; a manager's requests are those with an option of its own.
            by_node = line.path.endswith("RequestAddress") and SERIAL not in (
                request["Options"] or {}
            )
            request["PoolID"] = self.pool if by_node or not self.named else self.managers_pool
        if line.path == "/NetworkDriver.CreateNetwork" and self.named:
            request["Options"] = {**request["Options"], GENERIC_OPTIONS: self.named}
        return request


@pytest.fixture
async def outside() -> Outside:
    outside = Outside.new()
    outside.master.networks.add(recorded_network().id)
    return outside


def of_scope(swarm: bool) -> pytest.MarkDecorator:
    files = [file for file in FILES if file.name.startswith(SWARM) is swarm]
    return pytest.mark.parametrize("file", files, ids=lambda file: file.stem)


@of_scope(swarm=False)
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
                answer = await replay.succeed(line)
                check(line, answer)
                replay.pool = answer.get("PoolID", replay.pool)
                if line.path == "/IpamDriver.RequestPool":
                    assert replay.pool == "net1.default|10.1.0.0/24"
        if any(line.path == "/NetworkDriver.DeleteNetwork" for line in lines):
            await eventually(lambda: it.agent.traces()[:4] == NOTHING_LEFT[:4])


@of_scope(swarm=True)
async def test_recorded_calls_of_a_swarm_are_answered(
    file: Path, outside: Outside, tmp_path: Path
) -> None:
    """Its manager has the network created, by docker's id; no node looks it up."""
    lines = lines_of(file)
    (docker_id,) = {
        line.request["NetworkID"] for line in lines if line.request and "NetworkID" in line.request
    }
    own = replace(recorded_network(), name=NetworkName(docker_id))
    outside.master.networks.add(own.id)
    async with drivers(outside, tmp_path / "networks", (own,), in_swarm=True) as it:
        it.engine.away = True
        server = PluginServer("global")
        swarm = SwarmNetworks(outside.master, it.agent.world, Encap.VXLAN, tmp_path / "freed")
        server.serve_calls(handlers(it.driver, it.ipam) | swarm_handlers(swarm))
        path = tmp_path / "p.sock"
        async with server.listening(path), ClientSession(connector=UnixConnector(str(path))) as one:
            named = {"tenant": "default", "network": docker_id}
            replay = Replay(one, it, named=named)
            for line in lines:
                answer = await replay.succeed(line)
                check(line, answer, scope="global")
                replay.pool = answer.get("PoolID", replay.pool)
                if line.path == "/IpamDriver.RequestPool":
                    assert line.request is not None
                    of_node = line.request["AddressSpace"] == "contivLocal"
                    assert replay.pool == ("node|" if of_node else "") + "10.1.0.0/24"
                    replay.managers_pool = replay.managers_pool if of_node else replay.pool
                if line.path == "/NetworkDriver.AllocateNetwork":
                    assert answer["Options"].items() >= named.items()
        freed = any(line.path == "/NetworkDriver.FreeNetwork" for line in lines)
        assert outside.master.freed == ([docker_id] if freed else [])


def check(line: Line, answer: Mapping[str, Any], scope: str = "local") -> None:
    """See that an answer has what the engine reads, as the recorded one had it."""
    match line.path.removeprefix("/"):
        case "Plugin.Activate" | "NetworkDriver.GetCapabilities" as name:
            same = {"Implements": ["NetworkDriver", "IpamDriver"]}
            assert answer.items() >= (same if "Plugin" in name else {"Scope": scope}).items()
        case "IpamDriver.RequestPool":
            assert answer["Pool"] == line.answer["Pool"]
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
