"""The leader's role: find out what is asked, have it decided and committed, answer.

Comes after `netmaster.api.server`; `routes` finds the target, `objects` and `endpoints` turn
bodies into decisions and looks at the view, `netmaster.commit` makes decisions true and lets
nobody look once we may have been deposed.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

from aiohttp import web

from contivmodel.client import REVISIONS_HEADER
from contivmodel.service_objects import Bgp
from core.ids import HostLabel
from core.version import VERSION
from netmaster.api import endpoints, objects, openapi
from netmaster.api.agents import RegisteredAgents
from netmaster.api.endpoints import NewCall
from netmaster.api.objects import ObjectClass
from netmaster.api.replies import (
    bare_json,
    json_body,
    json_line,
    json_reply,
    moved,
    not_found,
    plain,
)
from netmaster.api.routes import RouteAction, Target, cleaned, find
from netmaster.api.server import read_body
from netmaster.cleanup import Cleanups
from netmaster.commit import Committer
from netmaster.plan.model import Plan
from netmaster.plan.show import ofnet_endpoints, ofnet_rules, service_states
from netmaster.progress import policy_marks
from netmaster.view import View

_PATH_SAFE: Final = "/$&+,:;=@"
_LOOKS: Final[Mapping[RouteAction, Callable[[View, str], object]]] = {
    RouteAction.SERVICES: lambda view, _: service_states.all_services(view),
    RouteAction.SERVICE: service_states.one_service,
}
"""What is shown of the view beside objects, of the object with a key where it is of one."""


class Leader:
    """Answers from a committer's view.

    `change` makes changes to objects; `now` is the wall clock; `agents` asks hosts, `cleanups`
    removes endpoints; `pages` has what else can be looked at, by action, `upkeep` what is known of
    hosts and addresses and can be done to them.
    """

    def __init__(
        self,
        committer: Committer,
        change: Callable[[Callable[[View], Plan]], Awaitable[object]],
        *,
        mode: str,
        now: Callable[[], float],
        agents: RegisteredAgents,
        cleanups: Cleanups,
        pages: Mapping[RouteAction, Callable[[], Awaitable[Mapping[str, object]]]],
        upkeep: Mapping[RouteAction, Callable[[Target], Awaitable[object]]],
    ) -> None:
        self._committer = committer
        self._change = change
        self._mode = mode
        self._now = now
        self._agents = agents
        self._cleanups = cleanups
        self._pages = pages
        self._upkeep = upkeep

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the answer to any request."""
        path, query_mark, query = request.raw_path.partition("?")
        if "%" in path:
            path = unquote(path)
        if "//" in path or "/." in path:
            clean = cleaned(path)
            if clean != path:
                return moved(quote(clean, safe=_PATH_SAFE) + query_mark + query)
        target = find(request.method, path)
        if target is None:
            return not_found()
        if target.action in endpoints.CALLS:
            return await self._call(endpoints.CALLS[target.action], request)
        if target.plural:
            return await self._object(target, request)
        return await self._page(target)

    async def _page(self, target: Target) -> web.Response:
        if target.action is RouteAction.OPENAPI:
            return json_reply(openapi.document(VERSION))
        if target.action is RouteAction.CLEAN_UP:
            return plain(await self._cleanups.perform(target.tenant, target.category, target.key))
        if target.action in self._upkeep:
            return json_reply(await self._upkeep[target.action](target))
        if target.action in _LOOKS:
            look = _LOOKS[target.action]
            return bare_json(await self._committer.read(lambda view: look(view, target.key)))
        page = await self._pages[target.action]()
        if target.action is RouteAction.OFNET:
            vteps = await self._agents.vteps()
            shown = await self._committer.read(partial(_ofnet, vteps=vteps))
            page = {**page, **shown}
        await self._committer.read(_nothing)  # a leader that is deposed says nothing, not even that
        return bare_json(page)

    async def _call(self, new_call: NewCall, request: web.BaseRequest) -> web.Response:
        if not endpoints.is_json(request.headers.get("Content-Type", "")):
            return not_found()
        body = await read_body(request)
        call = new_call(body, endpoints.CallContext(self._now(), self._mode))
        answer = json_body(call.answer(await self._committer.submit(call.decide)))
        if call.tells_revisions:
            answer.headers[REVISIONS_HEADER] = json.dumps(policy_marks(self._committer.marks))
        return answer

    async def _object(self, target: Target, request: web.BaseRequest) -> web.Response:
        action, plural, key = target.action, target.plural, target.key
        if (action, plural) == (RouteAction.INSPECT, objects.ENDPOINTS):
            look = partial(objects.inspected_endpoint, name=key)
            return json_reply(await self._committer.read(look))
        kind = objects.KINDS.get(plural)
        if kind is None:
            return not_found()
        if action is RouteAction.WRITE:
            decide = objects.write(kind, key, await read_body(request))
            return json_reply(await self._change(decide))
        if action is RouteAction.DELETE:
            delete = kind.deletion(self._mode)
            return json_reply(await self._change(lambda view: delete(view, key)))
        if action is RouteAction.LIST:
            return json_line(await self._committer.read(partial(objects.listed, kind=kind)))
        shown = await self._committer.read(self._look(kind, target))
        if action is RouteAction.INSPECT and kind.model is Bgp:
            shown = {**shown, "Oper": objects.without_empty(await self._agents.bgp(key))}
        return json_reply(shown)

    def _look(self, kind: ObjectClass, target: Target) -> Callable[[View], Any]:
        if target.action is RouteAction.READ:
            return partial(objects.stored, kind=kind, key=target.key)
        return partial(objects.inspected, kind=kind, key=target.key, mode=self._mode)


def _nothing(_: View) -> None:
    """See nothing, while we lead."""


def _ofnet(view: View, vteps: Mapping[HostLabel, str]) -> dict[str, object]:
    return {
        "EndpointDb": ofnet_endpoints.endpoint_db(view, vteps),
        "PolicyDb": ofnet_rules.policy_db(view),
    }
