"""A stand-in for Kubernetes' API server: lists and watches of the objects a test puts there.

It speaks plain HTTP, or TLS with `server.pem` of a directory (`tests.bed.certificates`), from
inside a namespace if need be. `asked` has the requests. What it does not have is everything else.
"""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.bed.netns import Namespace
from tests.bed.stand_in import StandInServer


class Request(NamedTuple):
    """What was asked for: a resource, from which version on (a list without), by whom."""

    resource: str
    since: str | None
    token: str


class ApiServer(StandInServer):
    """The server; a context manager. Without `token` anybody may ask."""

    def __init__(
        self,
        address: str = "127.0.0.1",
        port: int = 0,
        *,
        namespace: Namespace | None = None,
        certificates: Path | None = None,
    ) -> None:
        self.token = ""
        self.asked: list[Request] = []
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._events: list[tuple[int, str, dict[str, Any]]] = []
        self._version = 1
        self._oldest = 0
        self._epoch = 0
        self._changed = threading.Condition()

        def make() -> ThreadingHTTPServer:
            return ThreadingHTTPServer((address, port), self._handler())

        server = namespace.call(make) if namespace is not None else make()
        server.daemon_threads = True
        scheme = "http"
        if certificates is not None:
            scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        super().__init__(server)
        self.port = server.server_port
        self.url = f"{scheme}://{address}:{self.port}"

    def let_go(self) -> None:
        """Hang up."""
        self.hang_up()

    def put(self, resource: str, namespace: str, name: str, **body: Any) -> None:
        """Create or replace an object."""
        known = self._objects.get((resource, f"{namespace}/{name}"))
        said = {"metadata": {"namespace": namespace, "name": name}, **body}
        self._tell("MODIFIED" if known else "ADDED", resource, said)

    def delete(self, resource: str, namespace: str, name: str) -> None:
        """Delete an object."""
        self._tell("DELETED", resource, self._objects[resource, f"{namespace}/{name}"])

    def say(self, kind: str, resource: str, said: dict[str, Any]) -> None:
        """Have watches told of something that changes nothing."""
        self._tell(kind, resource, said)

    def hang_up(self) -> None:
        """End all watches."""
        with self._changed:
            self._epoch += 1
            self._changed.notify_all()

    def forget(self) -> None:
        """Know nothing any more of what has happened until now."""
        with self._changed:
            self._oldest = self._version

    def lists(self, resource: str) -> int:
        """Return how often a resource was listed."""
        return sum(one.resource == resource and one.since is None for one in self.asked)

    def watched(self, resource: str) -> int:
        """Return how often a resource was watched."""
        return sum(one.resource == resource and one.since is not None for one in self.asked)

    def _tell(self, kind: str, resource: str, said: dict[str, Any]) -> None:
        with self._changed:
            self._version += 1
            meta = {**said["metadata"], "resourceVersion": str(self._version)}
            changed = {**said, "metadata": meta}
            key = resource, f"{meta.get('namespace')}/{meta.get('name')}"
            if kind in {"ADDED", "MODIFIED"}:
                self._objects[key] = changed
            elif kind == "DELETED":
                del self._objects[key]
            self._events.append((self._version, resource, {"type": kind, "object": changed}))
            self._changed.notify_all()

    def _list(self, resource: str) -> bytes:
        with self._changed:
            items = [said for (kind, _), said in self._objects.items() if kind == resource]
            meta = {"resourceVersion": str(self._version)}
            return json.dumps({"metadata": meta, "items": items}).encode()

    def _next(self, resource: str, since: int, epoch: int) -> tuple[int, bytes] | None:
        """Wait for what happened after a version; None once watches are to end."""
        with self._changed:
            while True:
                if self._epoch != epoch:
                    return None
                if since < self._oldest:
                    gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
                    return self._version, json.dumps({"type": "ERROR", "object": gone}).encode()
                news = [one for one in self._events if one[0] > since and one[1] == resource]
                if news:
                    return news[-1][0], b"\n".join(json.dumps(one).encode() for _, _, one in news)
                self._changed.wait()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                resource, query = parts.path.removeprefix("/api/v1/"), parse_qs(parts.query)
                since = query["resourceVersion"][0] if "watch" in query else None
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                api.asked.append(Request(resource, since, token))
                if api.token and token != api.token:
                    self.send_error(401)
                    return
                epoch = api._epoch
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                if since is None:
                    self.wfile.write(api._list(resource))
                    return
                reached: int = int(since)
                while (news := api._next(resource, reached, epoch)) is not None:
                    reached, lines = news
                    try:
                        self.wfile.write(lines + b"\n")
                    except OSError:
                        return

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
                """Keep quiet."""

        return Handler


def service(
    address: str, *ports: dict[str, Any], addresses: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return what the API server says of a service beside its name."""
    return {"spec": {"clusterIP": address, "clusterIPs": [*addresses], "ports": [*ports]}}


def endpoints(*subsets: tuple[list[str], list[dict[str, Any]]]) -> dict[str, Any]:
    """Return what it says of endpoints: of each subset the addresses that are ready, and ports."""
    said = [{"addresses": [{"ip": ip} for ip in ips], "ports": ports} for ips, ports in subsets]
    return {"subsets": said}
