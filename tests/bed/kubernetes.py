"""A stand-in for Kubernetes' API server: lists and watches of the objects a test puts there.

It speaks plain HTTP, or TLS with `server.pem` of a directory (`tests.bed.certificates`), from
inside a namespace if need be. It pages lists, sends bookmarks when told to, forgets old versions,
refuses strangers (`token`, `forbidden`), serves only some API versions (`served`), and can fall
silent without hanging up. `asked` has the requests. What it does not have is everything else.
"""

import json
import ssl
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from tests.bed.netns import Namespace
from tests.bed.stand_in import StandInServer

SERVED = ("api/v1", "apis/discovery.k8s.io/v1", "apis/networking.k8s.io/v1")


class Request(NamedTuple):
    """What was asked for: a resource, from which version on (a list without), by whom."""

    resource: str
    since: str | None
    token: str
    path: str = ""
    query: dict[str, str] = {}  # noqa: RUF012 - never changed


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


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
        self.served = set(SERVED)
        self.kinds: dict[str, dict[str, list[str]]] = {}
        """What discovery says: resources by version, by API group."""

        self.forbidden: set[str] = set()
        self.failing = 0
        """The status of every answer, 0 for the right ones."""

        self.silent = False
        """Whether nothing is said any more to watches, open and new ones, and to who asks."""

        self.largest_page = 0
        """The limit of a page, whatever is asked for; 0 for none."""

        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._events: list[tuple[int, str, dict[str, Any]]] = []
        self._pages: dict[str, tuple[int, list[dict[str, Any]]]] = {}
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
        self.silent = False
        self.hang_up()

    def put(self, resource: str, namespace: str, name: str, **body: Any) -> None:
        """Create or replace an object; one with the namespace "" is in none."""
        meta = {"namespace": namespace, "name": name} if namespace else {"name": name}
        meta.update(body.pop("metadata", {}))
        known = self._objects.get((resource, _key(meta)))
        self._tell("MODIFIED" if known else "ADDED", resource, {"metadata": meta, **body})

    def delete(self, resource: str, namespace: str, name: str) -> None:
        """Delete an object."""
        key = _key({"namespace": namespace, "name": name})
        self._tell("DELETED", resource, self._objects[resource, key])

    @property
    def objects(self) -> list[tuple[str, str]]:
        """Resource and key of each object."""
        return list(self._objects)

    def say(self, kind: str, resource: str, said: dict[str, Any]) -> None:
        """Have watches told of something that changes nothing."""
        self._tell(kind, resource, said)

    def bookmark(self, resource: str) -> None:
        """Tell watches of a resource which version they have reached."""
        self.say("BOOKMARK", resource, {"metadata": {}})

    def hang_up(self) -> None:
        """End all watches."""
        with self._changed:
            self._epoch += 1
            self._changed.notify_all()

    def forget(self) -> None:
        """Know nothing any more of what has happened until now."""
        with self._changed:
            self._oldest = self._version
            self._pages.clear()

    def lists(self, resource: str) -> int:
        """Return how often a resource was listed, counting pages."""
        return sum(one.resource == resource and one.since is None for one in self.asked)

    def watched(self, resource: str) -> int:
        """Return how often a resource was watched."""
        return sum(one.resource == resource and one.since is not None for one in self.asked)

    def _tell(self, kind: str, resource: str, said: dict[str, Any]) -> None:
        with self._changed:
            self._version += 1
            meta = {**said["metadata"], "resourceVersion": str(self._version)}
            changed = {**said, "metadata": meta}
            key = resource, _key(meta)
            if kind in {"ADDED", "MODIFIED"}:
                self._objects[key] = changed
            elif kind == "DELETED":
                del self._objects[key]
            self._events.append((self._version, resource, {"type": kind, "object": changed}))
            self._changed.notify_all()

    def _discovered(self, group: str, version: str) -> bytes:
        """Return the versions of a group, or the resources of one of them."""
        try:
            versions = self.kinds[group]
            if not version:
                listed = [{"version": one, "groupVersion": f"{group}/{one}"} for one in versions]
                return json.dumps({"kind": "APIGroup", "versions": listed}).encode()
            names = [{"name": name} for one in versions[version] for name in (one, f"{one}/status")]
            return json.dumps({"kind": "APIResourceList", "resources": names}).encode()
        except KeyError as exc:
            raise Refusal(404, "the server could not find the requested resource") from exc

    def _get(self, resource: str, key: str) -> bytes:
        with self._changed:
            found = self._objects.get((resource, key))
        if found is None:
            raise Refusal(404, f'{resource} "{key}" not found')
        return json.dumps(found).encode()

    def _list(self, resource: str, query: dict[str, str]) -> bytes:
        with self._changed:
            if int(query.get("resourceVersion") or 0) > self._version:
                raise Refusal(504, "Timeout: Too large resource version")
            if "continue" in query:
                if query["continue"] not in self._pages:
                    raise Refusal(410, "The provided continue parameter is too old")
                version, items = self._pages.pop(query["continue"])
            else:
                version = self._version
                selector = query.get("fieldSelector", "")
                items = [
                    said
                    for (kind, _), said in self._objects.items()
                    if kind == resource and _selects(selector, said)
                ]
            meta = {"resourceVersion": str(version)}
            limit = min(int(query.get("limit", 0)), self.largest_page or 10**9)
            if limit and len(items) > limit:
                meta["continue"] = token = f"{resource}-{version}-{len(items)}"
                self._pages[token] = version, items[limit:]
                items = items[:limit]
            return json.dumps({"metadata": meta, "items": items}).encode()

    def _next(
        self, resource: str, since: int, epoch: int, selector: str
    ) -> tuple[int, bytes] | None:
        """Wait for what happened after a version; None once watches are to end."""
        with self._changed:
            while True:
                if self.ended or self._epoch != epoch:
                    return None
                if not self.silent and since < self._oldest:
                    gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
                    return self._version, json.dumps({"type": "ERROR", "object": gone}).encode()
                news = [one for one in self._events if one[0] > since and one[1] == resource]
                news = [one for one in news if _selects(selector, one[2]["object"])]
                if news and not self.silent:
                    return news[-1][0], b"\n".join(json.dumps(one).encode() for _, _, one in news)
                self._changed.wait()

    def _check(self, asked: Request, version: str) -> None:
        """Raise Refusal for a request that is not to be answered."""
        if self.failing:
            raise Refusal(self.failing, "the server is not well")
        if self.token and asked.token != self.token:
            raise Refusal(401, "Unauthorized")
        if asked.resource in self.forbidden:
            raise Refusal(403, f"{asked.resource} is forbidden")
        if asked.resource and version not in self.served:
            raise Refusal(404, "the server could not find the requested resource")

    def _wait_while_silent(self, epoch: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self.silent or self.ended or self._epoch != epoch)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                version, resource, key = _parsed(parts.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                since = query.get("resourceVersion", "") if "watch" in query else None
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                asked = Request(resource, since, token, parts.path, query)
                api.asked.append(asked)
                epoch = api._epoch
                try:
                    api._check(asked, version)
                    if since is None:
                        api._wait_while_silent(epoch)
                        if not resource:
                            said = api._discovered(*version.split("/"))
                        else:
                            said = api._get(resource, key) if key else api._list(resource, query)
                        self._answer(200, said)
                        return
                except Refusal as refusal:
                    status = {"kind": "Status", "code": refusal.code, "message": str(refusal)}
                    self._answer(refusal.code, json.dumps(status).encode())
                    return
                self._watch(resource, int(since), epoch, query.get("fieldSelector", ""))

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _watch(self, resource: str, since: int, epoch: int, selector: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.flush()
                while (news := api._next(resource, since, epoch, selector)) is not None:
                    since, lines = news
                    try:
                        self.wfile.write(lines + b"\n")
                    except OSError:
                        return

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
                """Keep quiet."""

        return Handler


def _parsed(path: str) -> tuple[str, str, str]:
    """Return version, resource and key ("" for all objects) of a path.

    Of a path of discovery they are group and version, which may be "", and no resource.
    """
    words = [unquote(word) for word in path.strip("/").split("/")]
    if words[0] == "apis" and len(words) <= 3:
        return "/".join([*words[1:], *[""] * (3 - len(words))]), "", ""
    depth = 2 if words[0] == "api" else 3
    version, rest = "/".join(words[:depth]), words[depth:]
    if rest[0] == "namespaces" and len(rest) > 2:
        return version, rest[2], f"{rest[1]}/{rest[3]}"
    return version, rest[0], rest[1] if len(rest) > 1 else ""


def _key(meta: dict[str, Any]) -> str:
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta.get("name"))


def _selects(selector: str, said: dict[str, Any]) -> bool:
    """Return whether a field selector of the form `spec.nodeName=x` selects an object."""
    if not selector or "name" not in said["metadata"]:
        return True
    field, _, value = selector.partition("=")
    found: Any = said
    for name in field.split("."):
        found = found.get(name, {})
    return bool(found == value)


def service(
    address: str, *ports: dict[str, Any], addresses: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return what the API server says of a service beside its name."""
    return {"spec": {"clusterIP": address, "clusterIPs": [*addresses], "ports": [*ports]}}


def endpoints(*subsets: tuple[list[str], list[dict[str, Any]]]) -> dict[str, Any]:
    """Return what it says of endpoints: of each subset the addresses that are ready, and ports."""
    said = [{"addresses": [{"ip": ip} for ip in ips], "ports": ports} for ips, ports in subsets]
    return {"subsets": said}


def endpoint_slice(
    of: str, *served: dict[str, Any] | str, ports: list[dict[str, Any]], family: str = "IPv4"
) -> dict[str, Any]:
    """Return what it says of a slice of a service's endpoints; a text is a ready address."""
    return {
        "metadata": {"labels": {"kubernetes.io/service-name": of}},
        "addressType": family,
        "endpoints": [
            {"addresses": [one], "conditions": {"ready": True}} if isinstance(one, str) else one
            for one in served
        ],
        "ports": ports,
    }


def pod(
    node: str,
    uid: str,
    labels: Mapping[str, str] = MappingProxyType({}),
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return what it says of a pod on a node."""
    meta = {"uid": uid, "labels": dict(labels), "annotations": dict(annotations)}
    return {"metadata": meta, "spec": {"nodeName": node}}
