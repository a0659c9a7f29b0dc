"""How long a user waits for netctl: start, one command, exit.

The netmaster is a stand-in that answers at once, so what is measured is the process. It stands
beside the same interpreter, with the same modules to find, that does nothing. Times are of the
processor, user and system: a start hardly waits, and whole seconds measure who else is at work.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.table import Row, at, show

ROUNDS = 40
NETCTL = str(Path(sys.executable).with_name("netctl"))
PYTHON = [sys.executable, "-I", "-c", "pass"]
TARGET = 2.5


def rows() -> Iterable[Row]:
    """Measure, the commands taking turns so that a busy moment hits all of them."""
    with stand_in() as url:
        commands = {
            "netctl --help": [NETCTL, "--help"],
            "netctl net ls": [NETCTL, "--netmaster", url, "net", "ls"],
        }
        *ours, python = measure([*commands.values(), PYTHON])
    for what, series in zip(commands, ours, strict=True):
        for name, rank in (("p10", 0.1), ("p50", 0.5)):
            taken, reference = at(series, rank), at(python, rank)
            yield Row(
                what=f"{what} {name} beside python -I -c pass",
                ours=taken,
                unit="ms",
                reference=reference,
                ratio=reference / taken,
                note=f"target {1 / TARGET:.2f}: {TARGET} x its time",
            )


def measure(commands: Sequence[Sequence[str]]) -> list[list[float]]:
    """Return the sorted times of each command in milliseconds, the warm-up left out."""
    times: list[list[float]] = [[] for _ in commands]
    for turn in range(ROUNDS + 3):
        for command, series in zip(commands, times, strict=True):
            took = processor_time(command)
            if turn >= 3:
                series.append(took * 1000)
    return [sorted(series) for series in times]


def processor_time(command: Sequence[str]) -> float:
    """Run a command and return the seconds of a processor that it took."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{command} failed")
    return used.ru_utime + used.ru_stime


class _Answers(BaseHTTPRequestHandler):
    """Answers lists with no objects, and everything else with an empty object."""

    def do_GET(self) -> None:
        body = b"[]" if self.path == "/api/v1/networks/" else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def stand_in() -> Iterator[str]:
    """Answer every request at once, from threads of its own; yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    show(rows())
