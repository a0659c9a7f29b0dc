"""A stand-in for the authenticating proxy: logins, and a list for who shows the token."""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOKEN = "a.b-c"


@dataclass
class Proxy:
    """What it answers to logins, what it lists, and what it was asked."""

    url: str = ""
    status: int = 200
    answer: bytes = json.dumps({"token": TOKEN}).encode()
    objects: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, bytes]] = field(default_factory=list)
    """Path, token and body of each request."""


@contextmanager
def serving(proxy: Proxy, context: ssl.SSLContext | None = None) -> Iterator[None]:
    """Answer for a proxy at its `url`, with TLS if a context is given."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer(proxy.status, proxy.answer)

        def do_GET(self) -> None:
            self._answer(200, json.dumps(proxy.objects).encode())

        def _answer(self, status: int, answer: bytes) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            proxy.asked.append((self.path, self.headers.get("X-Auth-Token", ""), body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if context is None else "https"
    proxy.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def certified(directory: Path) -> ssl.SSLContext:
    """Return a server's side of TLS with an untrusted certificate, `certificate.pem`."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
