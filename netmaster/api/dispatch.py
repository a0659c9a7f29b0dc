"""The leader's role: finds the handler of a request in the table of routes and lets it answer.

Comes after `netmaster.api.http.server`; `netmaster.api.http.access` decides whether the client may
do what it asks for; next is `netmaster.api.route_table`, whose handlers
(`netmaster.api.v1.handlers`) decide and commit through `netmaster.commits.commit`.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from aiohttp import web

from core.errors import NotSupported, PreconditionFailed
from netmaster.api import costly
from netmaster.api.http import problems
from netmaster.api.http.queries import DRY_RUN
from netmaster.api.http.replies import may_change, moved, not_found, problem
from netmaster.api.http.routes import cleaned
from netmaster.api.http.server import ROUTE, read_body
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.api.route_table import ROUTE_FINDER

_PATH_SAFE: Final = "/$&+,:;=@"
_DRY_RUNS: Final = frozenset({"dryrun", "dry_run", "dry-run"})
_PRECONDITIONS: Final = ("If-Match", "If-None-Match", "If-Unmodified-Since")


class Leader:
    """Answers requests during one term of leadership."""

    def __init__(self, context: LeaderContext) -> None:
        self._context = context
        self._places = costly.places()

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
            return unrouted(path)
        control, route = self._context.access, found.route
        request[ROUTE] = route.pattern
        access = await control.admit(request, route.pattern, found.parameters) if control else None
        if may_change(request) and not problems.is_asked_by(path):
            _refuse_conditions(request.headers, query, route.operation.query)
        asked = ApiRequest(
            body=partial(read_body, request),
            content_type=request.headers.get("Content-Type", ""),
            parameters=found.parameters,
            access=access,
            query=query,
            method=request.method,
            path=path,
            address=request.remote or "",
            headers=request.headers,
            incoming=request,
        )
        kind = costly.COSTLY.get((request.method, route.pattern))
        if kind is None and may_change(request) and _is_dry_run(query):
            kind = costly.DRY_RUN
        if kind is None:
            return await route.handler(self._context, asked)
        with self._places[kind].taken(access.who if access else None, asked.address):
            return await route.handler(self._context, asked)


def unrouted(path: str) -> web.Response:
    """Return the answer to a path that is unknown, or has no such method."""
    if not problems.is_asked_by(path):
        return not_found()
    methods = ROUTE_FINDER.methods(path)
    if not methods:
        return problem(problems.NO_PATH, f"there is no path {path}")
    answer = problem(problems.NO_METHOD, f"{path} has the methods {', '.join(methods)}")
    answer.headers["Allow"] = ", ".join(methods)
    return answer


def _is_dry_run(query: str) -> bool:
    """Return whether a change may be a dry run; its handler reads the query again, and strictly."""
    return any(name == DRY_RUN for name, _ in parse_qsl(query, keep_blank_values=True))


def _refuse_conditions(headers: Mapping[str, str], query: str, supported: Collection[str]) -> None:
    """Refuse a change outside of API v2 that is to be made under a condition, or not at all.

    To ignore either would make a change that the client did not ask for.
    """
    for name, _ in parse_qsl(query, keep_blank_values=True):
        if name.lower() in _DRY_RUNS and name not in supported:
            raise NotSupported(f"the parameter {name} is not supported; nothing was changed")
    for name in _PRECONDITIONS:
        if name in headers:
            raise PreconditionFailed(f"the header {name} is not supported; nothing was changed")
