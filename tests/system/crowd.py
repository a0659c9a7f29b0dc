"""A crowd that asks a service, and servers that say who they are: programs for pods' namespaces.

`serve NAME PORT` answers every connection and datagram with a name, in both families, and says
`ready` when it does. `ask tcp|udp ADDRESS PORT COUNT` opens connections one after the other, in
three phases: COUNT of them; more until it reads a line; COUNT again. It writes a line of JSON after
the first phase and after the last: what became of the connections (`Heard`). Run as processes since
one process has too little of a processor for all of them. Must not know what the service is.
"""

import contextlib
import json
import select
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

PATIENCE: Final = 10.0
RETRY: Final = 1.0
"""Seconds after which a datagram is sent again, as any resolver does."""

TRIES: Final = 5
REFUSED: Final = "refused"
RESET: Final = "reset"
SILENT: Final = "silent"
FAILURES: Final = frozenset({REFUSED, RESET, SILENT})

Heard = Counter[str]
"""Who answered, by how often; under the names of `FAILURES` connections that nobody served."""


class Server:
    """A server in a namespace; `kill` ends it at once."""

    def __init__(self, enter: Sequence[str], name: str, port: int) -> None:
        self._process = _started(enter, "serve", name, str(port))
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """End it."""
        _end(self._process)


class Asker:
    """A client in a namespace."""

    def __init__(
        self, enter: Sequence[str], kind: str, address: str, port: int, *, count: int
    ) -> None:
        self._process = _started(enter, "ask", kind, address, str(port), str(count))

    def first(self) -> Heard:
        """Wait for the first phase; return what was heard."""
        return self._line()["first"]

    def rest(self) -> tuple[Heard, Heard]:
        """Begin the last phase; return what was heard meanwhile, and in it."""
        assert self._process.stdin is not None
        self._process.stdin.write("rest\n")
        self._process.stdin.flush()
        line = self._line()
        return line["meanwhile"], line["last"]

    def kill(self) -> None:
        """End it."""
        _end(self._process)

    def _line(self) -> dict[str, Heard]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the asker ended: {self._process.wait()}"
        return {phase: Counter(heard) for phase, heard in json.loads(line).items()}


@contextmanager
def crowd(askers: Sequence[Asker]) -> Iterator[None]:
    """End the askers of a crowd."""
    with ExitStack() as stack:
        for one in askers:
            stack.callback(one.kill)
        yield


def _started(enter: Sequence[str], *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*enter, sys.executable, "-I", "-S", str(Path(__file__)), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


# -- in the namespaces -------------------------------------------------------------------------


def _serve(name: str, port: int) -> None:
    """Serve for ever."""

    def listening(kind: socket.SocketKind) -> socket.socket:
        end = socket.socket(socket.AF_INET6, kind)
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind(("::", port))
        return end

    streams, datagrams = listening(socket.SOCK_STREAM), listening(socket.SOCK_DGRAM)
    streams.listen(1024)
    print("ready", flush=True)  # noqa: T201 - it is a program

    def reflect() -> None:
        while True:
            _, sender = datagrams.recvfrom(2048)
            datagrams.sendto(name.encode(), sender)

    threading.Thread(target=reflect, daemon=True).start()
    while True:
        end, _ = streams.accept()
        with end, suppress(OSError):
            end.sendall(name.encode())


def _ask(kind: str, address: str, port: int, count: int) -> None:
    """Ask in three phases."""
    ask = {"tcp": _by_stream, "udp": _by_datagram}[kind]
    first, meanwhile, last = Heard(), Heard(), Heard()
    for _ in range(count):
        first[ask(address, port)] += 1
    _say(first=first)
    while not select.select([sys.stdin], [], [], 0)[0]:
        meanwhile[ask(address, port)] += 1
    for _ in range(count):
        last[ask(address, port)] += 1
    _say(meanwhile=meanwhile, last=last)


def _say(**phases: Heard) -> None:
    print(json.dumps(phases), flush=True)  # noqa: T201 - it is a program


def _by_stream(address: str, port: int) -> str:
    """Return what becomes of a new connection."""
    with _end_for(address, socket.SOCK_STREAM) as end:
        end.settimeout(PATIENCE)
        try:
            end.connect((address, port))
            return end.recv(100).decode() or RESET
        except ConnectionRefusedError:
            return REFUSED
        except ConnectionError:
            return RESET
        except TimeoutError:
            return SILENT


def _by_datagram(address: str, port: int) -> str:
    """Return who answers a datagram from a new port."""
    with _end_for(address, socket.SOCK_DGRAM) as end:
        end.settimeout(RETRY)
        end.connect((address, port))
        for _ in range(TRIES):
            with contextlib.suppress(TimeoutError):
                try:
                    end.send(b"who")
                    return end.recv(100).decode()
                except ConnectionRefusedError:
                    return REFUSED
        return SILENT


def _end_for(address: str, kind: socket.SocketKind) -> socket.socket:
    v4 = ip_address(address).version == 4
    return socket.socket(socket.AF_INET if v4 else socket.AF_INET6, kind)


def main(verb: str, *words: Any) -> None:
    """Run one of the programs."""
    match verb, words:
        case "serve", (name, port):
            _serve(name, int(port))
        case "ask", (kind, address, port, count):
            _ask(kind, address, int(port), int(count))
        case _:
            raise SystemExit(f"crowd: {verb} {words}: no such program")


if __name__ == "__main__":
    main(*sys.argv[1:])
