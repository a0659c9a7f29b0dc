"""Answers `GET /api/v2/whoami`: who the client is to this cluster, so that it can show what it may.

What the client may is decided at each request all the same (`netmaster.auth.roles`).
"""

from typing import Annotated, Final

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from daemons.certificates.peers import Role
from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext

PATH: Final = "/api/v2/whoami"


class Whoami(TypedDict):
    """The identity of the client."""

    name: Annotated[
        str, Field(description="empty without TLS, where everybody is an administrator")
    ]
    role: Role
    tenants: Annotated[list[str], Field(description="those of an operator")]


OPERATION: Final = OperationDoc(summary="the client itself", tag="login", answer=Whoami)


async def answer(_: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer the identity of the client."""
    parameters(request.query, ())
    who = request.access.who if request.access else None
    shown: Whoami = {
        "name": who.name if who else "",
        "role": who.role if who else Role.ADMIN,
        "tenants": sorted(who.tenants) if who else [],
    }
    return json_reply(shown)
