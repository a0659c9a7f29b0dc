"""Calls to consul: one client per endpoint (`objdb.failover`), a deadline on every attempt.

Errors of py-consul and aiohttp become `NoAnswer`, where another attempt or another agent may
succeed, or an error of `core.errors`. The requests' meaning is in the modules above.
"""

import asyncio
import json
import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import aiohttp
import consul.aio
import consul.base
from consul.callback import CB
from consul.exceptions import (
    ACLDisabled,
    ACLPermissionDenied,
    BadRequest,
    ClientError,
    ConsulException,
    NotFound,
)

from core.addresses import url_host
from core.errors import ContivError, StoreDenied, StoreUnavailable, TooLarge, UsageError
from core.net import tls_trust
from daemons.http_client import Connector
from objdb.access import StoreAccess, Tls
from objdb.failover import ATTEMPT, BUDGET, Failover, NoAnswer, Retry, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

TOKEN_HEADER: Final = "X-Consul-Token"  # noqa: S105 - the header's name
CONSISTENT: Final = ("consistent", "1")
"""Requests a linearizable read: the leader confirms its leadership first."""

REMEDY: Final = (
    'the token (CONSUL_HTTP_TOKEN) needs key_prefix "contiv.io/" write, session_prefix "" write, '
    'node_prefix "" read and service "contiv-lease" write'
)

_BUSY: Final = "429"
_TOO_LARGE: Final = "413"
_DENIED: Final = "Permission denied"
_UNKNOWN: Final = "ACL not found"


class UnknownToken(NoAnswer):
    """The agent does not know the token, which may not be replicated to it yet."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text}; {REMEDY}", sent=False)


class ConsulAgent:
    """One endpoint and its client."""

    def __init__(self, address: str, access: StoreAccess, context: ssl.SSLContext | None) -> None:
        self.address = address
        self.client = _Client(address, access.token, context)

    async def call(self, ask: "Ask[T]", attempt: float = ATTEMPT) -> T:
        """Call this agent once. Raises NoAnswer, or a permanent error."""
        try:
            async with asyncio.timeout(attempt):
                return await ask(self.client)
        except aiohttp.ClientConnectorError as exc:
            raise NoAnswer(str(exc), sent=False) from exc
        except TimeoutError as exc:
            raise NoAnswer(f"no answer within {attempt:g} s") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise NoAnswer(str(exc) or type(exc).__name__) from exc
        except ConsulException as exc:
            raise translated(exc) from exc


Ask = Callable[[Any], Awaitable[T]]
"""A call of a py-consul client, such as `lambda client: client.kv.get("a")`."""


class ConsulAgents(Failover[ConsulAgent]):
    """The agents of one cluster; calls go to the current one until it fails."""

    def __init__(self, access: StoreAccess, *, budget: float = BUDGET) -> None:
        self.access = access
        self.context = None if access.tls is None else tls_context(access.tls)
        super().__init__(
            [ConsulAgent(address, access, self.context) for address in access.endpoints],
            budget=budget,
        )
        self.token_known = False
        """Whether the store has accepted the token once."""

    async def call_members(
        self, ask: Callable[[ConsulAgent, float], Awaitable[T]], policy: RetryPolicy
    ) -> T:
        """Call one agent after the other until one answers or the budget is used up.

        Raises StoreDenied for a token that no agent has known so far. One that was known may come
        back: a server that was restored or joins anew knows tokens late.
        """
        try:
            answer = await super().call_members(ask, policy)
        except StoreUnavailable as exc:
            if isinstance(exc.__cause__, UnknownToken) and not self.token_known:
                raise StoreDenied(f"store: {exc.__cause__}") from exc
            raise
        self.token_known = True
        return answer

    async def call(
        self,
        ask: Ask[T],
        retry: Retry = Retry.READ,
        *,
        attempt: float = ATTEMPT,
        budget: float | None = None,
    ) -> T:
        """Call one agent after the other until one answers or the budget is used."""
        policy = RetryPolicy(retry, attempt, self.budget if budget is None else budget)
        return await self.call_members(lambda agent, attempt: agent.call(ask, attempt), policy)

    async def close(self) -> None:
        """Close all connections; calls in flight end with StoreUnavailable."""
        self.closed = True
        for agent in self.members:
            await agent.client.close()


async def transaction(
    client: Any, operations: Sequence[object], *, consistent: bool = False
) -> Any:
    """Send a transaction and return consul's answer: `Results`, or `Errors` by `OpIndex`.

    Raises StoreDenied if the token lacks a permission.
    """
    body = json.dumps(operations)
    params = [CONSISTENT] if consistent else []
    answer = await client.http.put(_transaction_answer, "/v1/txn", params=params, data=body)
    for error in answer["Errors"] or ():
        if _DENIED in error["What"]:
            raise StoreDenied(f"store: {error['What']}; {REMEDY}")
    return answer


def translated(exc: ConsulException) -> ContivError | NoAnswer:
    """Translate an error answer of consul."""
    text = str(exc).strip()
    if isinstance(exc, ACLPermissionDenied | ACLDisabled):
        return UnknownToken(text) if _UNKNOWN in text else StoreDenied(f"store: {text}; {REMEDY}")
    if isinstance(exc, ClientError) and text.startswith(_TOO_LARGE):
        return TooLarge(f"store: {text}")
    if isinstance(exc, BadRequest) and "HTTPS server" in text:
        return StoreUnavailable(f"store: {text}; name it with https://")
    if isinstance(exc, BadRequest | NotFound):
        return StoreUnavailable(f"store: {text}")
    if isinstance(exc, ClientError) and not text.startswith(_BUSY):
        return StoreUnavailable(f"store: {text}")
    return NoAnswer(text)


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the certificates as a TLS context. Raises UsageError for invalid ones."""
    try:
        context = tls_trust.client_context(ca_text=tls.ca.decode() if tls.ca else "")
        if tls.cert and tls.key:
            with _file(tls.cert + b"\n" + tls.key) as path:
                context.load_cert_chain(path)
    except (ssl.SSLError, ValueError) as exc:
        raise UsageError(f"the certificates for the store cannot be used: {exc}") from exc
    context.sslobject_class = _OneSidedClose
    return context


class _OneSidedClose(ssl.SSLObject):
    """Closes TLS without waiting for the peer's close_notify."""

    # An agent answers only after the blocking query of the connection, which we have given up:
    # aiohttp would wait half a minute for it.

    def unwrap(self) -> None:
        """Send close_notify."""
        with suppress(ssl.SSLWantReadError):
            super().unwrap()


class _Http(consul.aio.HTTPClient):  # type: ignore[misc]  # py-consul has no types
    """py-consul's HTTP client with an aiohttp session of this module."""

    def __init__(
        self, host: str, port: int, token: str | None, context: ssl.SSLContext | None
    ) -> None:
        scheme = "http" if context is None else "https"
        # A local agent takes twice as long for a compressed listing.
        headers = {"Accept-Encoding": "identity"}
        if token:
            headers[TOKEN_HEADER] = token
        consul.base.HTTPClient.__init__(self, host, port, scheme)
        self._session = aiohttp.ClientSession(
            connector=Connector(ssl=context or True, limit=0),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        # aiohttp repeats a PUT when a kept-alive connection breaks, which could apply a
        # transaction twice. Only `Retry` may decide about that. There is no public switch; see
        # tests/integration/objdb/test_unknown_outcome.py.
        self._session._retry_connection = False  # noqa: SLF001


class _Client(consul.aio.Consul):  # type: ignore[misc]  # as above
    """py-consul's client, configured by arguments instead of the environment."""

    def __init__(self, address: str, token: str | None, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(f"//{address}")
        self._token, self._context = token, context
        super().__init__(host=parts.hostname, port=parts.port, scheme="http", verify=True)
        self.token = None

    def http_connect(
        self,
        host: str,
        port: int,
        scheme: str,  # noqa: ARG002 - the signature is the library's
        verify: bool | str = True,  # noqa: ARG002, FBT001, FBT002
        cert: object = None,  # noqa: ARG002
    ) -> _Http:
        """Return the HTTP client."""
        return _Http(url_host(host), port, self._token, self._context)


def _transaction_answer(response: consul.base.Response) -> Any:
    # 409 is the answer to a refused transaction, with the refused operations in the body.
    if response.code == 409:
        response = consul.base.Response(200, response.headers, response.body)
    return CB.json()(response)


@contextmanager
def _file(data: bytes) -> "Iterator[str]":
    """Yield the path of an in-memory file: Python loads certificates from files only."""
    handle = os.memfd_create("certificate")
    try:
        os.write(handle, data)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)
