"""Which routes of the REST API have the same rights. Pure.

Classes are of patterns of routes ("/api/v1/networks/{key}/"), as in the table of routes, never of
a client's path: that is parsed once, by the router.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

TENANT_OBJECTS: Final = frozenset({
    "appProfiles",
    "endpointGroups",
    "extContractsGroups",
    "netprofiles",
    "networks",
    "policys",
    "rules",
    "serviceLBs",
})  # fmt: skip
"""Plural names of the objects that operators manage; their keys start with `<tenant>:`."""


class RouteClass(Enum):
    """Routes that have the same rights."""

    PUBLIC = auto()
    """What a client needs before it has an identity: login and version."""
    STATUS = auto()
    TENANTS = auto()
    TENANT_OBJECTS = auto()
    ENDPOINTS = auto()
    """Inspection of an endpoint; traces; who may talk to whom; lists of endpoints, of addresses
    and of changes; the overview."""
    CAPTURES = auto()
    """The packets of an endpoint."""
    CLUSTER_STATE = auto()
    """Inspection of the global settings."""
    CLUSTER_OBJECTS = auto()
    SERVICES = auto()
    """Providers of services, of all tenants."""
    HOSTS = auto()
    IPAM = auto()
    DEBUG = auto()
    METRICS = auto()
    """Numbers about the whole cluster, networks of all tenants among them."""
    ACCOUNTS = auto()
    ENDPOINT_CALLS = auto()
    ADDRESS_CALLS = auto()
    """Addresses and networks for docker: the request names no host."""


_ROUTES: Final = (
    ("/version", RouteClass.PUBLIC),
    ("/openapi.json", RouteClass.PUBLIC),
    ("/info", RouteClass.STATUS),
    ("/services", RouteClass.SERVICES),
    ("/service/*", RouteClass.SERVICES),
    ("/hosts", RouteClass.HOSTS),
    ("/hosts/*", RouteClass.HOSTS),
    ("/ipam/*", RouteClass.IPAM),
    ("/debug/*", RouteClass.DEBUG),
    ("/metrics", RouteClass.METRICS),
    ("/plugin/allocAddress", RouteClass.ADDRESS_CALLS),
    ("/plugin/releaseAddress", RouteClass.ADDRESS_CALLS),
    ("/plugin/allocNetwork", RouteClass.ADDRESS_CALLS),
    ("/plugin/freeNetwork", RouteClass.ADDRESS_CALLS),
    ("/plugin/*", RouteClass.ENDPOINT_CALLS),
    ("/api/v1/auth_proxy/login/", RouteClass.PUBLIC),
    ("/api/v1/auth_proxy/version/", RouteClass.PUBLIC),
    ("/api/v1/auth_proxy/health/", RouteClass.PUBLIC),
    ("/api/v1/auth_proxy/*", RouteClass.ACCOUNTS),
    ("/api/v1/inspect/endpoints/*", RouteClass.ENDPOINTS),
    ("/api/v2/endpoints", RouteClass.ENDPOINTS),
    ("/api/v2/endpoints/{key}/conditions", RouteClass.ENDPOINTS),
    ("/api/v2/ipam", RouteClass.ENDPOINTS),
    ("/api/v2/kept-addresses", RouteClass.ENDPOINTS),
    ("/api/v2/kept-addresses/{key}", RouteClass.TENANT_OBJECTS),
    ("/api/v2/events", RouteClass.ENDPOINTS),
    ("/api/v2/changes", RouteClass.ENDPOINTS),
    ("/api/v2/hosts", RouteClass.HOSTS),
    ("/api/v2/hosts/*", RouteClass.HOSTS),
    ("/api/v2/globals/{key}/state", RouteClass.CLUSTER_STATE),
    ("/api/v2/endpoints/{key}/capture", RouteClass.CAPTURES),
    ("/api/v2/selftest", RouteClass.HOSTS),
    ("/api/v2/diagnosis", RouteClass.DEBUG),
    ("/diagnosis", RouteClass.DEBUG),
    ("/api/v2/rule-hits", RouteClass.TENANT_OBJECTS),
    ("/api/v2/kubernetes-rules", RouteClass.HOSTS),
    ("/api/v2/policy-log", RouteClass.ENDPOINTS),
    ("/api/v2/flows", RouteClass.ENDPOINTS),
    ("/api/v2/flows/watch", RouteClass.ENDPOINTS),
    ("/api/v2/policy-suggestion", RouteClass.ENDPOINTS),
    ("/api/v2/trace", RouteClass.ENDPOINTS),
    ("/api/v2/reach", RouteClass.ENDPOINTS),
    ("/api/v2/overview", RouteClass.ENDPOINTS),
    ("/api/v2/whoami", RouteClass.STATUS),
    ("/api/v1/inspect/globals/*", RouteClass.CLUSTER_STATE),
)
"""The first that matches; `*` at the end matches anything. Objects come after these."""
_OBJECT_PREFIXES: Final = ("/api/v1/inspect/", "/api/v1/", "/api/v2/")


def classify(route: str) -> RouteClass | None:
    """Return the class of a route's pattern; None for one that no rule is about."""
    for pattern, route_class in _ROUTES:
        prefix = pattern.removesuffix("*")
        if route == pattern or (prefix != pattern and route.startswith(prefix)):
            return route_class
    for prefix in _OBJECT_PREFIXES:
        if route.startswith(prefix):
            return _class_of(route.removeprefix(prefix).partition("/")[0])
    return None


def tenant_of(route: str, parameters: Mapping[str, str]) -> str:
    """Return the tenant that a request is about, from the parameters in its path; "" for none."""
    match classify(route):
        case RouteClass.TENANTS:
            return parameters.get("key", "")
        case RouteClass.TENANT_OBJECTS:
            return parameters.get("key", "").partition(":")[0]
        case _:
            return parameters.get("tenant", "")


def _class_of(plural: str) -> RouteClass:
    if plural in TENANT_OBJECTS:
        return RouteClass.TENANT_OBJECTS
    return RouteClass.TENANTS if plural == "tenants" else RouteClass.CLUSTER_OBJECTS
