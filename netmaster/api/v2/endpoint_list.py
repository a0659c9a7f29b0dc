"""Answers `GET /api/v2/endpoints`: endpoints by tenant, network, group, host, name, label, address.

`netmaster.plan.show.endpoint_pages` reads the query and finds the endpoints; this module knows who
asks. Of the endpoints of other tenants an operator learns nothing, not even that there are any.
"""

from dataclasses import replace
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from aiohttp import web

from core.errors import Malformed
from netmaster.api.http.replies import json_reply
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.plan.show import endpoint_pages

MOST_PARAMETERS: Final = 64

QUERY: Final = {
    "tenant": "of this tenant",
    "network": "on the networks of this name",
    "group": "in the groups of this name",
    "host": "on the host with this label",
    "container": "of the container with this id",
    "name": "with this in the name of its container or in `namespace/pod`, in any case",
    "label": "with this label: `key` or `key=value`; may be repeated, all must be there",
    "address": "with an address in this prefix, or this address",
    "sort": f"by this: {', '.join(endpoint_pages.SORTS)}; with `-` before it downwards; by the key "
    "by default",
    "limit": f"how many at most, 1 to {endpoint_pages.MOST}; {endpoint_pages.LIMIT} by default",
    "after": "`next` of the page before",
}
"""Query parameter -> the endpoints that it asks for."""


async def list_endpoints(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a page of the endpoints that the client may see. Raises Malformed for a bad query."""
    try:
        asked = parse_qs(
            request.query,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
    except ValueError as exc:
        raise Malformed(f"the query cannot be read: {exc}") from exc
    wanted = endpoint_pages.query(asked)
    if request.access:
        wanted = replace(wanted, tenants=request.access.tenants)
    found = await leader.committer.read(partial(endpoint_pages.page, wanted=wanted))
    return json_reply(found)
