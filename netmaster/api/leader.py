"""The leader's role: finds the handler of a request in the table of routes and lets it answer.

Comes after `netmaster.api.server`; `netmaster.api.access` decides whether the client may do what it
asks for; next is `netmaster.api.route_table`, whose handlers
(`netmaster.api.handlers`) decide and commit through `netmaster.commit`.
"""

from functools import partial
from typing import Final
from urllib.parse import quote, unquote

from aiohttp import web

from netmaster.api.context import ApiRequest, LeaderContext
from netmaster.api.replies import moved, not_found
from netmaster.api.route_table import ROUTE_FINDER
from netmaster.api.routes import cleaned
from netmaster.api.server import read_body

_PATH_SAFE: Final = "/$&+,:;=@"


class Leader:
    """Answers requests during one term of leadership."""

    def __init__(self, context: LeaderContext) -> None:
        self._context = context

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the answer to any request."""
        path, query_mark, query = request.raw_path.partition("?")
        if "%" in path:
            path = unquote(path)
        if "//" in path or "/." in path:
            clean = cleaned(path)
            if clean != path:
                return moved(quote(clean, safe=_PATH_SAFE) + query_mark + query)
        found = ROUTE_FINDER.find(request.method, path)
        if found is None:
            return not_found()
        control, route = self._context.access, found.route
        access = await control.admit(request, route.pattern, found.parameters) if control else None
        asked = ApiRequest(
            body=partial(read_body, request),
            content_type=request.headers.get("Content-Type", ""),
            parameters=found.parameters,
            access=access,
        )
        return await route.handler(self._context, asked)
