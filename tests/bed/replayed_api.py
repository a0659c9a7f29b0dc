"""A Kubernetes API server that answers as a real one did: recorded requests, and their answers.

In comes a recording, one JSON object a line (`tests/golden/kube/README.md`). A request gets the
first answer to it that was not given yet; `strange` has those that were never recorded. A watch
that goes beyond the recording stays open and says nothing.
"""

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.bed.stand_in import StandInServer


@dataclass
class Exchange:
    """A request and its answer: a body, or the lines of a watch."""

    path: str
    query: Mapping[str, str]
    status: int
    body: Any = None
    lines: list[Any] | None = None
    given: bool = False


class ReplayedApi(StandInServer):
    """The server; a context manager."""

    def __init__(self, recorded: Iterable[Mapping[str, Any]]) -> None:
        self.exchanges = [
            Exchange(**{name: value for name, value in one.items() if name != "session"})
            for one in recorded
        ]
        self.strange: list[str] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        super().__init__(server)
        self.url = f"http://127.0.0.1:{server.server_port}"

    def let_go(self) -> None:
        """End the watches that are open."""
        self._ended.set()

    def left(self) -> list[str]:
        """Return the requests that were recorded and have not come."""
        return [f"{one.path} {dict(one.query)}" for one in self.exchanges if not one.given]

    def _find(self, path: str, query: Mapping[str, str]) -> Exchange | None:
        with self._lock:
            for one in self.exchanges:
                if not one.given and one.path == path and one.query == query:
                    one.given = True
                    return one
            if "watch" not in query:
                self.strange.append(f"{path} {dict(query)}")
            return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query))
                query.pop("timeoutSeconds", None)  # chosen at random
                found = api._find(parts.path, query)
                if found is None or found.lines is not None:
                    self._watch(found.lines or [] if found is not None else None)
                    return
                body = found.body if isinstance(found.body, str) else json.dumps(found.body)
                self.send_response(found.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def _watch(self, lines: list[Any] | None) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                for line in lines or ():
                    self.wfile.write(json.dumps(line).encode() + b"\n")
                self.wfile.flush()
                if lines is None:
                    api._ended.wait()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
                """Keep quiet."""

        return Handler
