"""Answers `GET /api/v2/whoami`: who the client is to this cluster, so that it can show what it may.

What the client may is decided at each request all the same (`netmaster.auth.roles`).
"""

from typing import Final

from aiohttp import web

from contivmodel.schema import TEXT, named
from daemons.peers import Role
from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.context import ApiRequest, LeaderContext

PATH: Final = "/api/v2/whoami"
_ANSWER: Final = named(
    "Whoami",
    {
        "type": "object",
        "properties": {
            "name": {
                **TEXT,
                "description": "empty without TLS, where everybody is an administrator",
            },
            "role": {**TEXT, "enum": [str(role) for role in Role]},
            "tenants": {"type": "array", "items": TEXT, "description": "those of an operator"},
        },
        "required": ["name", "role", "tenants"],
    },
)
OPERATION: Final = OperationDoc(summary="the client itself", tag="login", answer=_ANSWER)


async def answer(_: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer the identity of the client."""
    parameters(request.query, ())
    who = request.access.who if request.access else None
    return json_reply(
        {
            "name": who.name if who else "",
            "role": str(who.role if who else Role.ADMIN),
            "tenants": sorted(who.tenants) if who else [],
        }
    )
