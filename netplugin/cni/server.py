"""The server for `contivk8s`: HTTP on a unix socket of this host.

In come the original's two calls (docs/original/cni-k8s.md §2) and those for CHECK, GC and STATUS,
each from a process of root. They are validated by `netplugin.cni.request`, carried out by the
`CniHandlers` (of `netplugin.pods`), and answered with the reply that `netplugin.cni.results`
builds. Every request gets a reply. This module knows routes and statuses and nothing of pods;
`netplugin.plugin_socket` is the socket.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from aiohttp import web

from contivk8s.main import LATEST, PATHS
from core.errors import ContivError
from core.logs import fields
from core.net.connections import ConnectionLimits
from core.tasks import guard
from core.tracing import spans
from daemons.request_stats import UNKNOWN, RequestStats
from netplugin.cni import results
from netplugin.cni.errors import DECODING_FAILURE, BadCall
from netplugin.cni.request import GcRequest, PodRequest, Verb, parse, parse_gc, parse_status
from netplugin.cni.results import PodResult
from netplugin.plugin_socket import BODY_TIME, LIMITS, PluginSocket, is_allowed

log = logging.getLogger(__name__)

MAX_BODY: Final = 64 * 1024
MAX_GC_BODY: Final = 4 * 1024 * 1024
"""A GC lists the interfaces of all pods of a network; the plugin reads 1 MiB and quotes it."""


class PodInterfaces(Protocol):
    """Carries ADD and DEL out, and serialises those of one container.

    Both are idempotent: a runtime repeats a call whose reply it did not get.
    """

    async def add(self, request: PodRequest) -> PodResult:
        """Create the pod's interface, or leave nothing behind and raise a ContivError."""
        ...

    async def delete(self, request: PodRequest) -> None:
        """Remove the pod's interface; one that does not exist is a success."""
        ...


class InterfaceChecks(Protocol):
    """Carries CHECK out."""

    async def check(self, request: PodRequest) -> None:
        """Return if the pod's interface is as its ADD left it, else raise a ContivError."""
        ...


class InterfaceCollection(Protocol):
    """Carries GC out."""

    async def collect(self, request: GcRequest) -> None:
        """Remove the interfaces of a network that a GC does not list."""
        ...


class AgentReadiness(Protocol):
    """Carries STATUS out."""

    async def status(self) -> None:
        """Return if an ADD can be carried out now, else raise NotReady."""
        ...


@dataclass(frozen=True, slots=True)
class CniHandlers:
    """What carries the calls out, by their verbs."""

    pods: PodInterfaces
    checks: InterfaceChecks
    collection: InterfaceCollection
    readiness: AgentReadiness


@asynccontextmanager
async def serve(
    path: Path,
    handlers: CniHandlers,
    limits: ConnectionLimits = LIMITS,
    body_time: float = BODY_TIME,
    stats: RequestStats | None = None,
) -> AsyncIterator[None]:
    """Answer CNI calls on the socket at `path` for the length of the body; count them by verb.

    Raises Invalid for a path that is too long, HostError when the socket cannot be created.
    """
    plugins = PluginSocket("CNI", limits, body_time)
    stats = stats or RequestStats()
    for verb in PATHS:
        stats.expect((200, 500), verb)
    endpoint = _Endpoint(handlers, plugins, stats)
    async with plugins.listening(path, endpoint.answer):
        yield


class _Call(NamedTuple):
    """A call that was read: the version to answer in, whose it is, for the log, what to do."""

    version: str
    about: Mapping[str, object]
    carry_out: Callable[[], Awaitable[dict[str, Any]]]


class _Endpoint:
    """One HTTP request to one reply."""

    def __init__(self, handlers: CniHandlers, plugins: PluginSocket, stats: RequestStats) -> None:
        self._handlers = handlers
        self._plugins = plugins
        self._stats = stats

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the reply to any request."""
        began = time.monotonic()
        verb = next((verb for verb, path in PATHS.items() if path == request.path), None)
        answer = await self._answer(request, verb)
        self._stats.count(answer.status, time.monotonic() - began, verb or UNKNOWN)
        return answer

    async def _answer(self, request: web.BaseRequest, verb: str | None) -> web.StreamResponse:
        if not is_allowed(request):
            return web.Response(status=HTTPStatus.FORBIDDEN, text="403 access denied\n")
        if (
            verb is None
            or request.method != "POST"
            or request.headers.get("Content-Type") != "application/json"
        ):
            return web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")
        limit = MAX_GC_BODY if verb == "GC" else MAX_BODY
        try:
            body = await self._plugins.read(request, limit)
        except TimeoutError:
            late = "408 request not received in time\n"
            return web.Response(status=HTTPStatus.REQUEST_TIMEOUT, text=late)
        except web.HTTPRequestEntityTooLarge:
            too_large = BadCall(DECODING_FAILURE, f"request is larger than {limit} bytes")
            reply = results.failed(too_large, too_large.version, verb)
            return web.json_response(reply, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        status, reply = await guard(lambda: self._call(body, verb), lambda exc: _crash(exc, verb))
        return web.json_response(reply, status=status)

    async def _call(self, body: bytes, verb: str) -> tuple[int, dict[str, Any]]:
        try:
            call = self._read(body, verb)
        except BadCall as exc:
            log.warning("CNI call refused", extra=fields(method=verb, error=exc))
            return 500, results.failed(exc, exc.version, verb)
        spans.describe(call.about)
        try:
            return 200, await call.carry_out()
        except ContivError as exc:
            about = {**fields(method=verb), **call.about, **fields(error=exc)}
            log.warning("CNI call failed", extra=about)
            return 500, results.failed(exc, call.version, verb)

    def _read(self, body: bytes, verb: str) -> _Call:
        match verb:
            case "STATUS":
                return _Call(parse_status(body), {}, self._status)
            case "GC":
                listed, version = parse_gc(body)
                return _Call(version, {}, partial(self._collect, listed))
            case _:
                request = parse(body, Verb(verb))
                return _Call(
                    request.cni_version,
                    fields(
                        namespace=request.namespace or None,
                        pod=request.pod_name or None,
                        container=request.spec.container_id,
                    ),
                    partial(self._one_pod, request, Verb(verb)),
                )

    async def _one_pod(self, request: PodRequest, verb: Verb) -> dict[str, Any]:
        match verb:
            case Verb.ADD:
                return results.added(await self._handlers.pods.add(request), request)
            case Verb.DEL:
                await self._handlers.pods.delete(request)
                return results.deleted(request)
            case Verb.CHECK:
                await self._handlers.checks.check(request)
                return results.done()

    async def _collect(self, request: GcRequest) -> dict[str, Any]:
        await self._handlers.collection.collect(request)
        return results.done()

    async def _status(self) -> dict[str, Any]:
        await self._handlers.readiness.status()
        return results.done()


def _crash(exc: BaseException, verb: str) -> tuple[int, dict[str, Any]]:
    log.error("CNI call crashed", exc_info=exc, extra=fields(method=verb))
    return 500, results.crashed(LATEST)
