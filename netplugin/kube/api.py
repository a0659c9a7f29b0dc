"""Kubernetes' API server: what it holds of a resource, and every change from there on.

A resource is listed, then watched from the version that the list is of, so that nothing is missed
between the two or while a watch is made anew. After any failure, and when the server no longer
knows the version, it is listed again, later and later. Objects are handed on as the server says
them; `netplugin.world.kube_services` reads them.
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
"""Seconds after which the server is to end a watch; it is gone if it says nothing for longer."""

SLACK: Final = 30
LONGEST_PAUSE: Final = 30.0
LARGEST: Final = 16 * 1024 * 1024
"""Bytes of one change."""


@dataclass(frozen=True, slots=True)
class Listed:
    """All there is of a resource."""

    objects: tuple[KubeObject, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """One object as it is now, or as it last was if it is gone."""

    object: KubeObject
    gone: bool


class KubeApi:
    """The door to one API server; `account` is where a service account's token is."""

    def __init__(self, config: KubeConfig, account: Path = ACCOUNT) -> None:
        self._config = config
        self._account = account
        self._tls = config.tls()

    async def follow(self, resource: str) -> AsyncIterator[Listed | Told]:
        """Yield what there is of a resource of all namespaces, and what changes, for ever."""
        url = f"{self._config.server.rstrip('/')}/api/v1/{resource}"
        version, waits = "", backoff(limit=LONGEST_PAUSE)
        connector = aiohttp.TCPConnector(ssl=self._tls or True)
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                try:
                    if not version:
                        version, objects = await self._list(session, url)
                        yield Listed(objects)
                    async for reached, told in self._watch(session, url, version):
                        version, waits = reached, backoff(limit=LONGEST_PAUSE)
                        if told is not None:
                            yield told
                except OrchestratorUnavailable as exc:
                    version = ""
                    log.warning("kubernetes is not followed", extra=fields(error=exc))
                await asyncio.sleep(next(waits))

    async def _list(
        self, session: aiohttp.ClientSession, url: str
    ) -> tuple[str, tuple[KubeObject, ...]]:
        """Return the objects of a resource, and the version they are of."""
        with _asking(url):
            limits = aiohttp.ClientTimeout(LIST_LIMIT)
            async with session.get(url, headers=self._headers(), timeout=limits) as response:
                response.raise_for_status()
                said = _object(await response.json())
            return _version(said), tuple(map(_object, said.get("items") or ()))

    async def _watch(
        self, session: aiohttp.ClientSession, url: str, version: str
    ) -> AsyncIterator[tuple[str, Told | None]]:
        """Yield the versions that follow one, with what has changed, until the server ends it."""
        limits = aiohttp.ClientTimeout(connect=CONNECT_LIMIT, sock_read=WATCH + SLACK)
        asked = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH),
        }
        with _asking(url):
            async with session.get(
                url, params=asked, headers=self._headers(), timeout=limits
            ) as response:
                response.raise_for_status()
                async for line in _lines(response.content):
                    yield _event(line)

    def _headers(self) -> dict[str, str]:
        token = self._config.bearer(self._account)
        return {"Authorization": f"Bearer {token}"} if token else {}


@contextmanager
def _asking(url: str) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError) as exc:
        raise OrchestratorUnavailable(f"{url}: {str(exc) or type(exc).__name__}") from exc


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a body, which may be longer than aiohttp reads by itself."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in filter(None, lines):
            yield line
        if len(rest) > LARGEST:
            raise ValueError("a change is too large")


def _event(line: bytes) -> tuple[str, Told | None]:
    """Return what a line of a watch says. Raises ValueError, also for an error it tells of."""
    event = _object(json.loads(line))
    changed, kind = _object(event.get("object")), event.get("type")
    if kind not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
        raise ValueError(f"{kind}: {changed.get('message')}")
    told = None if kind == "BOOKMARK" else Told(changed, gone=kind == "DELETED")
    return _version(changed), told


def _object(value: object) -> KubeObject:
    if not isinstance(value, dict):
        raise ValueError("not an object of Kubernetes")  # noqa: TRY004 - of what was said
    return value


def _version(value: KubeObject) -> str:
    version = _object(value.get("metadata")).get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise ValueError("without a version")
    return version
