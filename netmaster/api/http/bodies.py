"""Reads the bodies of requests within limits of size, time and memory.

In comes a request; out comes its body, or an error with the status that tells the client what to
do. What has been read counts against a budget until the request is answered, in all and for each
peer. So slow or many senders can neither fill the memory nor hold a connection for ever.
"""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from typing import Final, Self

from aiohttp import web

from core.errors import ContivError, Invalid
from core.logs import fields

log = logging.getLogger(__name__)

MAX_BODY: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """Bytes of all bodies in memory, in all and of one peer; seconds for a body to arrive.

    A follower forwards the requests of many clients, so the share of one peer is large.
    """

    in_memory: int = 64 << 20
    per_peer: int = 32 << 20
    arrival: float = 30.0


class BodyTooSlow(ContivError):
    """A body did not arrive in time."""

    http_status = 408


class BodiesTooMany(ContivError):
    """Other bodies occupy the memory there is for them; the client may try again."""

    http_status = 503


class BodyBudget:
    """The memory that bodies occupy."""

    def __init__(self, limits: BodyLimits | None = None) -> None:
        self.limits = limits or BodyLimits()
        self._peers: Counter[str] = Counter()
        self._total = 0

    def share(self, peer: str) -> "BodyShare":
        """Return a request's share of the budget, which the end of its context gives back."""
        return BodyShare(self, peer)

    def grow(self, peer: str, size: int) -> None:
        """Occupy memory. Raises BodiesTooMany if there is not so much left."""
        limits = self.limits
        if self._total + size > limits.in_memory or self._peers[peer] + size > limits.per_peer:
            raise BodiesTooMany("too many large requests at once: try again")
        self.take(peer, size)

    def take(self, peer: str, size: int) -> None:
        """Occupy memory, or give it back, whatever is left."""
        self._total += size
        self._peers[peer] += size
        if not self._peers[peer]:
            del self._peers[peer]


class BodyShare:
    """What one request occupies of the budget."""

    def __init__(self, budget: BodyBudget, peer: str) -> None:
        self.held = 0
        self._budget = budget
        self._peer = peer

    def __enter__(self) -> Self:
        """Begin with nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what the request occupies."""
        self._budget.take(self._peer, -self.held)

    async def read(self, request: web.BaseRequest) -> bytes:
        """Return the body; HTTPRequestEntityTooLarge beyond MAX_BODY, whatever its announced size.

        Raises Invalid for a body that ends early, BodyTooSlow, BodiesTooMany.
        """
        length = request.content_length
        if length is not None and length > MAX_BODY:
            raise web.HTTPRequestEntityTooLarge(max_size=MAX_BODY, actual_size=length)
        arrival = self._budget.limits.arrival
        try:
            if request.content.is_eof():  # nothing to wait for, as with most small bodies
                return await self._received(request)
            async with asyncio.timeout(arrival):
                return await self._received(request)
        except TimeoutError as exc:
            raise BodyTooSlow(f"request body not received within {arrival:g} s") from exc
        except (ConnectionError, web.RequestPayloadError) as exc:
            log.info(
                "client disconnected", extra=fields(method=request.method, path=request.raw_path)
            )
            raise Invalid(f"the client is gone, and has not sent its whole body: {exc}") from exc

    async def _received(self, request: web.BaseRequest) -> bytes:
        body = bytearray()
        while chunk := await request.content.readany():
            self._budget.grow(self._peer, len(chunk))
            self.held += len(chunk)
            body += chunk
            if len(body) > MAX_BODY:
                raise web.HTTPRequestEntityTooLarge(max_size=MAX_BODY, actual_size=len(body))
        return bytes(body)
