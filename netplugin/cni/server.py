"""The server for `contivk8s`: HTTP on a unix socket of this host.

In come the original's two calls (docs/original/cni-k8s.md §2), each from a process of root. They
are validated by `netplugin.cni.request`, carried out by a `PodHandler` (`netplugin.pods.handler`),
and answered with the reply that `netplugin.cni.results` builds. Every request gets a reply. This
module knows HTTP and nothing of pods.
"""

import asyncio
import errno
import logging
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

from aiohttp import web

from contivk8s.main import LATEST, PATHS
from core.connections import ConnectionGuard, ConnectionLimits
from core.errors import ContivError, HostError, Invalid
from core.logs import fields
from core.tasks import guard
from netplugin.cni import results
from netplugin.cni.request import DECODING_FAILURE, BadCall, PodRequest, parse
from netplugin.cni.results import PodResult

log = logging.getLogger(__name__)

MAX_BODY: Final = 64 * 1024
MAX_PATH: Final = 107
"""Longest path of a unix socket in bytes (sockaddr_un)."""
LIMITS: Final = ConnectionLimits(total=2048, per_peer=2048, first_request=10.0, unread=60.0)
"""A host has some hundred pods; each call is a connection, which waits for its answer."""
BODY_TIME: Final = 10.0
"""Seconds for a request to arrive; the plugin sends it in one piece."""
_BACKLOG: Final = 512
_SHUTDOWN: Final = 1.0


class PodHandler(Protocol):
    """Carries the calls out, and serialises those of one container.

    Both calls are idempotent: a runtime repeats a call whose reply it did not get.
    """

    async def add(self, request: PodRequest) -> PodResult:
        """Create the pod's interface, or leave nothing behind and raise a ContivError."""
        ...

    async def delete(self, request: PodRequest) -> None:
        """Remove the pod's interface; one that does not exist is a success."""
        ...


@asynccontextmanager
async def serve(
    path: Path,
    handler: PodHandler,
    limits: ConnectionLimits = LIMITS,
    body_time: float = BODY_TIME,
) -> AsyncIterator[None]:
    """Answer CNI calls on the socket at `path` for the length of the body.

    Raises Invalid for a path that is too long, HostError when the socket cannot be created.
    """
    connections = ConnectionGuard("CNI", limits)
    endpoint = _Endpoint(handler, connections, body_time)
    server = web.Server(endpoint.answer, access_log=None)
    runner = _GuardedRunner(connections, server, shutdown_timeout=_SHUTDOWN)
    await runner.setup()
    try:
        site = web.SockSite(runner, listen(path), backlog=_BACKLOG)
        await site.start()
        log.info("CNI server listening", extra=fields(path=path))
        yield
    finally:
        await runner.cleanup()


def listen(path: Path) -> socket.socket:
    """Return a socket bound to `path`, for root alone; a dead agent's socket is replaced.

    Raises Invalid for a path that is too long, HostError when the socket is in use or another file.
    """
    if len(os.fsencode(path)) > MAX_PATH:
        raise Invalid(f"CNI socket path {path} is longer than {MAX_PATH} bytes: choose a shorter")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale_socket(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(path))
            path.chmod(0o600)
        except OSError:
            listener.close()
            raise
    except OSError as exc:
        raise HostError(f"CNI socket {path}: {exc.strerror or exc}") from exc
    return listener


def is_served(path: Path) -> bool:
    """Return whether an agent listens at a path; in doubt, it does."""
    # Only these two errors prove that no process listens. Any other, such as a full backlog, must
    # not let a second agent take the socket over.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        return probe.connect_ex(str(path)) not in {errno.ECONNREFUSED, errno.ENOENT}


def _remove_stale_socket(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise HostError(f"CNI socket {path}: the path exists and is not a socket")
    except FileNotFoundError:
        return
    if is_served(path):
        raise HostError(f"CNI socket {path}: another agent listens there")
    path.unlink(missing_ok=True)


class _GuardedRunner(web.ServerRunner):
    """A runner of a server behind a guard of its connections."""

    def __init__(self, connections: ConnectionGuard, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._connections = connections

    @property
    def server(self) -> Any:
        """The factory of protocols for the sites of this runner."""
        server = super().server
        return None if server is None else self._connections.guarded(server)


class _Endpoint:
    """One HTTP request to one reply."""

    def __init__(self, handler: PodHandler, connections: ConnectionGuard, body_time: float) -> None:
        self._handler = handler
        self._connections = connections
        self._body_time = body_time

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the reply to any request."""
        with self._connections.busy(request.transport):
            return await self._answer(request)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        # The socket's mode keeps other users out already; this check does not depend on it.
        if _peer_uid(request) not in {0, os.geteuid()}:
            return _text(HTTPStatus.FORBIDDEN, "403 access denied\n")
        verb = next((verb for verb, path in PATHS.items() if path == request.path), None)
        if (
            verb is None
            or request.method != "POST"
            or request.headers.get("Content-Type") != "application/json"
        ):
            return _text(HTTPStatus.NOT_FOUND, "404 page not found\n")
        try:
            with self._connections.waiting(request.transport):
                async with asyncio.timeout(self._body_time):
                    body = await request.clone(client_max_size=MAX_BODY).read()
        except TimeoutError:
            return _text(HTTPStatus.REQUEST_TIMEOUT, "408 request not received in time\n")
        except web.HTTPRequestEntityTooLarge:
            too_large = BadCall(DECODING_FAILURE, f"request is larger than {MAX_BODY} bytes")
            reply = results.failed(too_large, too_large.version, adding=verb == "ADD")
            return web.json_response(reply, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        status, reply = await guard(
            lambda: self._call(body, adding=verb == "ADD"), lambda exc: _crash(exc, verb)
        )
        return web.json_response(reply, status=status)

    async def _call(self, body: bytes, *, adding: bool) -> tuple[int, dict[str, Any]]:
        try:
            request = parse(body, adding=adding)
        except BadCall as exc:
            log.warning("CNI call refused", extra=fields(method=_verb(adding=adding), error=exc))
            return 500, results.failed(exc, exc.version, adding=adding)
        try:
            if adding:
                return 200, results.added(await self._handler.add(request), request)
            await self._handler.delete(request)
        except ContivError as exc:
            log.warning(
                "CNI call failed",
                extra=fields(
                    method=_verb(adding=adding), container=request.container_id, error=exc
                ),
            )
            return 500, results.failed(exc, request.cni_version, adding=adding)
        return 200, results.deleted(request)


def _crash(exc: BaseException, verb: str) -> tuple[int, dict[str, Any]]:
    log.error("CNI call crashed", exc_info=exc, extra=fields(method=verb))
    return 500, results.crashed(LATEST)


def _verb(*, adding: bool) -> str:
    return "ADD" if adding else "DEL"


def _peer_uid(request: web.BaseRequest) -> int | None:
    """Return the user id of the other end; None when it has disconnected."""
    peer = request.transport and request.transport.get_extra_info("socket")
    if not peer:
        return None
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    return uid


def _text(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(status=status, text=text)
