"""Listeners of HTTP servers behind a guard of their connections, plain or TLS.

In come a runner of aiohttp, which has the handler of requests, an address or a bound socket, and a
`core.net.connections.ConnectionGuard`; out comes a site of that runner. Used by netmaster's REST,
and by the agent's REST and CNI servers.
"""

import asyncio
import socket
from ssl import SSLContext
from typing import Final

from aiohttp import web

from core.net.connections import ConnectionGuard
from core.net.guarded_protocols import guarded, stop_listening
from daemons.listen_address import ListenAddress

BACKLOG: Final = 128


class GuardedSite(web.BaseSite):
    """A listener of a runner that has been set up; `tls` is the context of its connections."""

    def __init__(
        self,
        runner: web.BaseRunner,
        connections: ConnectionGuard,
        where: ListenAddress | socket.socket,
        *,
        tls: SSLContext | None = None,
        backlog: int = BACKLOG,
    ) -> None:
        super().__init__(runner, backlog=backlog)
        self._connections = connections
        self._where = where
        self._tls = tls

    @property
    def name(self) -> str:
        """What it listens at."""
        where = self._where
        return str(where if isinstance(where, ListenAddress) else where.getsockname())

    async def start(self) -> None:
        """Start to listen. Raises OSError if the address is taken."""
        await super().start()
        loop = asyncio.get_running_loop()
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner has not been set up")
        self._connections.start()
        factory = guarded(self._connections, server, self._tls)
        match self._where:
            case ListenAddress(host, port):
                self._server = await loop.create_server(factory, host, port, backlog=self._backlog)
            case listening:
                self._server = await loop.create_server(
                    factory, sock=listening, backlog=self._backlog
                )

    async def stop(self) -> None:
        """Stop to listen, and end what has not become a connection of the runner yet."""
        if self._server is not None:
            await stop_listening(self._server, self._connections)
        await super().stop()
