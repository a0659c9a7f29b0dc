"""`netcontiv` as a process against the server on its unix socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from ipaddress import IPv6Interface
from pathlib import Path

import pytest

from core.errors import Exhausted
from netplugin.mesos.namespace_links import NamespaceLinks
from netplugin.mesos.server import MAX_BODY, serve
from tests.bed.waiting import WITHIN
from tests.integration.cni.calls import FakePods, Outcome

PLUGIN = Path(__file__).parents[3] / "contivk8s" / "netcontiv.py"


@pytest.fixture
def path(bed_dir: Path) -> Path:
    return bed_dir / "contiv" / "mesos.sock"


@pytest.fixture
def pods() -> FakePods:
    return FakePods()


@pytest.fixture
async def agent(path: Path, pods: FakePods, bed_dir: Path) -> AsyncIterator[Path]:
    async with serve(path, pods, NamespaceLinks(bed_dir / "netns")):
        yield path


async def called(agent: Path, command: str, netns: str = "/var/run/netns/c1") -> Outcome:
    process = await asyncio.create_subprocess_exec(
        PLUGIN,
        env={
            "CNI_COMMAND": command,
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": netns,
            "CNI_CONTAINERID": "c1",
            "CONTIV_MESOS_SOCKET": str(agent),
            "CONTIV_MESOS_LOG": str(agent.with_suffix(".log")),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Outcome(process.returncode or 0, out.decode(), err.decode())


async def test_a_container_is_added_and_deleted(agent: Path, pods: FakePods, bed_dir: Path) -> None:
    pods.ipv6 = IPv6Interface("2001:db8::5/64")
    outcome = await called(agent, "ADD")
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.json["ip4"] == {"ip": "10.1.1.5/24", "gateway": "10.1.1.1"}
    assert outcome.json["ip6"] == {"ip": "2001:db8::5/64", "gateway": "2001:db8::1"}
    link = bed_dir / "netns" / "c1"
    assert link.readlink() == Path("/var/run/netns/c1")
    outcome = await called(agent, "DEL")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, "\n", "")
    assert not link.is_symlink()
    assert [request.spec.container_id for request in (*pods.added, *pods.deleted)] == ["c1", "c1"]
    assert "ADD c1" in agent.with_suffix(".log").read_text()


@pytest.mark.parametrize("command", ["ADD", "DEL"])
async def test_an_error_is_told(agent: Path, pods: FakePods, command: str) -> None:
    pods.error = Exhausted("no address left")
    outcome = await called(agent, command)
    assert (outcome.code, outcome.json) == (
        2,
        {"cniVersion": "0.2", "code": 2, "msg": "Contiv: no address left"},
    )


async def test_a_crash_is_an_answer(agent: Path, pods: FakePods) -> None:
    pods.error = RuntimeError("a bug")
    outcome = await called(agent, "ADD")
    assert (outcome.code, outcome.json["code"]) == (2, 2)


async def test_a_call_that_makes_no_sense_is_refused(agent: Path, pods: FakePods) -> None:
    outcome = await called(agent, "ADD", netns="relative")
    assert outcome.code == 2
    assert "is not an absolute path" in outcome.json["msg"]
    assert pods.added == []


async def status(agent: Path, head: str, body: bytes = b"") -> int:
    reader, writer = await asyncio.open_unix_connection(agent)
    try:
        length = f"Content-Length: {len(body)}\r\n"
        writer.write(f"{head}\r\nHost: localhost\r\n{length}\r\n".encode() + body)
        async with asyncio.timeout(WITHIN):
            return int((await reader.readline()).split()[1])
    finally:
        writer.close()
        await writer.wait_closed()


JSON = "\r\nContent-Type: application/json"


@pytest.mark.parametrize(
    "head",
    [
        "GET /MesosNwIntfAdd HTTP/1.1" + JSON,
        "POST /MesosNwIntfAdd HTTP/1.1",
        "POST /other HTTP/1.1" + JSON,
    ],
)
async def test_other_requests_are_not_served(agent: Path, head: str) -> None:
    assert await status(agent, head, b"{}") == 503


async def test_a_large_request_is_refused(agent: Path, pods: FakePods) -> None:
    body = json.dumps({"cni_containerid": "c" * MAX_BODY}).encode()
    assert await status(agent, "POST /MesosNwIntfAdd HTTP/1.1" + JSON, body) == 500
    assert pods.added == []
