"""List/watch client of the Kubernetes API server.

A resource is listed, then watched from the list's resource version. After a failure, and when the
server no longer has that version, it is listed again, with growing pauses. Objects are passed on
as the server's JSON; `netplugin.world.kube_services` validates them.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from core.errors import OrchestratorUnavailable
from core.logs import fields
from core.tasks import backoff
from netplugin.kube.config import ACCOUNT, KubeConfig
from netplugin.world.kube_services import KubeObject

log = logging.getLogger(__name__)

CONNECT_LIMIT: Final = 10.0
LIST_LIMIT: Final = 60.0
WATCH: Final = 300
"""Seconds after which the server ends a watch, as requested."""

SLACK: Final = 30
"""A watch is lost when nothing has arrived for this many seconds longer."""
LONGEST_PAUSE: Final = 30.0
LARGEST: Final = 16 * 1024 * 1024
"""Bytes of one event of a watch."""


@dataclass(frozen=True, slots=True)
class KubeList:
    """All objects of a resource; those it had before and lacks now are deleted."""

    objects: tuple[KubeObject, ...]


@dataclass(frozen=True, slots=True)
class KubeChange:
    """One object as it is now, or as it last was if it is deleted."""

    object: KubeObject
    deleted: bool


class KubeApi:
    """Client of one API server; `account` is the path of the service account's token."""

    def __init__(self, config: KubeConfig, account: Path = ACCOUNT) -> None:
        self._config = config
        self._account = account
        self._tls = config.tls()

    async def list_and_watch(self, resource: str) -> AsyncIterator[KubeList | KubeChange]:
        """Yield the objects of a resource in all namespaces, then every change, for ever."""
        url = f"{self._config.server.rstrip('/')}/api/v1/{resource}"
        version, waits = "", backoff(limit=LONGEST_PAUSE)
        connector = aiohttp.TCPConnector(ssl=self._tls or True)
        async with aiohttp.ClientSession(connector=connector) as session:
            # `version` is the last one of which everything was yielded, "" for none. A watch that
            # the server ends is resumed from it, so no event is lost or repeated. After an error it
            # is reset: the server may have compacted the version away (410 Gone, also sent as an
            # ERROR event of a watch), and only a new list shows what was deleted in the gap.
            # Pauses start anew only when an event has arrived: a server that accepts every watch
            # and ends it at once must not be asked in a tight loop.
            while True:
                try:
                    if not version:
                        version, objects = await self._list(session, url)
                        yield KubeList(objects)
                    async for reached, change in self._watch(session, url, version):
                        version, waits = reached, backoff(limit=LONGEST_PAUSE)
                        if change is not None:
                            yield change
                except OrchestratorUnavailable as exc:
                    version = ""
                    log.warning("Kubernetes watch failed, listing again", extra=fields(error=exc))
                await asyncio.sleep(next(waits))

    async def _list(
        self, session: aiohttp.ClientSession, url: str
    ) -> tuple[str, tuple[KubeObject, ...]]:
        """Return the resource version of a list, and its objects."""
        with _request_errors(url):
            limits = aiohttp.ClientTimeout(LIST_LIMIT)
            async with session.get(url, headers=self._headers(), timeout=limits) as response:
                response.raise_for_status()
                body = _object(await response.json())
            return _version(body), tuple(map(_object, body.get("items") or ()))

    async def _watch(
        self, session: aiohttp.ClientSession, url: str, version: str
    ) -> AsyncIterator[tuple[str, KubeChange | None]]:
        """Yield each later version with its change until the server ends the watch.

        Bookmarks yield a version without a change.
        """
        limits = aiohttp.ClientTimeout(connect=CONNECT_LIMIT, sock_read=WATCH + SLACK)
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH),
        }
        with _request_errors(url):
            async with session.get(
                url, params=query, headers=self._headers(), timeout=limits
            ) as response:
                response.raise_for_status()
                async for line in _lines(response.content):
                    yield _event(line)

    def _headers(self) -> dict[str, str]:
        # Read for every request: Kubernetes replaces the token before it expires.
        token = self._config.bearer(self._account)
        return {"Authorization": f"Bearer {token}"} if token else {}


@contextmanager
def _request_errors(url: str) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError) as exc:
        raise OrchestratorUnavailable(f"{url}: {str(exc) or type(exc).__name__}") from exc


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a body. Raises ValueError for one longer than `LARGEST`."""
    # `StreamReader.readline` has a limit of its own, which one large Endpoints object exceeds.
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in filter(None, lines):
            yield line
        if len(rest) > LARGEST:
            raise ValueError("an event is too large")


def _event(line: bytes) -> tuple[str, KubeChange | None]:
    """Return version and change of one line of a watch. Raises ValueError, also for ERROR."""
    event = _object(json.loads(line))
    changed, kind = _object(event.get("object")), event.get("type")
    if kind not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
        raise ValueError(f"{kind}: {changed.get('message')}")
    change = None if kind == "BOOKMARK" else KubeChange(changed, deleted=kind == "DELETED")
    return _version(changed), change


def _object(value: object) -> KubeObject:
    if not isinstance(value, dict):
        raise ValueError("not an object of Kubernetes")  # noqa: TRY004 - the server's answer is at fault
    return value


def _version(value: KubeObject) -> str:
    version = _object(value.get("metadata")).get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise ValueError("without a resource version")
    return version
