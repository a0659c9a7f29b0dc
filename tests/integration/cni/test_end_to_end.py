"""The plugin as a process against the server on its unix socket."""

import asyncio
import json
import logging
import os
import signal
import socket
import stat
import subprocess
from collections.abc import AsyncIterator
from ipaddress import IPv6Interface
from pathlib import Path
from typing import Any

import pytest
import uvloop

from contivk8s import main
from core.errors import HostError, StoreUnavailable
from core.net.unix_socket import listen
from netplugin.cni.server import MAX_BODY, serve
from tests.bed import plugin
from tests.bed.waiting import WITHIN
from tests.integration.cni import calls
from tests.integration.cni.calls import CONFIG, FakePods, environment, run_plugin


@pytest.fixture
def path(bed_dir: Path) -> Path:
    return bed_dir / "contiv" / "cni.sock"


@pytest.fixture
def pods() -> FakePods:
    return FakePods()


@pytest.fixture
async def agent(path: Path, pods: FakePods) -> AsyncIterator[Path]:
    async with serve(path, pods.handlers):
        yield path


def open_to_all(path: Path) -> None:
    path.parent.chmod(0o755)
    path.chmod(0o666)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def post(path: Path, raw: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes, return status, headers and body of what comes back."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(raw)
        async with asyncio.timeout(WITHIN):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode().splitlines()
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            body = await reader.readexactly(int(headers.get("Content-Length", 0)))
        return int(lines[0].split()[1]), headers, body
    finally:
        writer.close()
        await writer.wait_closed()


def http(body: bytes, route: str = "/ContivCNI.AddPod", kind: str = "application/json") -> bytes:
    head = f"POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0"])
async def test_a_pod_is_added_and_deleted(agent: Path, pods: FakePods, version: str) -> None:
    pods.ipv6 = IPv6Interface("2001:db8::5/64")
    config = json.dumps({"cniVersion": version, "name": "n", "contiv": {"network": "n1"}})
    outcome = await run_plugin(environment("ADD"), config, socket=agent)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.json["cniVersion"] == version
    assert [ip["address"] for ip in outcome.json["ips"]] == ["10.1.1.5/24", "2001:db8::5/64"]
    assert outcome.json["interfaces"][1]["sandbox"] == "/var/run/netns/abc123"
    (request,) = pods.added
    assert (request.spec.container_id, request.spec.network, request.cni_version) == (
        "abc123",
        "n1",
        version,
    )

    outcome = await run_plugin(environment("DEL"), config, socket=agent)
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, "", "")
    assert pods.deleted == [request]


async def test_the_socket_of_the_configuration_wins(agent: Path, pods: FakePods) -> None:
    config = json.dumps({"cniVersion": "0.3.1", "contiv": {"socket": str(agent)}})
    outcome = await run_plugin(environment("ADD"), config, socket=Path("/nonexistent"))
    assert outcome.code == 0
    assert len(pods.added) == 1


async def test_a_refusal_reaches_the_runtime(agent: Path, pods: FakePods) -> None:
    pods.error = StoreUnavailable("no store at http://127.0.0.1:2379")
    for verb in ("ADD", "DEL"):
        outcome = await run_plugin(environment(verb), socket=agent)
        assert outcome.code == 1
        assert outcome.json["code"] == 11
        assert outcome.json["details"] == "Err: no store at http://127.0.0.1:2379"


async def test_a_crash_of_the_handler_is_an_answer(
    agent: Path, pods: FakePods, caplog: pytest.LogCaptureFixture
) -> None:
    pods.error = RuntimeError("a bug")
    outcome = await run_plugin(environment("ADD"), socket=agent)
    assert (outcome.code, outcome.json["code"]) == (1, 100)
    assert outcome.json["msg"] == "Contiv:Unexpected failure in the agent"
    assert [r for r in caplog.records if r.levelno == logging.ERROR and r.exc_info]
    pods.error = None
    assert (await run_plugin(environment("ADD"), socket=agent)).code == 0


async def test_twenty_adds_at_once_go_side_by_side(agent: Path, pods: FakePods) -> None:
    gate = pods.gate = asyncio.Event()

    async def open_when_all_are_here() -> None:
        await pods.until_busy(20)
        gate.set()

    calls = [run_plugin(environment("ADD", f"c{n}"), socket=agent) for n in range(20)]
    outcomes, _ = await asyncio.gather(asyncio.gather(*calls), open_when_all_are_here())
    assert [outcome.code for outcome in outcomes] == [0] * 20
    assert {request.spec.container_id for request in pods.added} == {f"c{n}" for n in range(20)}


async def test_two_deletes_at_once_both_succeed(agent: Path, pods: FakePods) -> None:
    outcomes = await asyncio.gather(
        *(run_plugin(environment("DEL"), socket=agent) for _ in range(2)),
        run_plugin(environment("DEL", CNI_NETNS=""), socket=agent),
    )
    assert [(outcome.code, outcome.stdout) for outcome in outcomes] == [(0, "")] * 3
    assert len(pods.deleted) == 3


async def test_a_plugin_killed_meanwhile_does_not_stop_the_add(agent: Path, pods: FakePods) -> None:
    pods.gate = asyncio.Event()
    call = asyncio.gather(run_plugin(environment("ADD"), socket=agent))
    await pods.until_busy(1)
    (child,) = await asyncio.to_thread(plugins)
    os.kill(child, signal.SIGKILL)
    (outcome,) = await call
    assert outcome.code == -signal.SIGKILL
    assert pods.busy == 1
    pods.gate.set()
    await pods.until_busy(0)


def plugins() -> list[int]:
    """Return the plugins this process has started."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [line.split(maxsplit=1) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, args in lines if str(calls.PLUGIN) in args]


@pytest.mark.parametrize(
    "raw",
    [
        http(b"{}", kind="application/json; charset=utf-8"),
        http(b"{}", kind="text/plain"),
        http(b"{}", route="/ContivCNI.Other"),
        http(b"{}", route="/"),
        b"GET /ContivCNI.AddPod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\r\n",
        b"POST /ContivCNI.AddPod HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
async def test_other_requests_are_not_found(agent: Path, pods: FakePods, raw: bytes) -> None:
    status, headers, body = await post(agent, raw)
    assert (status, body) == (404, b"404 page not found\n")
    assert headers["Content-Type"].startswith("text/plain")
    assert not pods.added


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"", 4), (b"{", 6), (b"[]", 6), (b"\xff", 6), (b"{}", 4), (b'{"netconf":"{"}', 6)],
)
@pytest.mark.parametrize("route", ["/ContivCNI.AddPod", "/ContivCNI.DelPod"])
async def test_a_garbage_body_is_an_error(
    agent: Path, pods: FakePods, body: bytes, code: int, route: str
) -> None:
    status, headers, answer = await post(agent, http(body, route=route))
    assert status == 500
    assert headers["Content-Type"].startswith("application/json")
    reply = json.loads(answer)
    assert (reply["result"], reply["errmsg"]) == (1, "Error parsing request")
    assert json.loads(reply["cni"])["code"] == code
    assert not pods.added
    assert not pods.deleted


async def test_a_body_too_large_is_refused(agent: Path, pods: FakePods) -> None:
    status, _, answer = await post(agent, http(b" " * (MAX_BODY + 1)))
    assert status == 413
    assert json.loads(json.loads(answer)["cni"])["code"] == 6
    config = json.dumps({"cniVersion": "0.3.1", "filler": "x" * MAX_BODY})
    outcome = await run_plugin(environment("ADD"), config, socket=agent)
    assert (outcome.code, outcome.json["code"]) == (1, 6)
    assert f"larger than {MAX_BODY} bytes" in outcome.json["details"]
    assert not pods.added


@pytest.mark.parametrize("raw", [b"\0" * 100, b"hello\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n"])
async def test_what_is_not_http_gets_an_answer_and_hurts_nobody(agent: Path, raw: bytes) -> None:
    assert (await post(agent, raw))[0] == 400
    assert (await run_plugin(environment("ADD"), socket=agent)).code == 0


async def test_a_caller_that_says_nothing_hurts_nobody(agent: Path) -> None:
    _, writer = await asyncio.open_unix_connection(agent)
    writer.write(http(b"x" * 100)[:-50])
    assert (await run_plugin(environment("ADD"), socket=agent)).code == 0
    writer.close()
    await writer.wait_closed()


async def test_only_root_is_let_in(agent: Path, pods: FakePods) -> None:
    assert mode(agent) == 0o600
    assert mode(agent.parent) == 0o700
    open_to_all(agent)
    process = await asyncio.create_subprocess_exec(
        "/usr/bin/python3",
        "-c",
        "import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);"
        "s.sendall(sys.stdin.buffer.read());print(s.recv(100).decode())",
        str(agent),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        user=65534,
    )
    out, _ = await process.communicate(http(b"{}"))
    assert out.startswith(b"HTTP/1.1 403 ")
    assert not pods.added


async def test_a_dead_agent_s_socket_makes_way(path: Path, pods: FakePods) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serve(path, pods.handlers):
        assert (await run_plugin(environment("ADD"), socket=path)).code == 0
    outcome = await run_plugin(environment("ADD"), socket=path)
    assert (outcome.code, outcome.json["code"]) == (1, 11)
    async with serve(path, pods.handlers):
        assert (await run_plugin(environment("ADD"), socket=path)).code == 0


async def test_a_living_agent_is_left_alone(agent: Path) -> None:
    with pytest.raises(HostError, match="another agent listens there"):
        listen(agent, "CNI")
    assert (await run_plugin(environment("ADD"), socket=agent)).code == 0


async def test_no_agent_is_an_error_for_both_verbs(path: Path) -> None:
    for verb in ("ADD", "DEL"):
        outcome = await run_plugin(environment(verb), socket=path)
        assert (outcome.code, outcome.json["code"]) == (1, 11)


def test_an_agent_that_hangs_is_an_error_in_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "TIMEOUT", 1)
    with listen(path, "CNI") as deaf:
        deaf.listen(0)
        trace = f"00-{'4b' * 16}-{'a0' * 8}-01"
        env = environment("ADD", CONTIV_CNI_SOCKET=str(path), TRACEPARENT=trace)
        for _ in range(2):  # the second does not even get into the queue
            code, out = main.answer(env, CONFIG.encode())
            assert (code, json.loads(out)["code"]) == (1, 11)
            assert json.loads(out)["details"] == f"{path}: nothing for 1 s, trace {'4b' * 16}"


def test_the_server_runs_on_the_daemon_s_loop(path: Path) -> None:
    env = environment("ADD", CONTIV_CNI_SOCKET=str(path))

    async def add() -> tuple[int, str]:
        async with serve(path, FakePods().handlers):
            return await asyncio.to_thread(main.answer, env, CONFIG.encode())

    assert uvloop.run(add())[0] == 0


async def test_flags_by_hand() -> None:
    outcome = await run_plugin({}, argv="--version")
    assert outcome.code == 0
    assert outcome.stdout.startswith(f"Version: {main.VERSION}\n")


@pytest.mark.parametrize("python", ["/usr/bin/python3", "python3"])
async def test_the_plugin_imports_next_to_nothing(python: str, agent: Path) -> None:
    """Each of these modules would cost more than the plugin's whole work."""
    process = await asyncio.create_subprocess_exec(
        python,
        "-IS",
        "-X",
        "importtime",
        plugin.SCRIPT,
        env={**environment("ADD"), "CONTIV_CNI_SOCKET": str(agent), "PATH": os.environ["PATH"]},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(CONFIG.encode())
    assert json.loads(out)["ips"]
    imported = {line.rpartition("|")[2].strip() for line in err.decode().splitlines()}
    costly: set[Any] = {"json", "socket", "os", "re", "typing", "struct", "enum", "site"}
    assert not imported & costly
