"""Connections of HTTP clients, which end at once when their answer is given up, or none needs them.

In come the options of aiohttp's own connector. A session with this one leaves nothing behind:
neither when it is closed, nor when a request is cancelled or takes too long. Used by all clients of
the daemons.
"""

import asyncio
import os
from functools import partial
from typing import Any

from aiohttp import ClientConnectorError, ClientSSLError, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

# Why: when an answer was not read to its end, aiohttp closes the connection in good order. With TLS
# that takes a word of the peer, else half a minute, in which the kernel goes on sending a request
# that was given up; and a session that is closed does not wait for it.
#
# Of the connections that are free aiohttp takes the one that has been so for longest. So a few
# requests in the time that a connection may be idle keep all that a burst of requests opened, on
# each of a thousand hosts, for good. The newest is taken here, and the others end.


class CannotConnect(ClientConnectorError):
    """Nobody accepts connections there: aiohttp's error without a word of TLS, as there was none.

    Handshakes that fail have errors of their own (`daemons.certificates.tls_faults`).
    """

    def __str__(self) -> str:
        number = self.os_error.errno or 0
        why = os.strerror(number).lower() if number > 0 else str(self.os_error)
        return f"cannot connect to {self.host}:{self.port}: {why}"


class Connector(TCPConnector):
    """A connector whose connections are ended, not closed in good order; the newest is used."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(_connection, self._loop)  # there is no public way

    async def connect(self, *args: Any, **options: Any) -> Connection:
        """Return a connection for a request. Raises CannotConnect, and what aiohttp's own does."""
        try:
            return await super().connect(*args, **options)
        except ClientSSLError:
            raise
        except ClientConnectorError as exc:
            raise CannotConnect(*exc.args) from exc.os_error

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        free = self._conns.get(key)
        if free:
            free.rotate(1)  # aiohttp takes the first; there is no public way for this either
        return await super()._get(key, traces)


def _connection(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _Connection(loop)


class _Connection(ResponseHandler):
    def close(self) -> None:
        self.abort()
