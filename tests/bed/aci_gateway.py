"""A stand-in for the ACI gateway on loopback: records what it is told, answers as told to.

Out comes `url`; `calls` are the paths and bodies in order, `held` the profiles that follow from
them. `answer` is what it says next and from then on; while `gate` is cleared it says nothing.
"""

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.bed.stand_in import StandInServer


@dataclass(frozen=True)
class Saying:
    """One answer."""

    status: int = 200
    body: bytes = b'{"result":"success","info":""}'


WELL = Saying()
REFUSING = Saying(body=b'{"result":"failed","info":"no such domain"}')


class StandIn(StandInServer):
    """The gateway; a context manager."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.held: set[tuple[str, str]] = set()
        self.answer = WELL
        self.gate = threading.Event()
        self.gate.set()
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        super().__init__(server)
        self.url = f"http://127.0.0.1:{server.server_port}"

    def let_go(self) -> None:
        """Open the gate."""
        self.gate.set()

    def paths(self) -> list[str]:
        """Return what was called, in order."""
        return [path for path, _ in self.calls]

    def _hear(self, path: str, body: dict[str, Any]) -> Saying:
        self.calls.append((path, body))
        profile = (body.get("tenant", ""), body.get("app-prof", ""))
        if path == "/deleteAppProf":
            self.held.discard(profile)
        elif self.answer == WELL:
            self.held.add(profile)
        return self.answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            """Hears one request."""

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                saying = gateway._hear(self.path, json.loads(self.rfile.read(length)))
                gateway.gate.wait()
                self.send_response(saying.status)
                self.send_header("Content-Length", str(len(saying.body)))
                self.end_headers()
                self.wfile.write(saying.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
                """Keep quiet."""

        return Handler
