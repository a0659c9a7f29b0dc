"""Authorization and concurrency limits of costly diagnostics.

For routes of `netplugin.diagnostics` that read packets, send them, or compute for long. netmaster
alone may ask them, since it knows who may ask in whose name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Protocol

from aiohttp import web

from core.errors import Exhausted


class KnownMasters(Protocol):
    """Who the masters are (`netplugin.startup.inspect`)."""

    async def asked_by_master(self, request: web.Request) -> bool:
        """Return whether a request comes from a master."""
        ...


def forbidden(text: str) -> web.Response:
    """Return the answer to one who is no master."""
    return web.Response(status=HTTPStatus.FORBIDDEN, text=f"{text}\n")


class ConcurrencyLimit:
    """So many requests at once; `what` says what runs on this host, for those that are refused."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._running = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have a place for the length of the body. Raises Exhausted."""
        if self._running >= self._most:
            raise Exhausted(f"{self._running} {self._what}")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
