"""Listeners of a master, and the outermost edge of every request.

A request is handed to the current role, the leader's API or the follower's proxy, but for those
about this master's own health (`daemons.health`), which it answers in any role. No exception passes
this module: an error of `core.errors` becomes its text, any other one a logged `internal error`.
Every request gets an answer.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from ssl import SSLContext
from typing import Final

from aiohttp import HttpVersion11, web

from core.errors import ContivError, NotLeader
from core.logs import fields
from core.net.connections import ConnectionGuard, ConnectionLimits
from core.tasks import guard
from core.tracing import spans, trace_context
from daemons.browsers import BrowserPolicy
from daemons.health import PATHS, Health
from daemons.http import GuardedSite
from daemons.listen_address import ANY_ADDRESS, ListenAddress
from daemons.request_stats import UNKNOWN, RequestStats, method_label
from netmaster.api.http.bodies import MAX_BODY, BodyBudget, BodyLimits, BodyShare
from netmaster.api.http.replies import failure, not_found, refusal
from netmaster.commits.commit import NO_LEADER

log = logging.getLogger(__name__)

KEEP_ALIVE: Final = 75.0
"""Seconds a connection may be idle between two requests, and a further request's head may take."""
SHUTDOWN_TIMEOUT: Final = 0.3
"""Seconds for requests in progress when the daemon stops."""
LIMITS: Final = ConnectionLimits(total=4096, per_peer=1024, first_request=10.0, unread=60.0)
"""The clients of a follower, and all agents behind one translated address, are one peer."""

Role = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers requests; may raise errors of `core.errors`."""


async def leaderless(_: web.BaseRequest) -> web.StreamResponse:
    """Refuse every request, as the original does without a leader."""
    raise NotLeader(NO_LEADER)


class RestServer:
    """Listens on any number of addresses and answers with the current role.

    A change of `role` takes effect with the next request; connections and listeners stay.
    """

    def __init__(
        self,
        limits: ConnectionLimits = LIMITS,
        bodies: BodyLimits | None = None,
        health: Health | None = None,
        browsers: BrowserPolicy | None = None,
    ) -> None:
        self.role: Role = leaderless
        self.stats = RequestStats()
        self.own: dict[str, Role] = dict.fromkeys(PATHS, partial(_tell, health or Health({})))
        """By path: what answers GET requests of it on every master, whatever its role."""
        self._connections = ConnectionGuard("REST", limits)
        self._bodies = BodyBudget(bodies)
        self._browsers = browsers or BrowserPolicy()
        self._runner = web.ServerRunner(
            web.Server(
                self._handle,
                access_log=None,
                auto_decompress=False,
                keepalive_timeout=KEEP_ALIVE,
            ),
            shutdown_timeout=SHUTDOWN_TIMEOUT,
        )

    async def listen(
        self, address: ListenAddress, ssl_context: SSLContext | None = None
    ) -> ListenAddress:
        """Start to listen; return the address with the port that was bound. OSError if taken."""
        if self._runner.server is None:
            await self._runner.setup()
        where = ListenAddress(address.host or ANY_ADDRESS, address.port)
        site = GuardedSite(self._runner, self._connections, where, tls=ssl_context)
        await site.start()
        bound: int = self._runner.addresses[-1][1]
        return ListenAddress(address.host, bound)

    async def close(self) -> None:
        """Stop listening, and end connections once requests under way are answered."""
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        began = time.monotonic()
        header = request.headers.get(trace_context.HEADER)
        method = method_label(request.method)
        # what nobody has begun a trace for is of none, unless traces are exported
        traced = spans.received(method, header) if header or spans.exported() else nullcontext()
        with traced as span:
            answer = await guard(partial(self._answer, request), partial(_failed, request))
            route: str = request.get(ROUTE, UNKNOWN)
            if span is not None:
                span.name = f"{method} {route}"
                spans.describe({"http.response.status_code": answer.status})
        took = time.monotonic() - began
        self.stats.count(answer.status, took, method, route)
        return answer

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if not request.raw_path.startswith("/"):
            return not_found()  # as CONNECT: a follower would connect to the host it names
        self._browsers.check(request.method, request.path, request.headers, secure=request.secure)
        own = self.own.get(request.path) if request.method == "GET" else None
        if own is not None:
            request[ROUTE] = request.path
            with self._connections.busy(request.transport):
                return await own(request)
        if _waits_to_send(request):
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        with (
            self._connections.busy(request.transport),
            self._bodies.share(request.remote or "") as share,
        ):
            request[_INTAKE] = _Intake(self._connections, share)
            return await self.role(request)


class _Intake:
    """Reads the body of one request."""

    def __init__(self, connections: ConnectionGuard, share: BodyShare) -> None:
        self._connections = connections
        self._share = share

    async def read(self, request: web.BaseRequest) -> bytes:
        # A client that does not send its body may be displaced by others, one that has sent it not.
        if request.content.is_eof():
            return await self._share.read(request)
        with self._connections.waiting(request.transport):
            return await self._share.read(request)


_INTAKE: Final = web.RequestKey("_INTAKE", _Intake)

ROUTE: Final = web.RequestKey("ROUTE", str)
"""The pattern of a request's route, which the role sets, for the statistics."""


async def _tell(health: Health, request: web.BaseRequest) -> web.Response:
    status, text = await health.answer(request.path)
    return web.Response(status=status, text=text, content_type="application/json")


def _waits_to_send(request: web.BaseRequest) -> bool:
    """Return whether a client waits for `100 Continue` to send its body (RFC 9110 §10.1.1)."""
    expected = request.headers.get("Expect", "").lower() == "100-continue"
    return expected and request.version >= HttpVersion11


async def read_body(request: web.BaseRequest) -> bytes:
    """Return the body of a request that a `RestServer` handed to its role.

    Raises as `netmaster.api.http.bodies` does.
    """
    return await request[_INTAKE].read(request)


def _failed(request: web.BaseRequest, exc: BaseException) -> web.StreamResponse:
    if isinstance(exc, ContivError):
        return refusal(request, exc)
    if isinstance(exc, web.HTTPRequestEntityTooLarge):
        return failure(request, 413, f"request body is larger than {MAX_BODY} bytes")
    log.error(
        "request failed",
        exc_info=exc,
        extra=fields(method=request.method, path=request.raw_path),
    )
    return failure(request, 500, f"internal error: {type(exc).__name__}: {exc}")
