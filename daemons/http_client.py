"""Connections of HTTP clients, which end at once when their answer is given up.

In come the options of aiohttp's own connector. A session with this one leaves nothing behind:
neither when it is closed, nor when a request is cancelled or takes too long. Used by all clients of
the daemons.
"""

import asyncio
from functools import partial
from typing import Any

from aiohttp import TCPConnector
from aiohttp.client_proto import ResponseHandler

# Why: when an answer was not read to its end, aiohttp closes the connection in good order. With TLS
# that takes a word of the peer, else half a minute, in which the kernel goes on sending a request
# that was given up; and a session that is closed does not wait for it.


class Connector(TCPConnector):
    """A connector whose connections are ended, not closed in good order."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(_connection, self._loop)  # there is no public way


def _connection(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _Connection(loop)


class _Connection(ResponseHandler):
    def close(self) -> None:
        self.abort()
