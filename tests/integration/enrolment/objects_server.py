"""A stand-in for Kubernetes' API server: objects that are made, read and replaced by their paths.

It has what enrolment is built on: a name is given once, an object that was changed since it was
read is not replaced, the `status` and `approval` of a certificate request are written by paths of
their own, and a request has the user and the pod whose token made it.
"""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from daemons.certificates import enrolment
from tests.bed.stand_in import StandInServer

Object = dict[str, Any]


@dataclass
class Caller:
    """Whose token it is, and what may be asked with it, as (method, beginning of the path)."""

    username: str
    pod: str = ""
    uid: str = ""
    may: tuple[tuple[str, str], ...] = ()


@dataclass
class ApiObjects:
    """The objects by path, and the callers by token."""

    callers: Mapping[str, Caller]
    objects: dict[str, Object] = field(default_factory=dict)
    version: int = 0

    def put(self, path: str, one: Object) -> Object:
        self.version += 1
        stored = json.loads(json.dumps(one))
        stored.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        self.objects[path] = stored
        return dict(json.loads(json.dumps(stored)))

    def answer(self, token: str, method: str, path: str, body: Object) -> tuple[int, Object]:
        caller = self.callers.get(token)
        if caller is None:
            return 401, {}
        where = urlsplit(path)
        if not any(method == verb and path.startswith(begin) for verb, begin in caller.may):
            return 403, {"message": f"{caller.username} may not {method} {path}"}
        match method:
            case "GET" if where.path == enrolment.API:
                (wanted,) = parse_qs(where.query)["fieldSelector"]
                signer = wanted.removeprefix("spec.signerName=")
                listed = [one for at, one in self.objects.items() if at.startswith(enrolment.API)]
                return 200, {
                    "items": [one for one in listed if one["spec"]["signerName"] == signer]
                }
            case "GET":
                found = self.objects.get(where.path)
                return (404, {}) if found is None else (200, found)
            case "POST":
                return self._create(where.path, body, caller)
            case _:
                return self._replace(where.path, body)

    def _create(self, path: str, body: Object, caller: Caller) -> tuple[int, Object]:
        made = body["metadata"]
        made.setdefault("name", f"{made.get('generateName', '')}{self.version}")
        if f"{path}/{made['name']}" in self.objects:
            return 409, {}
        if path == enrolment.API:
            noted = {enrolment.POD_NAME: [caller.pod], enrolment.POD_UID: [caller.uid]}
            body["spec"] |= {"username": caller.username, "extra": noted if caller.pod else {}}
            body.pop("status", None)
        return 201, self.put(f"{path}/{made['name']}", body)

    def _replace(self, path: str, body: Object) -> tuple[int, Object]:
        whole = path.removesuffix("/status").removesuffix("/approval")
        there = self.objects[whole]
        if there["metadata"]["resourceVersion"] != body["metadata"].get("resourceVersion"):
            return 409, {}
        if whole != path:
            body = {**there, "status": {**there.get("status", {}), **_part(path, body["status"])}}
        return 200, self.put(whole, body)


def _part(path: str, status: Object) -> Object:
    """Return the part of a status that a path is for."""
    part = "certificate" if path.endswith("/status") else "conditions"
    return {part: status[part]} if part in status else {}


class ObjectsServer(StandInServer):
    """The server, with `server.pem` of a directory; a context manager."""

    def __init__(self, cluster: ApiObjects, certificates: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length)) if length else {}
                token = self.headers["Authorization"].removeprefix("Bearer ")
                code, said = cluster.answer(token, self.command, self.path, body)
                content = json.dumps(said).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = _serve  # noqa: N815 - names of the library

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        super().__init__(server)
        self.url = f"https://127.0.0.1:{server.server_address[1]}"

    def let_go(self) -> None:
        """Nobody is kept waiting."""
