"""Access control of the REST API with TLS: who sent a request, and whether they may.

`netmaster.api.dispatch` asks for each request whose route is known; handlers ask again where the
object of a request is known only from its body or from the view (`Access`). The decisions are in
`netmaster.auth.roles`. Without TLS there are no identities and everything is allowed, as in the
original.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from aiohttp import web

from contivmodel.wire import dumps
from core.errors import Invalid
from daemons.certificates.peers import PeerIdentity, Role
from daemons.certificates.tls import peer_identity
from netmaster.auth import audit
from netmaster.auth.audit import RequestOrigin
from netmaster.auth.forwarding import FORWARDED_IDENTITY, client_of
from netmaster.auth.login import Logins
from netmaster.auth.roles import AccessRequest, Decision, Identity, access_request, allowed
from netmaster.auth.route_classes import RouteClass, classify
from netmaster.auth.users import USER_ROLES, identity_of_peer

TOKEN_HEADER: Final = "X-Auth-Token"  # noqa: S105 - the name of a header
_FORWARDED_FOR: Final = "X-Forwarded-For"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the client of one request may do: it was admitted to the route."""

    who: Identity | None
    origin: RequestOrigin
    asked: AccessRequest
    tenants: frozenset[str] | None = None
    """The tenants that a list or search is restricted to; None is no restriction."""

    def check(self, *, tenant: str | None = None, hosts: Iterable[str] = ()) -> None:
        """Check the tenant or hosts that a request turned out to be about.

        Raises AccessDenied.
        """
        named = [replace(self.asked, host=host) for host in hosts]
        if tenant is not None:
            named.append(replace(self.asked, tenant=tenant))
        for request in named:
            decision = allowed(self.who, request)
            if not decision.allowed:
                audit.request_decided(self.origin, self.who, decision)
                decision.enforce()

    def visible(self, line: bytes) -> bytes:
        """Return of a list of objects, a line of JSON, those that may be shown."""
        if self.tenants is None:
            return line
        decision = Decision(allowed=True, reason="", tenants=self.tenants)
        return dumps(decision.visible(json.loads(line))) + b"\n"


class AccessControl:
    """Identifies the clients of a REST API with TLS, and decides about their requests."""

    def __init__(self, logins: Logins) -> None:
        self.logins = logins

    async def admit(
        self, request: web.BaseRequest, route: str, parameters: Mapping[str, str]
    ) -> Access:
        """Return what the client of a request may do, by the pattern of its route.

        Raises NotAuthenticated, AccessDenied or StoreUnavailable.
        """
        peer = _peer(request)
        origin = RequestOrigin(
            address=_address(request, peer), method=request.method, path=request.raw_path
        )
        asked = access_request(request.method, route, parameters)
        who = None if classify(route) is RouteClass.PUBLIC else await self._identity(request, peer)
        decision = allowed(who, _for_its_own(asked, who))
        audit.request_decided(origin, who, decision)
        decision.enforce()
        return Access(who=who, origin=origin, asked=asked, tenants=decision.tenants)

    async def log_in(self, body: bytes, origin: RequestOrigin) -> str:
        """Return a token for the name and password in a body. Raises as `Logins.log_in`."""
        match _json(body):
            case {"username": str(name), "password": str(password)}:
                return await self.logins.log_in(name, password, origin)
            case _:
                raise Invalid('want {"username": "...", "password": "..."}')

    async def _identity(
        self, request: web.BaseRequest, peer: PeerIdentity | None
    ) -> Identity | None:
        client = client_of(peer, request.headers.get(FORWARDED_IDENTITY))
        if client is not None:
            # Daemons have no records: a read of the store for each ADD would be for nothing.
            is_user = client.role in USER_ROLES
            user = await self.logins.accounts.user(client.name) if is_user else None
            return identity_of_peer(client, user)
        token = request.headers.get(TOKEN_HEADER)
        return await self.logins.identity(token) if token else None


def _for_its_own(asked: AccessRequest, who: Identity | None) -> AccessRequest:
    """Return a request whose host or tenant is known later as one about the client's own.

    What is denied about those is denied about all others, before the body is read.
    """
    if who is None:
        return asked
    match classify(asked.route):
        case RouteClass.ENDPOINT_CALLS:
            return replace(asked, host=who.name)
        case RouteClass.TENANT_OBJECTS if asked.method == "POST" and not asked.tenant:
            return replace(asked, tenant=min(who.tenants, default=""))
        case _:
            return asked


def _peer(request: web.BaseRequest) -> PeerIdentity | None:
    transport = request.transport
    return None if transport is None else peer_identity(transport.get_extra_info("ssl_object"))


def _address(request: web.BaseRequest, peer: PeerIdentity | None) -> str:
    """Return the address of a client; a master names that of the client it forwards."""
    if peer is not None and peer.role is Role.MASTER:
        # The last one is what the master saw; those before it are the client's words.
        named = request.headers.get(_FORWARDED_FOR, "").rpartition(",")[2].strip()
        if named:
            return named
    return request.remote or ""


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
