"""List/watch client of the Kubernetes API servers.

A resource is listed in pages, then watched from the list's version. A watch that ends, breaks or
is silent for too long is opened again at the last version, on the next server if there are several;
only when the server no longer has that version (410 Gone), or refuses the watch, is the resource
listed again. Objects are passed on as the server's JSON; `netplugin.kube.feed` takes them.
"""

import asyncio
import json
import logging
import random
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import aiohttp

from core.errors import OrchestratorUnavailable
from core.logs import fields
from core.net.keepalive import set_keepalive
from core.patience import patient
from core.retry import ELSEWHERE, Loop, Pace
from daemons.http_client import Connector
from netplugin.kube.api_access import KubeAccess
from netplugin.kube.faults import connection_fault, refusal
from netplugin.kube.resources import Resource
from netplugin.world.kubernetes.kube_objects import KubeObject

log = logging.getLogger(__name__)

_T = TypeVar("_T")

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of one event of a watch."""

PAGE: Final = 500
"""Objects of one page of a list."""

_ANY: Final = "0"
"""The resource version that lets a server answer a list from its cache."""

_LATEST: Final = ""
"""The resource version that makes it read the list from its store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeTiming:
    """Time limits and pauses, in seconds."""

    connect: float = patient(10.0)
    answer: float = patient(60.0)
    """Limit of one page of a list."""

    one_object: float = patient(3.0)
    """Limit of the answer about one object, from each server: an ADD waits for it."""

    silence: float = 90.0
    """A watch that says nothing for so long may be dead, and is opened again.

    Servers send bookmarks about each minute, but for resources without any change since they began.
    """

    watch: float = 300.0
    """The server ends a watch after this time at the earliest, and twice of it at the latest."""

    longest_pause: float = 30.0
    not_served: float = 300.0
    """An optional resource that is not served is asked for again after this time."""

    unacknowledged: float = 30.0
    """The kernel ends a connection when data sent is not acknowledged for so long."""


@dataclass(frozen=True, slots=True)
class KubeList:
    """All objects of a resource; those it had before and lacks now are deleted."""

    resource: Resource
    version: str
    objects: tuple[KubeObject, ...]


@dataclass(frozen=True, slots=True)
class KubeChange:
    """One object as it is now, or as it last was if it is deleted."""

    resource: Resource
    version: str
    object: KubeObject
    deleted: bool


@dataclass(frozen=True, slots=True)
class KubeSign:
    """A sign of life of a watch, or the fault that ended it; `version` is what it has reached."""

    fault: str = ""
    version: str = ""


KubeEvent = KubeList | KubeChange | KubeSign


class KubeRefused(OrchestratorUnavailable):
    """The server answered with an error; `status` is that of HTTP or of an ERROR event."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class KubeApi:
    """Client of the API servers of one cluster."""

    def __init__(
        self, access: KubeAccess, timing: KubeTiming | None = None, *, page: int = PAGE
    ) -> None:
        self.timing = timing or KubeTiming()
        self._access = access
        self._page_limit = str(page)
        self._current = 0
        self._loop = Loop(log, "Kubernetes watch failed", patience=ELSEWHERE)  # the feed's

    async def follow(self, resource: Resource, known: str = _ANY) -> AsyncIterator[KubeEvent]:
        """Yield all objects of a resource, then every change, for ever.

        `known` is a version that an earlier agent had reached: no older list is accepted.
        """
        # `reached` is the last version of which everything was yielded, "" for none: then only a
        # list shows what was deleted meanwhile. `known` keeps lists from going back in time, as
        # another server of the cluster may lag; it is dropped when no server has it any more.
        # Pauses start anew only when an event has arrived, or a watch has lasted: a server that
        # accepts every watch and ends it at once must not be asked in a tight loop.
        served, reached, waits = resource, "", self._pauses()
        loop = self._loop.of(resource.name)
        async with self._session() as session:
            while True:
                try:
                    if not reached:
                        listed = await self._list_served(session, resource, known)
                        served, reached = listed.resource, listed.version
                        known, waits = reached, self._pauses()
                        loop.works()
                        yield listed
                        if not reached:
                            await asyncio.sleep(self.timing.not_served)
                            continue
                    began = time.monotonic()
                    async with aclosing(self._watch(session, served, reached)) as events:
                        async for event in events:
                            reached = known = event.version or reached
                            loop.works()
                            if event.version:
                                waits = self._pauses()
                            yield event
                    if time.monotonic() - began >= self.timing.silence:
                        waits = self._pauses()
                except KubeRefused as exc:
                    if exc.status in {410, 504}:  # the version is too old, or not there yet
                        known = _LATEST
                    reached = ""
                    loop.failed(exc)
                    yield KubeSign(fault=f"{resource.name}: {exc}")
                except OrchestratorUnavailable as exc:
                    loop.failed(exc)
                    yield KubeSign(fault=f"{resource.name}: {exc}")
                await asyncio.sleep(next(waits))

    async def get(self, resource: Resource, namespace: str, name: str) -> KubeObject | None:
        """Return one object, None if it does not exist. Raises OrchestratorUnavailable."""
        path = resource.path(resource.versions[0], namespace, name)
        limit = self.timing.one_object
        async with self._session() as session:
            try:
                return await self._of_any_server(
                    lambda: self._get(session, resource, path, {}, limit)
                )
            except KubeRefused as exc:
                if exc.status == 404:
                    return None
                raise

    async def served(self, group: str) -> dict[str, frozenset[str]]:
        """Return the resources of an API group by its versions, in plural; none for no group.

        Raises OrchestratorUnavailable.
        """
        asked = Resource(name=f"discovery of {group}", versions=(f"apis/{group}",))
        found: dict[str, frozenset[str]] = {}
        async with self._session() as session:
            try:
                versions = (await self._get(session, asked, f"/apis/{group}", {})).get("versions")
                for version in _names(versions, "version"):
                    listed = await self._get(session, asked, f"/apis/{group}/{version}", {})
                    names = _names(listed.get("resources"), "name")
                    found[version] = frozenset(name for name in names if "/" not in name)
            except KubeRefused as exc:
                if exc.status != 404:
                    raise
        return found

    async def probe(self, resource: Resource) -> str:
        """Return the server that lists a resource. Raises OrchestratorUnavailable."""
        async with self._session() as session:
            await self._of_any_server(
                lambda: self._served(resource, lambda one: self._page(session, one, {"limit": "1"}))
            )
        return self._server

    async def _of_any_server(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Ask each server until one answers. Raises OrchestratorUnavailable: the last fault."""
        for _ in self._access.servers[1:]:
            try:
                return await ask()
            except KubeRefused:
                raise
            except OrchestratorUnavailable as exc:
                log.info("Kubernetes API server not answering", extra=fields(error=exc))
        return await ask()

    # -- requests --------------------------------------------------------------------------------

    @property
    def _server(self) -> str:
        return self._access.servers[self._current]

    def _pauses(self) -> Iterator[float]:
        return Pace(longest=self.timing.longest_pause).pauses()

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=Connector(socket_factory=self._socket))

    def _socket(self, info: Any) -> socket.socket:
        """Return a socket that notices a peer that has gone without a word."""
        # Keepalive probes find a peer that is away while nothing is sent, the user timeout one that
        # acknowledges nothing of what is sent (tcp(7), RFC 5482).
        family, kind, protocol, *_ = info
        made = socket.socket(family, kind, protocol)
        set_keepalive(made, idle=15, interval=5)
        timeout = int(self.timing.unacknowledged * 1000)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout)
        return made

    async def _list_served(
        self, session: aiohttp.ClientSession, resource: Resource, known: str
    ) -> KubeList:
        """Return the list of a resource, or of what is followed instead where it is not served.

        Its version is "" if an optional resource is not served.
        """
        listed = await self._served(resource, lambda one: self._list(session, one, known))
        return listed if listed is not None else KubeList(resource, "", ())

    async def _served(
        self, resource: Resource, ask: Callable[[Resource], Awaitable[_T]]
    ) -> _T | None:
        """Return the answer about the first alternative that is served.

        None if none is and the resource is optional.
        """
        for one in resource.alternatives():
            try:
                return await ask(one)
            except KubeRefused as exc:
                if one.instead is None and not one.optional:
                    raise
                if exc.status != 404 and not (exc.status == 403 and await self._absent(one)):
                    raise
        return None

    async def _absent(self, resource: Resource) -> bool:
        """Return whether an optional resource is known not to be served.

        A server asks for the right to read before it looks whether there is anything to read. Who
        has not got it for what is not installed lacks nothing.
        """
        if not resource.optional:
            return False
        try:
            served = await self.served(resource.group)
        except OrchestratorUnavailable:
            return False
        paths = {f"apis/{resource.group}/{one}" for one in served if resource.name in served[one]}
        return not paths & {*resource.versions}

    async def _list(
        self, session: aiohttp.ClientSession, resource: Resource, known: str
    ) -> KubeList:
        # A server that has the version in its cache answers whole lists from there; pages would
        # make it read its store. From the store, pages keep the answers small.
        query = {"limit": self._page_limit}
        if known == _ANY:
            query["resourceVersion"] = known
        elif known != _LATEST:
            query = {"resourceVersion": known, "resourceVersionMatch": "NotOlderThan"}
        objects: list[KubeObject] = []
        while True:
            body = await self._page(session, resource, query)
            objects.extend(_items(resource, body))
            more = _object(body.get("metadata")).get("continue")
            if not more:
                return KubeList(resource, _version(body), tuple(objects))
            query = {"limit": self._page_limit, "continue": str(more)}

    async def _page(
        self, session: aiohttp.ClientSession, resource: Resource, query: dict[str, str]
    ) -> KubeObject:
        """Return one page of a list, by the first version of the API that is served."""
        if resource.selector:
            query = {**query, "fieldSelector": resource.selector}
        for version in resource.versions[:-1]:
            try:
                return await self._get(session, resource, resource.path(version), query)
            except KubeRefused as exc:
                if exc.status != 404:
                    raise
        return await self._get(session, resource, resource.path(resource.versions[-1]), query)

    async def _get(
        self,
        session: aiohttp.ClientSession,
        resource: Resource,
        path: str,
        query: dict[str, str],
        limit: float | None = None,
    ) -> KubeObject:
        limit = limit or self.timing.answer
        limits = aiohttp.ClientTimeout(total=limit, sock_connect=self.timing.connect)
        server = self._server
        with self._request_errors(server, limit):
            async with self._request(session, server + path, query, limits) as response:
                await self._check(response, resource, server)
                return _object(await response.json(content_type=None))

    async def _watch(
        self, session: aiohttp.ClientSession, resource: Resource, version: str
    ) -> AsyncGenerator[KubeChange | KubeSign]:
        """Yield each change from a version on until the server ends the watch.

        A sign of life is yielded when the watch is open, and for each bookmark.
        """
        limits = aiohttp.ClientTimeout(
            sock_connect=self.timing.connect, sock_read=self.timing.silence
        )
        # Between once and twice the time: not all agents of a cluster shall return together.
        lasting = self.timing.watch * (1 + random.random())  # noqa: S311 - no secret
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(int(lasting)),
        }
        if resource.selector:
            query["fieldSelector"] = resource.selector
        server = self._server
        with self._request_errors(server, self.timing.silence):
            for path in map(resource.path, resource.versions):
                async with self._request(session, server + path, query, limits) as response:
                    if response.status == 404 and path != resource.path(resource.versions[-1]):
                        continue
                    await self._check(response, resource, server)
                    yield KubeSign()
                    try:
                        async for line in _lines(response.content):
                            yield _event(resource, line)
                    except TimeoutError:
                        # No fault yet: a server has no bookmarks for a resource that has not
                        # changed since its start. If it is gone, the next request shows it.
                        self._try_next(server)
                return

    @asynccontextmanager
    async def _request(
        self,
        session: aiohttp.ClientSession,
        url: str,
        query: dict[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        for last in (False, True):
            issued = await self._access.renew()
            # Read for every request: Kubernetes replaces the token before it expires.
            token = self._access.bearer()
            async with session.get(
                url,
                params=query,
                headers={"Authorization": f"Bearer {token}"} if token else {},
                timeout=limits,
                ssl=self._access.tls(url) or True,
                server_hostname=self._access.credentials.server_name or None,
            ) as response:
                if last or response.status != 401 or not self._access.refused(issued):
                    yield response
                    return

    async def _check(
        self, response: aiohttp.ClientResponse, resource: Resource, server: str
    ) -> None:
        """Raise KubeRefused unless the server answered with success."""
        if response.status == 200:
            return
        said = _message(await response.text(errors="replace"))
        if response.status >= 500 and response.status != 504:
            self._try_next(server)
        identity = self._access.identity
        raise KubeRefused(
            refusal(response.status, said, server, resource, identity), response.status
        )

    @contextmanager
    def _request_errors(self, server: str, limit: float) -> Iterator[None]:
        """Turn failures of a connection into OrchestratorUnavailable, and try the next server."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            self._try_next(server)
            raise OrchestratorUnavailable(
                connection_fault(exc, server, self._access.authority, limit)
            ) from exc
        except (ValueError, RecursionError) as exc:
            raise KubeRefused(f"{server}: {str(exc) or type(exc).__name__}", 0) from exc

    def _try_next(self, failed: str) -> None:
        # Watches of several resources share the choice: the first one that notices moves on.
        if failed == self._server:
            self._current = (self._current + 1) % len(self._access.servers)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a body. Raises ValueError for one longer than `LARGEST`."""
    # `StreamReader.readline` has a limit of its own, which one large object exceeds. The pieces of
    # a long line are joined once: adding each to what is there would copy the line at each piece.
    pieces: list[bytes] = []
    size = 0
    async for chunk in content.iter_any():
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        size += len(first)
        for following in others:
            if size:
                yield b"".join(pieces)
            pieces, size = [following], len(following)
        if size > LARGEST:
            raise ValueError(f"an event is larger than {LARGEST} bytes")


def _event(resource: Resource, line: bytes) -> KubeChange | KubeSign:
    """Return the change of one line of a watch. Raises KubeRefused for ERROR, ValueError."""
    event = _object(json.loads(line))
    changed, kind = _object(event.get("object")), event.get("type")
    if kind == "ERROR":
        code = changed.get("code")
        said = f"watch of {resource.name}: {changed.get('message')}"
        raise KubeRefused(said, code if isinstance(code, int) else 0)
    if not isinstance(kind, str) or kind not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
        raise ValueError(f"{kind}: {changed.get('message')}")
    version = _version(changed)
    if kind == "BOOKMARK":
        return KubeSign(version=version)
    return KubeChange(resource, version, changed, deleted=kind == "DELETED")


def _message(text: str) -> str:
    """Return the message of a Status object, else the first line of a text."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip().partition("\n")[0]
    return str(body.get("message", "")) if isinstance(body, dict) else text[:200]


def _items(resource: Resource, body: KubeObject) -> Iterator[KubeObject]:
    """Yield the objects of a page of a list. Raises ValueError if there is no list."""
    items = body.get("items")
    if items is not None and not isinstance(items, list):
        raise ValueError("a list of Kubernetes has no items")
    for number, one in enumerate(items or ()):
        if isinstance(one, dict):
            yield one
        else:
            log.warning(
                "Kubernetes object invalid",
                extra=fields(error=f"{resource.name}: item {number} of the list is no object"),
            )


def _names(members: object, name: str) -> list[str]:
    """Return a member of each object of a list, "" for those without it."""
    if not isinstance(members, list):
        raise ValueError(f"no list of objects with {name}")  # noqa: TRY004 - the server's fault
    return [str(_object(one).get(name, "")) for one in members]


def _object(value: object) -> KubeObject:
    if not isinstance(value, dict):
        raise ValueError("not an object of Kubernetes")  # noqa: TRY004 - the server's answer is at fault
    return value


def _version(value: KubeObject) -> str:
    version = _object(value.get("metadata")).get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise ValueError("without a resource version")
    return version
