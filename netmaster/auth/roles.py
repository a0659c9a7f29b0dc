"""The rights of each role at netmaster's REST API: one table, and the decision from it. Pure.

A request is described by its method, the pattern of its route, and the tenant or host it is about.
What the table does not name is denied. Operators have the rights that the original's
authenticating proxy gave its role `ops`: the objects of their tenants.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final

from core.errors import ContivError
from daemons.certificates.peers import Role
from netmaster.auth.route_classes import RouteClass, classify, tenant_of


class NotAuthenticated(ContivError):
    """A request has no valid certificate and no valid token; log in and send it again."""

    http_status = HTTPStatus.UNAUTHORIZED


class AccessDenied(ContivError):
    """The identity of a request has no right to it; sending it again does not help."""

    http_status = HTTPStatus.FORBIDDEN


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated client. `tenants` are those of an operator, and empty for other roles."""

    role: Role
    name: str
    tenants: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.role}/{self.name}"


class Right(Enum):
    """What a role may do with the routes of a class."""

    ALL = auto()
    OWN_TENANTS = auto()
    OWN_HOST = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """What is decided about.

    `route` is the pattern of the route ("/api/v1/networks/{key}/"), so that the path is parsed in
    one place only. `tenant` is that of the object, "" for a list and where there is none. `host`
    is the label of the host that a `/plugin/` call is about: that of the new endpoint, or the one
    on which the named endpoint is; "" if no such endpoint exists.
    """

    method: str
    route: str
    tenant: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed, and why, in words for the audit log.

    `tenants` restricts an allowed list or search to the objects of these tenants; None is no
    restriction.
    """

    allowed: bool
    reason: str
    authenticated: bool = True
    tenants: frozenset[str] | None = None

    def enforce(self) -> None:
        """Raise AccessDenied or NotAuthenticated unless the request is allowed."""
        if self.allowed:
            return
        if not self.authenticated:
            raise NotAuthenticated("Not logged in")
        raise AccessDenied("Insufficient privileges")  # the original's text

    def visible(self, objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the objects of a list, in their REST form, that may be shown."""
        if self.tenants is None:
            return list(objects)
        return [item for item in objects if item.get("tenantName") in self.tenants]


_Rights = Mapping[Role, tuple[Right, Right]]
"""By role: (reading, changing). A role that is absent has neither."""

_FULL: Final = (Right.ALL, Right.ALL)
_READ: Final = (Right.ALL, Right.NONE)
_MANAGED: Final[_Rights] = {Role.ADMIN: _FULL, Role.READER: _READ}

RIGHTS: Final[Mapping[RouteClass, _Rights]] = {
    RouteClass.STATUS: dict.fromkeys(Role, _READ),
    RouteClass.TENANTS: {**_MANAGED, Role.OPERATOR: (Right.OWN_TENANTS, Right.NONE)},
    RouteClass.TENANT_OBJECTS: {
        **_MANAGED,
        Role.OPERATOR: (Right.OWN_TENANTS, Right.OWN_TENANTS),
    },
    RouteClass.ENDPOINTS: {**_MANAGED, Role.OPERATOR: (Right.OWN_TENANTS, Right.NONE)},
    # Contents of packets are more than state: readers may not see them.
    RouteClass.CAPTURES: {
        Role.ADMIN: _READ,
        Role.OPERATOR: (Right.OWN_TENANTS, Right.NONE),
    },
    RouteClass.CLUSTER_STATE: {**_MANAGED, Role.OPERATOR: _READ},
    RouteClass.CLUSTER_OBJECTS: _MANAGED,
    RouteClass.SERVICES: _MANAGED,
    RouteClass.HOSTS: _MANAGED,
    RouteClass.IPAM: _MANAGED,
    RouteClass.DEBUG: _MANAGED,
    RouteClass.METRICS: _MANAGED,
    RouteClass.ACCOUNTS: {Role.ADMIN: _FULL},
    # An administrator changes intents; only the agent of a host knows which endpoints it has.
    RouteClass.ENDPOINT_CALLS: {
        Role.AGENT: (Right.NONE, Right.OWN_HOST),
        Role.MASTER: (Right.NONE, Right.ALL),
    },
    RouteClass.ADDRESS_CALLS: {
        Role.AGENT: (Right.NONE, Right.ALL),
        Role.MASTER: (Right.NONE, Right.ALL),
    },
}
"""All rights but those to `RouteClass.PUBLIC`."""


def access_request(
    method: str,
    route: str,
    parameters: Mapping[str, str],
    *,
    host: str = "",
) -> AccessRequest:
    """Return the description of a request from its route and the parameters in its path.

    The tenant of an object is in its key.
    """
    tenant = tenant_of(route, parameters)
    return AccessRequest(method=method, route=route, tenant=tenant, host=host)


def allowed(identity: Identity | None, request: AccessRequest) -> Decision:
    """Return the decision about a request; an identity of None is a client without one."""
    route_class = classify(request.route)
    if route_class is RouteClass.PUBLIC:
        return Decision(allowed=True, reason="public")
    if identity is None:
        return Decision(allowed=False, reason="no certificate and no token", authenticated=False)
    if route_class is None:
        return Decision(allowed=False, reason="no rule for this route")
    rights = RIGHTS[route_class].get(identity.role, (Right.NONE, Right.NONE))
    right = rights[0] if request.method == "GET" else rights[1]
    return _decide(right, identity, request)


def _decide(right: Right, identity: Identity, request: AccessRequest) -> Decision:
    match right:
        case Right.ALL:
            return Decision(allowed=True, reason=f"role {identity.role}")
        case Right.OWN_TENANTS:
            return _of_own_tenants(identity, request)
        case Right.OWN_HOST:
            own = bool(request.host) and request.host == identity.name
            named = request.host or "unknown"
            return Decision(allowed=own, reason="own host" if own else f"other host: {named}")
        case Right.NONE:
            return Decision(allowed=False, reason=f"role {identity.role} has no right to it")


def _of_own_tenants(identity: Identity, request: AccessRequest) -> Decision:
    if request.tenant in identity.tenants and request.tenant:
        return Decision(allowed=True, reason="own tenant")
    if is_list(request) or _is_search(request):
        return Decision(allowed=True, reason="list of own tenants", tenants=identity.tenants)
    return Decision(allowed=False, reason=f"other tenant: {request.tenant or 'unknown'}")


def _is_search(request: AccessRequest) -> bool:
    """Return whether an endpoint is looked for by a name, of which it may be a part.

    It is looked for among those that the client may see: a refusal would tell that it is there.
    """
    searched = classify(request.route) in {RouteClass.ENDPOINTS, RouteClass.CAPTURES}
    return searched and not request.tenant


def is_list(request: AccessRequest) -> bool:
    """Return whether the answer is a list, which is filtered rather than refused."""
    return request.method == "GET" and "{" not in request.route and not request.tenant
