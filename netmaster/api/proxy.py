"""The follower's role: every request goes to the leader, and its answer comes back.

The leader is whoever the lock names at that moment. Bodies are streamed both ways, connections to
the leader are kept, and bounded in number and in how long anybody may keep one waiting. A request
is sent once: what becomes of it when its connection breaks nobody knows. It knows nothing of what
is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aiohttp import (
    ClientConnectionError,
    ClientError,
    ClientHandlerType,
    ClientOSError,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    TCPConnector,
    web,
)
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from core.errors import NotLeader, StoreUnavailable
from core.tasks import background
from netmaster.api.replies import error
from netmaster.commit import NO_LEADER

CONNECTIONS: Final = 64
FREE_CONNECTION: Final = 60.0
"""Seconds to wait until one of them is free."""
CONNECT_TIMEOUT: Final = 3.0
ANSWER_TIMEOUT: Final = 60.0
"""Seconds to wait for the leader's next word, and for a client to take it."""
LEADER_KNOWN: Final = 2.0
"""Seconds the store may take to say who leads; who asks is told soon to try again later."""
LEADER_CHECK: Final = 1.0
"""Seconds between looks whether the one we wait for still leads."""

_HOP_BY_HOP: Final = frozenset({
    "connection",
    "expect",  # answered by `netmaster.api.server`
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
})  # fmt: skip


class Proxy:
    """Sends requests on to the leader; `own` is what the lock would say if that were us."""

    def __init__(self, leader: Callable[[], Awaitable[str | None]], own: str) -> None:
        self._leader = leader
        self._own = own
        self._session = ClientSession(
            connector=TCPConnector(limit=CONNECTIONS),
            timeout=ClientTimeout(
                total=None,
                connect=FREE_CONNECTION,
                sock_connect=CONNECT_TIMEOUT,
                sock_read=ANSWER_TIMEOUT,
            ),
            middlewares=(_once,),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    async def close(self) -> None:
        """Drop the connections to the leader."""
        await self._session.close()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the leader's answer; NotLeader if there is none but ourselves."""
        leader = await self._who_leads()
        if leader is None or leader == self._own:
            raise NotLeader(NO_LEADER)
        try:
            async with (
                asyncio.timeout(None) as limit,
                background("leader asked", self._give_up_when_deposed(leader, limit)),
            ):
                return await self._forward(request, leader)
        except (ClientError, TimeoutError) as exc:
            return error(502, f"Leader {leader} does not answer: {str(exc) or type(exc).__name__}")

    async def _who_leads(self) -> str | None:
        try:
            async with asyncio.timeout(LEADER_KNOWN):
                return await self._leader()
        except TimeoutError as exc:
            raise StoreUnavailable(
                "the store does not answer, so nobody can say who leads: try again"
            ) from exc

    async def _forward(self, request: web.BaseRequest, leader: str) -> web.StreamResponse:
        async with self._session.request(
            request.method,
            URL(f"http://{leader}{request.raw_path}", encoded=True),
            headers=_forwarded_headers(request),
            data=request.content if request.can_read_body else None,
            allow_redirects=False,
        ) as answer:
            return await _stream(request, answer)

    async def _give_up_when_deposed(self, leader: str, limit: asyncio.Timeout) -> None:
        """End the wait for a leader that is none any more, a frozen one say."""
        while True:
            await asyncio.sleep(LEADER_CHECK)
            with suppress(StoreUnavailable):  # then nobody can know who leads
                if await self._leader() != leader:
                    limit.reschedule(asyncio.get_running_loop().time())
                    return


async def _once(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
    """Send a request, and not again when its connection breaks, as aiohttp does with DELETE."""
    try:
        return await send(request)
    except (ClientOSError, ServerDisconnectedError) as exc:
        raise ClientConnectionError(str(exc)) from exc


async def _stream(request: web.BaseRequest, answer: ClientResponse) -> web.StreamResponse:
    reply = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
    await reply.prepare(request)
    try:
        async for chunk in answer.content.iter_any():
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await reply.write(chunk)
        await reply.write_eof()
    finally:
        if not answer.content.at_eof():
            # the status is out already: a cut connection is the only way left to tell the client
            request.protocol.force_close()
    return reply


def _forwarded_headers(request: web.BaseRequest) -> CIMultiDict[str]:
    headers = _kept(request.headers)
    if request.remote:
        before = headers.get("X-Forwarded-For")
        headers["X-Forwarded-For"] = f"{before}, {request.remote}" if before else request.remote
    return headers


def _kept(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return headers without those that are for the next one on the way alone (RFC 9110 §7.6.1)."""
    named = ",".join(headers.getall("Connection", ())).lower().split(",")
    dropped = _HOP_BY_HOP.union(name.strip() for name in named)
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in dropped
    )
