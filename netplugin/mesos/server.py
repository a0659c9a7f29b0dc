"""The socket for `netcontiv`: two calls, ADD and DEL, of processes of root.

In come HTTP requests; they are read by `netplugin.mesos.messages`, carried out by the same handler
as those of CNI, and answered: 200 with the result (nothing for a DEL), 500 with an error, 503 for
any other path. Knows nothing of pods.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web

from core.errors import ContivError
from core.logs import fields
from core.tasks import guard
from netplugin.cni.request import PodRequest, Verb
from netplugin.cni.results import PodResult
from netplugin.cni.server import PodInterfaces
from netplugin.mesos import messages
from netplugin.mesos.namespace_links import NamespaceLinks
from netplugin.plugin_socket import PluginSocket, is_allowed

log = logging.getLogger(__name__)

SOCKET: Final = "contiv-mesos.sock"
"""The socket's name in the agent's run directory."""
MAX_BODY: Final = 64 * 1024
PATHS: Final = {"/MesosNwIntfAdd": Verb.ADD, "/MesosNwIntfDel": Verb.DEL}


@asynccontextmanager
async def serve(
    path: Path, handler: PodInterfaces, links: NamespaceLinks | None = None
) -> AsyncIterator[None]:
    """Answer calls on the socket at `path` for the length of the body.

    Raises Invalid for a path that is too long, HostError when the socket cannot be created.
    """
    plugins = PluginSocket("Mesos")
    endpoint = _Endpoint(handler, plugins, links or NamespaceLinks())
    async with plugins.listening(path, endpoint.answer):
        yield


class _Endpoint:
    """One HTTP request to one reply."""

    def __init__(
        self, handler: PodInterfaces, plugins: PluginSocket, links: NamespaceLinks
    ) -> None:
        self._handler = handler
        self._plugins = plugins
        self._links = links

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the reply to any request."""
        if not is_allowed(request):
            return web.Response(status=HTTPStatus.FORBIDDEN)
        verb = PATHS.get(request.path)
        if (
            verb is None
            or request.method != "POST"
            or request.headers.get("Content-Type") != "application/json"
        ):
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        try:
            body = await self._plugins.read(request, MAX_BODY)
        except TimeoutError:
            return _failure("request not received in time")
        except web.HTTPRequestEntityTooLarge:
            return _failure(f"request is larger than {MAX_BODY} bytes")
        return await guard(lambda: self._call(body, verb), _crash)

    async def _call(self, body: bytes, verb: Verb) -> web.Response:
        try:
            call = messages.read_request(body, verb)
            if verb is Verb.ADD:
                return web.json_response(messages.added(await self._add(call)))
            await self._handler.delete(call)
            self._links.remove(call.spec.container_id)
        except ContivError as exc:
            log.warning("Mesos call failed", extra=fields(method=verb, error=exc))
            return _failure(str(exc))
        return web.Response(content_type="application/json")

    async def _add(self, call: PodRequest) -> PodResult:
        result = await self._handler.add(call)
        self._links.put(call.spec.container_id, call.spec.netns)
        return result


def _crash(exc: BaseException) -> web.Response:
    log.error("Mesos call crashed", exc_info=exc)
    return _failure("unexpected failure in netplugin, see its log")


def _failure(said: str) -> web.Response:
    return web.json_response(messages.failed(said), status=HTTPStatus.INTERNAL_SERVER_ERROR)
