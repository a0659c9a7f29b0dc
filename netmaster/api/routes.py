"""Which request means what: method and path in, a target out. Pure.

Paths, the mandatory trailing slash and the missing 405 are the original's
(docs/original/netmaster-rest.md §1): whatever is not here is 404.
"""

import posixpath
from enum import Enum, auto
from typing import Final, NamedTuple

API: Final = "/api/v1/"


class RouteAction(Enum):
    """What a request asks for."""

    LIST = auto()
    READ = auto()
    WRITE = auto()
    DELETE = auto()
    INSPECT = auto()
    ALLOCATE_ADDRESS = auto()
    RELEASE_ADDRESS = auto()
    CREATE_ENDPOINT = auto()
    UPDATE_ENDPOINT = auto()
    DELETE_ENDPOINT = auto()
    VERSION = auto()
    INFO = auto()
    OFNET = auto()
    SERVICES = auto()
    SERVICE = auto()
    CLEAN_UP = auto()
    OPENAPI = auto()
    HOSTS = auto()
    HOST = auto()
    DRAIN = auto()
    DRAINED = auto()
    UNDRAIN = auto()
    REMOVE_HOST = auto()
    IPAM_CHECK = auto()
    IPAM_FIX = auto()


class Target(NamedTuple):
    """What is asked for, and of which objects; of a clean-up, the tenant, category and id.

    `force` says that what speaks against it is to be passed over.
    """

    action: RouteAction
    plural: str = ""
    key: str = ""
    tenant: str = ""
    category: str = ""
    force: bool = False


EXACT: Final = {
    ("POST", "/plugin/allocAddress"): Target(RouteAction.ALLOCATE_ADDRESS),
    ("POST", "/plugin/releaseAddress"): Target(RouteAction.RELEASE_ADDRESS),
    ("POST", "/plugin/createEndpoint"): Target(RouteAction.CREATE_ENDPOINT),
    ("POST", "/plugin/updateEndpoint"): Target(RouteAction.UPDATE_ENDPOINT),
    ("POST", "/plugin/deleteEndpoint"): Target(RouteAction.DELETE_ENDPOINT),
    ("GET", "/version"): Target(RouteAction.VERSION),
    ("GET", "/info"): Target(RouteAction.INFO),
    ("GET", "/debug/ofnet"): Target(RouteAction.OFNET),
    ("GET", "/services"): Target(RouteAction.SERVICES),
    ("GET", "/openapi.json"): Target(RouteAction.OPENAPI),
    ("GET", "/hosts"): Target(RouteAction.HOSTS),
    ("GET", "/ipam/check"): Target(RouteAction.IPAM_CHECK),
    ("POST", "/ipam/fix"): Target(RouteAction.IPAM_FIX),
}
_HOST: Final = {"GET": RouteAction.HOST, "DELETE": RouteAction.REMOVE_HOST}
_DRAIN: Final = {
    "GET": RouteAction.DRAINED,
    "POST": RouteAction.DRAIN,
    "DELETE": RouteAction.UNDRAIN,
}
_ITEM: Final = {
    "GET": RouteAction.READ,
    "POST": RouteAction.WRITE,
    "PUT": RouteAction.WRITE,
    "DELETE": RouteAction.DELETE,
}


def find(method: str, path: str) -> Target | None:
    """Return what a request is for; None if nothing answers to it. The path is percent-decoded."""
    exact = EXACT.get((method, path))
    if exact is not None:
        return exact
    if not path.startswith(API):
        return _other(method, path)
    match path.removeprefix(API).split("/"):
        case [plural, ""] if method == "GET" and plural:
            return Target(RouteAction.LIST, plural)
        case [plural, key, ""] if method in _ITEM and plural and key and plural != "inspect":
            return Target(_ITEM[method], plural, key)
        case ["inspect", plural, key, ""] if method == "GET" and plural and key:
            return Target(RouteAction.INSPECT, plural, key)
    return None


def _other(method: str, path: str) -> Target | None:
    match path.split("/"):
        case ["", "service", key] if method == "GET" and key:
            return Target(RouteAction.SERVICE, key=key)
        case ["", "debug", "epcleanup", "tenant", tenant, category, key] if (
            method == "DELETE" and tenant and category and key
        ):
            return Target(RouteAction.CLEAN_UP, key=key, tenant=tenant, category=category)
        case ["", "hosts", label, "drain"] if method in _DRAIN and label:
            return Target(_DRAIN[method], key=label)
        case ["", "hosts", label] if method in _HOST and label:
            return Target(_HOST[method], key=label)
        case ["", "hosts", label, "force"] if method == "DELETE" and label:
            return Target(RouteAction.REMOVE_HOST, key=label, force=True)
    return None


def cleaned(path: str) -> str:
    """Return the path without empty, `.` and `..` segments, as Go's mux redirects to it."""
    clean = posixpath.normpath("/" + path.lstrip("/"))
    return clean + "/" if path.endswith("/") and clean != "/" else clean
