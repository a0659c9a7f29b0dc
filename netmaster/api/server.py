"""Listeners of a master, and the outermost edge of every request.

A request is handed to the current role, the leader's API or the follower's proxy. No exception
passes this module: an error of `core.errors` becomes its text, any other one a logged `internal
error`. Every request gets an answer.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from ssl import SSLContext
from typing import Final

from aiohttp import HttpVersion11, web

from core.errors import ContivError, Invalid, NotLeader
from core.logs import fields
from core.tasks import guard
from netmaster.api.replies import error, not_found, refusal
from netmaster.commit import NO_LEADER
from netmaster.settings import ListenAddress

log = logging.getLogger(__name__)

MAX_BODY: Final = 1 << 20
KEEP_ALIVE: Final = 75.0
SHUTDOWN_TIMEOUT: Final = 0.3
"""Seconds for requests in progress when the daemon stops."""

Role = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers requests; may raise errors of `core.errors`."""


async def leaderless(_: web.BaseRequest) -> web.StreamResponse:
    """Refuse every request, as the original does without a leader."""
    raise NotLeader(NO_LEADER)


class RestServer:
    """Listens on any number of addresses and answers with the current role.

    A change of `role` takes effect with the next request; connections and listeners stay.
    """

    def __init__(self) -> None:
        self.role: Role = leaderless
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
        site = web.TCPSite(
            self._runner, address.host or "0.0.0.0", address.port, ssl_context=ssl_context
        )
        await site.start()
        bound: int = self._runner.addresses[-1][1]
        return ListenAddress(address.host, bound)

    async def close(self) -> None:
        """Stop listening, and end connections once requests under way are answered."""
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await guard(partial(self._answer, request), partial(_failed, request))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if not request.raw_path.startswith("/"):
            return (
                not_found()
            )  # such as CONNECT: a follower would connect to the host that it names
        if _waits_to_send(request):
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await self.role(request)


def _waits_to_send(request: web.BaseRequest) -> bool:
    """Return whether a client waits for `100 Continue` to send its body (RFC 9110 §10.1.1)."""
    expected = request.headers.get("Expect", "").lower() == "100-continue"
    return expected and request.version >= HttpVersion11


async def read_body(request: web.BaseRequest) -> bytes:
    """Return the body; HTTPRequestEntityTooLarge beyond MAX_BODY, with or without Content-Length.

    Raises Invalid for a body that ends early.
    """
    length = request.content_length
    if length is not None and length > MAX_BODY:
        raise web.HTTPRequestEntityTooLarge(max_size=MAX_BODY, actual_size=length)
    try:
        return await request.read()
    except ConnectionError as exc:
        log.info("client disconnected", extra=fields(method=request.method, path=request.raw_path))
        raise Invalid(f"the client is gone, and has not sent its whole body: {exc}") from exc


def _failed(request: web.BaseRequest, exc: BaseException) -> web.StreamResponse:
    if isinstance(exc, ContivError):
        return refusal(exc)
    if isinstance(exc, web.HTTPRequestEntityTooLarge):
        return error(413, f"request body is larger than {MAX_BODY} bytes")
    log.error(
        "request failed",
        exc_info=exc,
        extra=fields(method=request.method, path=request.raw_path),
    )
    return error(500, f"internal error: {type(exc).__name__}: {exc}")
