"""The plugin socket: HTTP on a unix socket of this host, which docker finds in its plugin folder.

In come libnetwork's calls, each from a process of root; out goes what the drivers answer. The
socket is opened first of all, before the store is known: an engine that starts at the same time
gives a driver up that does not answer its handshake. What shows no state is answered at once, all
other calls when the agent is ready. This module knows HTTP and nothing of endpoints.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web

from core.errors import ContivError
from core.logs import fields
from core.net.connections import ConnectionLimits
from core.tasks import guard
from netplugin.libnetwork.calls import GLOBAL_SPACE, LOCAL_SPACE, BadBody
from netplugin.plugin_socket import BODY_TIME, LIMITS, PluginSocket, is_allowed

log = logging.getLogger(__name__)

Handler = Callable[[bytes], Awaitable[Mapping[str, object]]]

WHAT: Final = "docker plugin"
MAX_BODY: Final = 1024 * 1024
READY_WAIT: Final = 25.0
"""Seconds for which a call waits until the agent is ready; an engine waits longer."""
TYPE: Final = "application/vnd.docker.plugins.v1.2+json"


class PluginServer:
    """Answers the engine. `scope` is what docker is told of this driver's networks."""

    # A connection is closed after each answer: the engine keeps idle ones, and would write the next
    # request into one that a restarted agent has closed. It repeats such a request without body.

    def __init__(self, scope: str, *, ready_wait: float = READY_WAIT) -> None:
        self._ready_wait = ready_wait
        self._handlers: Mapping[str, Handler] = {}
        self._ready = asyncio.Event()
        self._shown: dict[str, dict[str, object]] = {
            "Plugin.Activate": {"Implements": ["NetworkDriver", "IpamDriver"]},
            "Plugin.Deactivate": {},
            "NetworkDriver.GetCapabilities": {"Scope": scope},
            "NetworkDriver.DiscoverNew": {},
            "NetworkDriver.DiscoverDelete": {},
            "IpamDriver.GetCapabilities": {
                "RequiresMACAddress": False,
                "RequiresRequestReplay": False,
            },
            "IpamDriver.GetDefaultAddressSpaces": {
                "LocalDefaultAddressSpace": LOCAL_SPACE,
                "GlobalDefaultAddressSpace": GLOBAL_SPACE,
            },
        }

    def serve_calls(self, handlers: Mapping[str, Handler]) -> None:
        """Have the calls answered that need an agent which is ready, by their names."""
        self._handlers = handlers
        self._ready.set()

    @asynccontextmanager
    async def listening(
        self, path: Path, limits: ConnectionLimits = LIMITS, body_time: float = BODY_TIME
    ) -> AsyncIterator[None]:
        """Answer calls on the socket at `path` for the length of the body.

        Raises Invalid for a path that is too long, HostError when the socket cannot be created.
        """
        plugins = PluginSocket(WHAT, limits, body_time)

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            response = await self._answer(request, plugins)
            response.force_close()
            return response

        async with plugins.listening(path, answer):
            yield

    async def _answer(self, request: web.BaseRequest, plugins: PluginSocket) -> web.StreamResponse:
        if not is_allowed(request):
            return _failure("access denied", HTTPStatus.FORBIDDEN)
        name = request.path.removeprefix("/")
        if request.method != "POST" or not self._is_call(name):
            return _failure(f"no such call: {request.method} {name[:128]}", HTTPStatus.NOT_FOUND)
        try:
            body = await plugins.read(request, MAX_BODY)
        except TimeoutError:
            return _failure("request not received in time", HTTPStatus.REQUEST_TIMEOUT)
        except web.HTTPRequestEntityTooLarge:
            large = f"{name}: request is larger than {MAX_BODY} bytes"
            return _failure(large, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return await guard(lambda: self._call(name, body), lambda exc: _crash(exc, name))

    def _is_call(self, name: str) -> bool:
        # Before the agent is ready no call is known; the prefix says enough until then.
        if name in self._shown or name in self._handlers:
            return True
        return not self._ready.is_set() and name.startswith(("NetworkDriver.", "IpamDriver."))

    async def _call(self, name: str, body: bytes) -> web.Response:
        if (shown := self._shown.get(name)) is not None:
            return _json({**shown, "Err": ""}, HTTPStatus.OK)
        try:
            async with asyncio.timeout(self._ready_wait):
                await self._ready.wait()
        except TimeoutError:
            log.warning("docker call refused, the agent is starting", extra=fields(method=name))
            starting = "netplugin is starting: it waits for its store, netmaster or Open vSwitch"
            return _failure(f"{starting}, see its log", HTTPStatus.SERVICE_UNAVAILABLE)
        handler = self._handlers.get(name)
        if handler is None:
            return _failure(f"no such call: {name[:128]}", HTTPStatus.NOT_FOUND)
        try:
            reply = await handler(body)
        except ContivError as exc:
            log.warning("docker call failed", extra=fields(method=name, error=exc))
            bad = isinstance(exc, BadBody)
            return _failure(
                str(exc), HTTPStatus.BAD_REQUEST if bad else HTTPStatus.INTERNAL_SERVER_ERROR
            )
        error = "Error" if name.startswith("IpamDriver.") else "Err"
        return _json({error: "", **reply}, HTTPStatus.OK)


def _crash(exc: BaseException, name: str) -> web.Response:
    log.error("docker call crashed", exc_info=exc, extra=fields(method=name))
    return _failure(
        "unexpected failure in netplugin, see its log", HTTPStatus.INTERNAL_SERVER_ERROR
    )


def _failure(text: str, status: HTTPStatus) -> web.Response:
    """Return an error by both of its names, that of the network driver and that of IPAM."""
    return _json({"Err": text, "Error": text}, status)


def _json(reply: Mapping[str, object], status: HTTPStatus) -> web.Response:
    return web.Response(body=json.dumps(reply).encode(), status=status, content_type=TYPE)
