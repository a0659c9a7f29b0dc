"""Answers `/api/v2/kept-addresses`: lists what is kept for pods and machines, and releases it."""

from http import HTTPStatus
from typing import Final

from aiohttp import web

from core.errors import NotFound
from netmaster.api.http.problems import PREFIX
from netmaster.api.http.queries import parameters
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.api.v2 import queries
from netmaster.api.v2.handlers import page_reply
from netmaster.plan.endpoints import kept
from netmaster.plan.model import Plan
from netmaster.plan.show import kept_addresses
from netmaster.plan.show.kept_addresses import KeptAddress
from netmaster.view import View

PATH: Final = f"{PREFIX}kept-addresses"
ITEM: Final = f"{PATH}/{{key}}"
FILTERS: Final = ("tenantName", "networkName", "name", "host")


async def show(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a page of what is kept, in the tenants that the client may see."""
    wanted = queries.list_query(request.query, KeptAddress.__annotations__, FILTERS)
    tenants = request.access.tenants if request.access else None

    def page(view: View) -> queries.ListPage:
        held = kept_addresses.keys_of(view)
        keys = (
            key
            for key, (nid, _) in held.items()
            if tenants is None or view.networks[nid].tenant in tenants
        )
        return queries.page(keys, lambda key: kept_addresses.shown(view, held[key]), wanted)

    return page_reply(leader, await leader.committer.read(page))


async def release(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Release what is kept for a name that is away. Raises NotFound, Conflict while it is there."""
    parameters(request.query, ())
    key = request.parameters["key"]

    def decide(view: View) -> Plan:
        held = kept_addresses.keys_of(view).get(key)
        if held is None:
            raise NotFound(f"kept address {key} not found")
        return kept.release(view, *held)

    await leader.committer.submit(decide)
    return web.Response(status=HTTPStatus.NO_CONTENT)
