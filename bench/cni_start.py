"""How long a container runtime waits for the plugin: start, one ADD, exit.

The agent is a recorder that answers at once, so what is measured is the process: the static program
that hosts have, and its reference in Python. They stand beside a bare interpreter that does
nothing, and beside the cheapest process there is.
"""

import asyncio
import contextlib
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.table import Row, at, show
from tests.bed.plugin import SCRIPT, compiled

ROUNDS = 300
CONFIG = b'{"cniVersion":"0.3.1","name":"contiv-net","type":"contivk8s"}'
RESULT = {"cniVersion": "0.3.1", "ips": [{"version": "4", "address": "10.1.1.5/24"}], "dns": {}}
PYTHON = ["/usr/bin/python3", "-I", "-S", "-c", "pass"]
TARGET = 1.5
"""Of the plugin in Python, times a bare interpreter."""


def rows() -> Iterable[Row]:
    """Measure, the commands taking turns so that a busy moment hits all of them."""
    with recorder() as socket:
        env = {
            "CNI_COMMAND": "ADD",
            "CNI_CONTAINERID": "abc123",
            "CNI_NETNS": "/var/run/netns/pod1",
            "CNI_IFNAME": "eth0",
            "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-1",
            "CONTIV_CNI_SOCKET": str(socket),
        }
        programs = [[str(compiled())], [str(SCRIPT)], PYTHON, ["/bin/true"]]
        static, script, python, true = measure(programs, env)
    for name, rank in (("p50", 0.5), ("p99", 0.99)):
        for ours_is, mine, what, series, note in (
            ("contivk8s", static, "/bin/true", true, "the cheapest process there is"),
            ("contivk8s", static, "contivk8s in Python", script, "its reference"),
            (
                *("contivk8s in Python", script, "python3 -I -S -c pass", python),
                f"target {1 / TARGET:.2f}: {TARGET} x its time",
            ),
        ):
            ours, reference = at(mine, rank), at(series, rank)
            yield Row(
                what=f"{ours_is} ADD {name} beside {what}",
                ours=ours,
                unit="ms",
                reference=reference,
                ratio=reference / ours,
                note=note,
            )


def measure(commands: Sequence[Sequence[str]], env: Mapping[str, str]) -> list[list[float]]:
    """Return the sorted times of each command in milliseconds, the warm-up left out."""
    times: list[list[float]] = [[] for _ in commands]
    for turn in range(ROUNDS + 5):
        for command, series in zip(commands, times, strict=True):
            began = time.perf_counter()
            done = subprocess.run(command, check=True, input=CONFIG, capture_output=True, env=env)
            took = time.perf_counter() - began
            if "contivk8s" in command[0] and json.loads(done.stdout) != RESULT:
                raise RuntimeError(f"unexpected answer {done.stdout!r}")
            if turn >= 5:
                series.append(took * 1000)
    return [sorted(series) for series in times]


@contextlib.contextmanager
def recorder() -> Iterator[Path]:
    """Answer every request at once, from a thread of its own."""
    body = json.dumps({"cni": json.dumps(RESULT)}).encode()
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    ready = threading.Event()
    loop = asyncio.new_event_loop()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.partition(b"Content-Length: ")[2].split(b"\r\n")[0]
        await reader.readexactly(int(length))
        writer.write(reply)
        await writer.drain()
        writer.close()

    async def serve(path: Path, stop: asyncio.Event) -> None:
        async with await asyncio.start_unix_server(answer, path):
            ready.set()
            await stop.wait()

    with tempfile.TemporaryDirectory(prefix="cni") as directory:
        path = Path(directory) / "cni.sock"
        stop = asyncio.Event()
        thread = threading.Thread(target=loop.run_until_complete, args=[serve(path, stop)])
        thread.start()
        ready.wait()
        try:
            yield path
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()


if __name__ == "__main__":
    show(rows())
