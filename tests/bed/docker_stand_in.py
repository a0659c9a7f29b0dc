"""A stand-in for docker's engine on a unix socket: the few calls netmaster makes, nothing behind.

Out comes `socket`; `calls` are method, path and body in order, without the version asked for;
`networks` are held by name. `refusal` is what it answers to whatever changes something, while it is
set; while `gate` is cleared, what changes something is done and not answered.
"""

import itertools
import json
import threading
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from tests.bed.stand_in import StandInServer

API_VERSION = "1.44"


@dataclass(frozen=True)
class Refusal:
    """An answer that is no success."""

    status: int
    body: bytes


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


class StandIn(StandInServer):
    """The engine; a context manager."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.calls: list[tuple[str, str, Any]] = []
        self.networks: dict[str, dict[str, Any]] = {}
        self.refusal: Refusal | None = None
        self.gate = threading.Event()
        self.gate.set()
        self._numbers = itertools.count(1)
        super().__init__(_Server(str(socket), self._handler()))

    def let_go(self) -> None:
        """Open the gate."""
        self.gate.set()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, value, traceback)
        self.socket.unlink()

    def changes(self) -> list[tuple[str, str]]:
        """Return what was to be changed, in order."""
        return [(method, path) for method, path, _ in self.calls if method != "GET"]

    def _answer(self, method: str, url: str, body: Any) -> tuple[int, bytes]:
        path = unquote(url.partition("?")[0]).removeprefix(f"/v{API_VERSION}")
        self.calls.append((method, path, body))
        if path == "/version":
            return 200, _json({"ApiVersion": API_VERSION})
        if method == "GET" and path == "/networks":
            return 200, _json(list(self.networks.values()))
        if self.refusal is not None:
            return self.refusal.status, self.refusal.body
        if method == "POST":
            made = body | {"Id": f"{next(self._numbers):064x}"}
            self.networks[body["Name"]] = made
            self.gate.wait()
            return 201, _json({"Id": made["Id"], "Warning": ""})
        return self._of_one(method, path.removeprefix("/networks/"))

    def _of_one(self, method: str, wanted: str) -> tuple[int, bytes]:
        for name, network in self.networks.items():
            if wanted in {name, network["Id"]}:
                if method == "GET":
                    return 200, _json(network)
                del self.networks[name]
                self.gate.wait()
                return 204, b""
        return 404, _json({"message": f"network {wanted} not found"})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        engine = self

        class Handler(BaseHTTPRequestHandler):
            """Hears one request."""

            def _hear(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, answer = engine._answer(self.command, self.path, body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                with suppress(BrokenPipeError):  # whoever waits no longer has hung up
                    self.wfile.write(answer)

            do_GET = do_POST = do_DELETE = _hear  # noqa: N815 - its base's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
                """Keep quiet."""

        return Handler


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
