"""The program of the managed plugin (deploy/docker-plugin): what it answers, and what it forwards.

Run by `make swarm-check`, for it takes a compiler.
"""

import http.client
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiohttp import ClientSession, UnixConnector

from netplugin.libnetwork.server import PluginServer
from tests.bed.cluster import ROOT
from tests.bed.docker import ask
from tests.bed.waiting import WITHIN, eventually

SHOWN = (
    "Plugin.Activate",
    "Plugin.Deactivate",
    "NetworkDriver.GetCapabilities",
    "NetworkDriver.DiscoverNew",
    "NetworkDriver.DiscoverDelete",
    "IpamDriver.GetCapabilities",
    "IpamDriver.GetDefaultAddressSpaces",
)


class Proxy:
    """A running proxy, and where the agent would listen."""

    def __init__(self, program: Path, directory: Path) -> None:
        self.socket = directory / "plugin.sock"
        self.agent = directory / "agent.sock"
        self.process = subprocess.Popen([program, self.socket, self.agent])
        eventually(self.socket.is_socket, "the proxy listens")

    def post(self, call: str, body: object) -> tuple[int, object]:
        return ask(self.socket, "POST", f"/{call}", body)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plugin")
    subprocess.run([ROOT / "scripts" / "docker-plugin", out], check=True)
    return out / "rootfs" / "proxy"


@pytest.fixture
def proxy(program: Path, bed_dir: Path) -> Iterator[Proxy]:
    proxy = Proxy(program, bed_dir)
    yield proxy
    proxy.process.kill()
    proxy.process.wait()


def test_its_only_program_needs_nothing(program: Path) -> None:
    assert [path for path in program.parent.rglob("*") if path.is_file()] == [program]
    linked = subprocess.run(["ldd", program], check=False, capture_output=True, text=True)
    assert "not a dynamic executable" in linked.stderr + linked.stdout


async def test_what_it_answers_is_what_the_agent_answers(proxy: Proxy, tmp_path: Path) -> None:
    server, path = PluginServer("global"), tmp_path / "a.sock"
    async with server.listening(path), ClientSession(connector=UnixConnector(str(path))) as agent:
        for call in SHOWN:
            async with agent.post(f"http://x/{call}", data=b"{}") as answer:
                own = json.loads(await answer.read())
            for body in (None, {"DiscoveryType": 1, "DiscoveryData": {"Self": True}}):
                assert proxy.post(call, body) == (200, own)


class Agent:
    """A server that answers each request with its path and the size of its body, and closes.

    One that is not `able` closes without an answer.
    """

    def __init__(self, path: Path, *, able: bool = True) -> None:
        self.heard = 0
        self._able = able
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, client.makefile("rb") as read:
                line = read.readline().decode()
                length = 0
                while (header := read.readline().decode().strip().lower()) != "":
                    name, _, value = header.partition(":")
                    length = int(value) if name == "content-length" else length
                text = json.dumps([line.split()[1], len(read.read(length))])
                self.heard += 1
                if not self._able:
                    continue
                client.sendall(
                    f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
                )


@pytest.mark.parametrize("size", [0, 10, 3_000_000])
def test_a_call_reaches_the_agent(proxy: Proxy, size: int) -> None:
    agent = Agent(proxy.agent)
    try:
        body = "x" * size
        assert proxy.post("NetworkDriver.Join", body) == (200, ["/NetworkDriver.Join", size + 2])
        assert proxy.post("Plugin.ActivateX", 1) == (200, ["/Plugin.ActivateX", 1])
        with ThreadPoolExecutor(20) as pool:
            calls = pool.map(lambda one: proxy.post(f"N.{one}", body)[1], range(100))
            assert list(calls) == [[f"/N.{one}", size + 2] for one in range(100)]
    finally:
        agent.close()


def test_a_call_waits_for_the_agent(proxy: Proxy) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(proxy.post, "NetworkDriver.Join", {})
        eventually(lambda: children(proxy) == 1, "the call waits")
        assert not waiting.done()
        agent = Agent(proxy.agent)
        try:
            assert waiting.result(timeout=WITHIN) == (200, ["/NetworkDriver.Join", 2])
        finally:
            agent.close()
    eventually(lambda: children(proxy) == 0, "its process has ended")


@pytest.mark.parametrize("size", [10, 900_000])
def test_a_call_whose_agent_ends_goes_to_the_next(proxy: Proxy, size: int) -> None:
    """Docker would repeat it without its body."""
    dying = Agent(proxy.agent, able=False)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(proxy.post, "NetworkDriver.CreateEndpoint", "x" * size)
        eventually(lambda: dying.heard > 0, "the agent has the request")
        dying.close()
        agent = Agent(proxy.agent)
        try:
            whole = [200, ["/NetworkDriver.CreateEndpoint", size + 2]]
            assert list(waiting.result(timeout=WITHIN)) == whole
        finally:
            agent.close()
    assert agent.heard == 1


def children(proxy: Proxy) -> int:
    pid = proxy.process.pid
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def test_who_gives_up_leaves_nothing(proxy: Proxy) -> None:
    for sent in (b"", b"POST /Netw", b"POST /NetworkDriver.Join HTTP/1.1\r\n\r\n", b"x" * 10_000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(proxy.socket))
            client.sendall(sent)
    eventually(lambda: children(proxy) == 0, "no process is left")
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(proxy.socket, "x" * 5000, "/")


def test_it_ends_when_docker_says_so(proxy: Proxy) -> None:
    proxy.process.send_signal(signal.SIGTERM)
    assert proxy.process.wait(30) == 0
