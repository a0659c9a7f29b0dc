"""HTTP on a unix socket of this host, for the plugins that container runtimes run or ask.

In come the requests of processes of root, within limits of number, size and time; out goes what an
answerer makes of each. The servers of CNI (`netplugin.cni`), docker (`netplugin.libnetwork`) and
Mesos (`netplugin.mesos`) stand on it. Knows no protocol of a runtime.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiohttp import web

from core.logs import fields
from core.net.connections import ConnectionGuard, ConnectionLimits
from core.net.unix_socket import listen, peer_uid
from core.tracing import spans, trace_context
from daemons.http import GuardedSite

log = logging.getLogger(__name__)

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

LIMITS: Final = ConnectionLimits(total=2048, per_peer=2048, first_request=10.0, unread=60.0)
"""A host has some hundred pods; each call is a connection, which waits for its answer."""
BODY_TIME: Final = 10.0
"""Seconds for a request to arrive; plugins and engines send it in one piece."""
_BACKLOG: Final = 512
_SHUTDOWN: Final = 1.0


class PluginSocket:
    """The connections of one socket; `what` names it in errors and in the log."""

    def __init__(
        self, what: str, limits: ConnectionLimits = LIMITS, body_time: float = BODY_TIME
    ) -> None:
        self._what = what
        self._connections = ConnectionGuard(what, limits)
        self._body_time = body_time

    @asynccontextmanager
    async def listening(self, path: Path, answer: Answer) -> AsyncIterator[None]:
        """Answer requests at `path` for the length of the body.

        Raises Invalid for a path that is too long, HostError when the socket cannot be created.
        """

        async def answered(request: web.BaseRequest) -> web.StreamResponse:
            header = request.headers.get(trace_context.HEADER)
            with (
                self._connections.busy(request.transport),
                spans.received(request.path.lstrip("/"), header),
            ):
                return await answer(request)

        # Nothing is unpacked: no runtime packs what it sends, and what cannot be unpacked would be
        # an error of the library.
        server = web.Server(answered, access_log=None, auto_decompress=False)
        runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN)
        await runner.setup()
        try:
            listener = listen(path, self._what)
            await GuardedSite(runner, self._connections, listener, backlog=_BACKLOG).start()
            log.info("plugin socket listening", extra=fields(serves=self._what, path=path))
            yield
        finally:
            await runner.cleanup()

    async def read(self, request: web.BaseRequest, limit: int) -> bytes:
        """Return the body of a request, of up to `limit` bytes.

        Raises TimeoutError if it does not arrive in time, HTTPRequestEntityTooLarge.
        """
        with self._connections.waiting(request.transport):
            async with asyncio.timeout(self._body_time):
                return await request.clone(client_max_size=limit).read()


def is_allowed(request: web.BaseRequest) -> bool:
    """Tell whether root, or the user of the agent, sent a request."""
    # The socket's mode keeps other users out already; this check does not depend on it.
    return peer_uid(request.transport) in {0, os.geteuid()}
