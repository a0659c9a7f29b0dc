"""An asyncio client of API v2, with the calls and answers of `contivmodel.client_v2`.

Both send what `contivmodel.calls_v2` describes; what differs is that this one is awaited.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from ssl import SSLContext
from types import TracebackType
from typing import Self, TypeVar

import aiohttp

from contivmodel import calls_v2
from contivmodel.calls_v2 import (
    ApiChange,
    Call,
    DryRunResult,
    EventReader,
    Events,
    Followed,
    Listing,
    Versioned,
)
from contivmodel.client_sync import CONNECT_TIMEOUT, TIMEOUT, Answered
from contivmodel.masters import Masters
from contivmodel.objects import RestObject
from core.errors import MasterUnavailable, outcome_is_unknown
from daemons.http_client import Connector

M = TypeVar("M", bound=RestObject)
T = TypeVar("T")


class AsyncApiClient:
    """Client of the netmasters of a cluster; close it, or use it in `async with`.

    `masters` are their URLs, as a list or separated by commas. One that does not answer is asked
    last from then on. `ssl` returns the TLS context for the next request to an https URL; by
    default the authorities of this machine are trusted. `timeout` is how many seconds an answer may
    bring nothing.
    """

    def __init__(
        self,
        masters: str | Iterable[str],
        *,
        token: str = "",
        timeout: float = TIMEOUT,
        ssl: Callable[[], SSLContext] | None = None,
    ) -> None:
        self._masters = Masters(masters)
        self._headers = {"X-Auth-Token": token} if token else {}
        self._ssl = ssl
        self._timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT, sock_read=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, call: Call[T]) -> T:
        """Return the answer to a call. Raises what the call says, and MasterUnavailable."""
        async with self._opened(call) as response:
            body, reason = await response.read(), response.reason or ""
            answered = Answered(response.status, reason, body, response.headers)
        return call.answer(answered)

    async def each(self, listing: Listing[T]) -> AsyncIterator[T]:
        """Yield what a listing has, read page by page."""
        after = ""
        while True:
            page = await self.ask(listing.page(after))
            for one in page.items:
                yield one
            if not (after := page.next):
                return

    async def read(self, model: type[M], key: str) -> Versioned[M]:
        """Return an object. Raises NotFound."""
        return await self.ask(calls_v2.reading(model, key))

    def list_all(self, model: type[M], having: Mapping[str, str] | None = None) -> AsyncIterator[M]:
        """Yield the objects whose fields, by their names in JSON, have these values."""
        return self.each(calls_v2.objects(model, having))

    async def make(self, change: ApiChange[M]) -> Versioned[M] | None:
        """Make a change; return the object, None if it was deleted.

        After MasterUnavailable with `outcome_unknown`, make the same change again.
        """
        return await self.ask(calls_v2.making(change))

    async def preview(self, change: ApiChange[M]) -> DryRunResult[M]:
        """Return what a change would do. Raises what making it would."""
        return await self.ask(calls_v2.preview(change))

    async def follow(self, model: type[M]) -> AsyncIterator[Mapping[str, M]]:
        """Yield all objects of a class by key, as `ApiClient.follow` does."""
        followed = Followed(model)
        while True:
            came = False
            try:
                async for event in self.events(followed.after):
                    came = True
                    if whole := followed.lacks(event):
                        followed.found = {
                            one.object_key(): one async for one in self.list_all(model)
                        }
                    if followed.took(event) or whole:
                        yield dict(followed.found)
            except MasterUnavailable:
                if not came or len(self._masters) == 1:
                    raise

    async def events(self, after: str | None = None) -> AsyncIterator[Events]:
        """Yield what changes behind an event's id, as `ApiClient.events` does."""
        call = calls_v2.watching(after)
        async with self._opened(call) as response:
            if response.status != HTTPStatus.OK:
                body, reason = await response.read(), response.reason or ""
                call.answer(Answered(response.status, reason, body, response.headers))
            reader = EventReader()
            async for part in response.content.iter_any():
                for event in reader.read(part):
                    yield event

    @asynccontextmanager
    async def _opened(self, call: Call[T]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer of the first netmaster that gives one, to be read within.

        A change goes to another one only if it was not sent, so that it is never made twice.
        """
        failures: list[MasterUnavailable] = []
        for url in self._masters.in_turn():
            try:
                response = await self._send(url, call)
            except (aiohttp.ClientError, TimeoutError) as exc:
                self._masters.failed(url)
                failures.append(_failure(call, url, exc))
                if outcome_is_unknown(failures[-1]):
                    break
                continue
            self._masters.answered(url)
            try:
                yield response
            except (aiohttp.ClientError, TimeoutError) as exc:
                self._masters.failed(url)
                raise _failure(call, url, exc) from exc
            finally:
                response.close()
            return
        raise MasterUnavailable(
            "; ".join(map(str, failures)), outcome_unknown=outcome_is_unknown(failures[-1])
        )

    async def _send(self, url: str, call: Call[T]) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, connector=Connector())
        typed = {} if call.payload is None else {"Content-Type": "application/json"}
        return await self._session.request(
            call.method,
            url + call.path,
            data=call.payload,
            headers={**self._headers, **typed, **call.headers},
            allow_redirects=False,
            ssl=self._ssl() if self._ssl else True,
        )


_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)


def _failure(call: Call[T], url: str, exc: Exception) -> MasterUnavailable:
    text = f'{call.method.capitalize()} "{url}{call.path}": {str(exc) or "no answer in time"}'
    unknown = call.method != "GET" and not isinstance(exc, _NOT_SENT)
    return MasterUnavailable(text, outcome_unknown=unknown)
