"""The follower's role: forwards every request to the leader and its answer back.

The leader is the holder of the lock at that moment. A request is received whole before the leader
is asked, so that a slow client occupies no connection to the leader; answers are streamed.
Connections to the leader are kept open; their number and every wait are bounded. The proxy knows
nothing of what a request means, but for `/info`, to which it adds its own address
(`netmaster.api.http.follower_info`); with TLS it tells the leader whose certificate the client has.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import (
    ClientConnectionError,
    ClientConnectorError,
    ClientError,
    ClientHandlerType,
    ClientOSError,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    DummyCookieJar,
    ServerDisconnectedError,
    web,
)
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from contivmodel.outcome import HEADER, Outcome
from core.errors import NotLeader, StoreUnavailable
from core.patience import patient
from core.tasks import background
from core.tracing import trace_context
from daemons.certificates.tls import TlsContexts, peer_identity
from daemons.certificates.tls_faults import cause
from daemons.http_client import Connector
from netmaster.api.http.follower_info import is_info, with_follower
from netmaster.api.http.replies import failure, may_change, unknown_outcome
from netmaster.api.http.server import ROUTE, read_body
from netmaster.auth.forwarding import FORWARDED_IDENTITY, forwarded
from netmaster.commits.commit import NO_LEADER


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyTiming:
    """Limits of a proxy: a number of connections, and seconds.

    `free_connection`: until a connection is free. `connect`: to connect. `answer`: for the leader's
    next bytes, and for a client to read them. `leader_known`: for the store to say who leads.
    `leader_check`: between two checks that the leader that was asked still leads.
    """

    connections: int = 64
    free_connection: float = 60.0
    connect: float = patient(3.0)
    answer: float = patient(60.0)
    leader_known: float = patient(2.0)
    leader_check: float = 1.0


FORWARDED: Final = "forwarded"
"""The route of every request in a follower's statistics; the leader's have the real one."""
_NOT_SENT: Final = (ClientConnectorError, ConnectionTimeoutError)
"""Without a connection nothing was sent, so nothing was done."""
_HOP_BY_HOP: Final = frozenset({
    "connection",
    "expect",  # answered by `netmaster.api.http.server`
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
    """Forwards requests to the leader; `own` is the lock's value while this master holds it.

    `faults` returns what fails at this master now.
    """

    def __init__(
        self,
        leader: Callable[[], Awaitable[str | None]],
        own: str,
        timing: ProxyTiming | None = None,
        *,
        tls: TlsContexts | None = None,
        faults: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        timing = timing or ProxyTiming()
        self._faults = faults
        self._timing = timing
        self._tls = tls
        self._leader = leader
        self._own = own
        self._session = ClientSession(
            connector=Connector(limit=timing.connections),
            timeout=ClientTimeout(
                total=None,
                connect=timing.free_connection,
                sock_connect=timing.connect,
                sock_read=timing.answer,
            ),
            middlewares=(_once,),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    async def close(self) -> None:
        """Close the connections to the leader."""
        await self._session.close()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the leader's answer; NotLeader if there is no other leader than this master.

        If the leader's answer is lost, a change may have been made; the answer then says so.
        """
        request[ROUTE] = FORWARDED
        body = await read_body(request) if request.can_read_body else None
        leader = await self._current_leader()
        # The lock names this master while it loads its view. Forwarding to itself would be a loop.
        if leader is None or leader == self._own:
            raise NotLeader(NO_LEADER)
        try:
            async with (
                asyncio.timeout(None) as limit,
                background("leader asked", self._cancel_when_deposed(leader, limit)),
            ):
                return await self._forward(request, body, leader)
        except (ClientError, TimeoutError) as exc:
            silent = f"Leader {leader} does not answer: {cause(exc)}"
            if may_change(request) and not isinstance(exc, _NOT_SENT):
                return unknown_outcome(request, silent)
            return _bad_gateway(request, silent)

    async def _current_leader(self) -> str | None:
        try:
            async with asyncio.timeout(self._timing.leader_known):
                return await self._leader()
        except TimeoutError as exc:
            raise StoreUnavailable(
                "the store does not answer, so the leader is unknown: try again"
            ) from exc

    async def _forward(
        self, request: web.BaseRequest, body: bytes | None, leader: str
    ) -> web.StreamResponse:
        async with self._session.request(
            request.method,
            URL(f"{'https' if self._tls else 'http'}://{leader}{request.raw_path}", encoded=True),
            headers=self._headers(request),
            ssl=self._tls.to_masters() if self._tls else True,
            data=body,
            allow_redirects=False,
        ) as answer:
            if is_info(request.method, request.path) and answer.status == HTTPStatus.OK:
                return await self._info(answer)
            return await _stream(request, answer, self._timing.answer)

    async def _info(self, answer: ClientResponse) -> web.Response:
        headers = _kept(answer.headers)
        headers.popall("Content-Length", None)
        return web.Response(
            body=with_follower(await answer.read(), self._own, self._faults()), headers=headers
        )

    def _headers(self, request: web.BaseRequest) -> CIMultiDict[str]:
        headers = _kept(request.headers)
        headers.update(trace_context.headers())
        if self._tls:
            transport = request.transport
            peer = peer_identity(transport.get_extra_info("ssl_object")) if transport else None
            # Always: a client that sends this header itself would be whom it names.
            headers[FORWARDED_IDENTITY] = forwarded(peer)
        if request.remote:
            before = headers.get("X-Forwarded-For")
            headers["X-Forwarded-For"] = f"{before}, {request.remote}" if before else request.remote
        return headers

    async def _cancel_when_deposed(self, leader: str, limit: asyncio.Timeout) -> None:
        """End the wait for a leader that was deposed.

        A frozen leader keeps its connections and never answers. Once another master holds the
        lock, the answer could only be a refusal; the client gets its error now and asks again.
        """
        while True:
            await asyncio.sleep(self._timing.leader_check)
            with suppress(
                StoreUnavailable
            ):  # without the store the leader is unknown, so keep waiting
                if await self._leader() != leader:
                    limit.reschedule(asyncio.get_running_loop().time())
                    return


def _bad_gateway(request: web.BaseRequest, text: str) -> web.Response:
    """Return the answer to a request that has changed nothing, for want of a leader."""
    answer = failure(request, 502, text)
    answer.headers[HEADER] = Outcome.REFUSED
    answer.headers["Retry-After"] = "1"
    return answer


async def _once(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
    """Send a request at most once.

    aiohttp repeats idempotent methods, DELETE among them, when a kept connection breaks. The leader
    may have performed the first one already, and the second would be answered `not found`. Only
    the client can decide whether to repeat, so it gets the error.
    """
    try:
        return await send(request)
    except ClientConnectorError:
        raise  # no connection was made
    except (ClientOSError, ServerDisconnectedError) as exc:
        raise ClientConnectionError(str(exc)) from exc


async def _stream(
    request: web.BaseRequest, answer: ClientResponse, write_limit: float
) -> web.StreamResponse:
    reply = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
    await reply.prepare(request)
    try:
        async for chunk in answer.content.iter_any():
            async with asyncio.timeout(write_limit):
                await reply.write(chunk)
        await reply.write_eof()
    finally:
        if not answer.content.at_eof():
            # The status is sent already. Only a cut connection can show the client that the rest is
            # missing.
            request.protocol.force_close()
    return reply


def _kept(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return headers without those that concern one connection only (RFC 9110 §7.6.1)."""
    named = ",".join(headers.getall("Connection", ())).lower().split(",")
    dropped = _HOP_BY_HOP.union(name.strip() for name in named)
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in dropped
    )
