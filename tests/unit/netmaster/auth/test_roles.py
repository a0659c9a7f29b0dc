"""The table of rights, written out: a change of a right is a change of this table."""

from collections.abc import Mapping

import pytest

from daemons.certificates.peers import Role
from netmaster.api.v1.objects import OBJECT_CLASSES
from netmaster.auth.roles import (
    RIGHTS,
    AccessDenied,
    Decision,
    Identity,
    NotAuthenticated,
    access_request,
    allowed,
)
from netmaster.auth.route_classes import TENANT_OBJECTS, RouteClass, classify

WHO: Mapping[str, Identity | None] = {
    "master": Identity(Role.MASTER, "m1"),
    "agent": Identity(Role.AGENT, "h1"),
    "admin": Identity(Role.ADMIN, "root"),
    "operator": Identity(Role.OPERATOR, "joe", frozenset({"blue", "green"})),
    "reader": Identity(Role.READER, "eve"),
    "anonymous": None,
}
ITEM = "/api/v1/networks/{key}/"
TABLE = [
    # method, route, parameters, host, who is allowed
    ("GET", "/version", {}, "", "master agent admin operator reader anonymous"),
    ("GET", "/openapi.json", {}, "", "master agent admin operator reader anonymous"),
    ("POST", "/api/v1/auth_proxy/login/", {}, "", "master agent admin operator reader anonymous"),
    ("GET", "/info", {}, "", "master agent admin operator reader"),
    ("GET", "/api/v1/networks/", {}, "", "admin operator reader"),
    ("GET", ITEM, {"key": "blue:n1"}, "", "admin operator reader"),
    ("POST", ITEM, {"key": "blue:n1"}, "", "admin operator"),
    ("PUT", ITEM, {"key": "blue:n1"}, "", "admin operator"),
    ("DELETE", ITEM, {"key": "green:n1"}, "", "admin operator"),
    ("GET", ITEM, {"key": "red:n1"}, "", "admin reader"),
    ("POST", ITEM, {"key": "red:n1"}, "", "admin"),
    ("DELETE", ITEM, {"key": "red:n1"}, "", "admin"),
    ("DELETE", ITEM, {"key": ""}, "", "admin"),
    ("DELETE", ITEM, {"key": ":blue"}, "", "admin"),
    ("DELETE", ITEM, {"key": "blue "}, "", "admin"),
    ("DELETE", ITEM, {}, "", "admin"),
    ("DELETE", "/api/v1/rules/{key}/", {"key": "blue:p:1"}, "", "admin operator"),
    ("GET", "/api/v1/inspect/networks/{key}/", {"key": "blue:n1"}, "", "admin operator reader"),
    ("GET", "/api/v1/inspect/networks/{key}/", {"key": "red:n1"}, "", "admin reader"),
    ("GET", "/api/v1/tenants/", {}, "", "admin operator reader"),
    ("GET", "/api/v1/tenants/{key}/", {"key": "blue"}, "", "admin operator reader"),
    ("GET", "/api/v1/tenants/{key}/", {"key": "red"}, "", "admin reader"),
    ("POST", "/api/v1/tenants/{key}/", {"key": "blue"}, "", "admin"),
    ("DELETE", "/api/v1/tenants/{key}/", {"key": "blue"}, "", "admin"),
    ("GET", "/api/v1/inspect/globals/{key}/", {"key": "global"}, "", "admin operator reader"),
    ("GET", "/api/v1/globals/{key}/", {"key": "global"}, "", "admin reader"),
    ("POST", "/api/v1/globals/{key}/", {"key": "global"}, "", "admin"),
    ("GET", "/api/v1/Bgps/", {}, "", "admin reader"),
    ("POST", "/api/v1/aciGws/{key}/", {"key": "blue:x"}, "", "admin"),
    ("POST", "/api/v1/volumes/{key}/", {"key": "blue:v"}, "", "admin"),
    ("POST", "/plugin/createEndpoint", {}, "h1", "master agent"),
    ("POST", "/plugin/createEndpoint", {}, "h2", "master"),
    ("POST", "/plugin/createEndpoint", {}, "", "master"),
    ("POST", "/plugin/deleteEndpoint", {}, "h1", "master agent"),
    ("POST", "/plugin/deleteEndpoint", {}, "h2", "master"),
    ("POST", "/plugin/updateEndpoint", {}, "h2", "master"),
    ("GET", "/plugin/createEndpoint", {}, "h1", ""),
    ("POST", "/plugin/allocAddress", {}, "", "master agent"),
    ("POST", "/plugin/releaseAddress", {}, "", "master agent"),
    ("POST", "/plugin/allocNetwork", {}, "", "master agent"),
    ("POST", "/plugin/freeNetwork", {}, "", "master agent"),
    ("GET", "/hosts", {}, "", "admin reader"),
    ("GET", "/hosts/{label}", {"label": "h1"}, "", "admin reader"),
    ("DELETE", "/hosts/{label}", {"label": "h1"}, "", "admin"),
    ("DELETE", "/hosts/{label}/force", {"label": "h1"}, "", "admin"),
    ("POST", "/hosts/{label}/drain", {"label": "h1"}, "", "admin"),
    ("GET", "/ipam/check", {}, "", "admin reader"),
    ("POST", "/ipam/fix", {}, "", "admin"),
    ("GET", "/services", {}, "", "admin reader"),
    ("GET", "/service/{key}", {"key": "s:blue"}, "", "admin reader"),
    ("GET", "/debug/ofnet", {}, "", "admin reader"),
    (
        *("DELETE", "/debug/epcleanup/tenant/{tenant}/{category}/{key}"),
        *({"tenant": "blue", "category": "network", "key": "n1"}, "", "admin"),
    ),
    ("GET", "/api/v1/auth_proxy/local_users/", {}, "", "admin"),
    ("POST", "/api/v1/auth_proxy/local_users/", {}, "", "admin"),
    ("DELETE", "/api/v1/auth_proxy/local_users/{username}/", {"username": "x"}, "", "admin"),
    ("GET", "/new/route", {}, "", ""),
    ("GET", "", {}, "", ""),
]


@pytest.mark.parametrize(("method", "route", "parameters", "host", "who"), TABLE)
def test_who_may_do_what(
    method: str, route: str, parameters: dict[str, str], host: str, who: str
) -> None:
    request = access_request(method, route, parameters, host=host)
    found = [name for name, identity in WHO.items() if allowed(identity, request).allowed]
    assert found == who.split()


@pytest.mark.parametrize(
    "route", ["/api/v1/inspect/endpoints/{key}/", "/api/v2/endpoints/{key}/capture"]
)
def test_an_endpoint_is_looked_for_among_those_of_own_tenants(route: str) -> None:
    request = access_request("GET", route, {"key": "blue:c1"})
    decision = allowed(WHO["operator"], request)
    assert decision.allowed
    assert decision.tenants == frozenset({"blue", "green"})
    assert allowed(WHO["admin"], request).tenants is None
    assert not allowed(WHO["agent"], request).allowed


def test_a_list_has_an_operators_tenants_only() -> None:
    objects = [{"tenantName": name, "key": f"{name}:n"} for name in ("blue", "red", "green")]
    request = access_request("GET", "/api/v1/networks/", {})
    shown = {
        name: [item["tenantName"] for item in allowed(identity, request).visible(objects)]
        for name, identity in WHO.items()
        if name in {"operator", "admin"}
    }
    assert shown == {"operator": ["blue", "green"], "admin": ["blue", "red", "green"]}


def test_an_operator_without_tenants_sees_no_objects() -> None:
    none = allowed(Identity(Role.OPERATOR, "new"), access_request("GET", "/api/v1/networks/", {}))
    assert none.visible([{"tenantName": "blue"}, {"tenantName": ""}, {}]) == []


def test_an_empty_tenant_is_no_operators() -> None:
    careless = Identity(Role.OPERATOR, "joe", frozenset({""}))
    for key in ("", ":n1"):
        assert not allowed(careless, access_request("DELETE", ITEM, {"key": key})).allowed


def test_every_class_of_objects_has_a_class_of_rights() -> None:
    """A kind that is added is a matter of administrators until it is named here."""
    tenants_own = {
        plural
        for plural in OBJECT_CLASSES
        if classify(f"/api/v1/{plural}/{{key}}/") is RouteClass.TENANT_OBJECTS
    }
    assert tenants_own == TENANT_OBJECTS
    others = {"tenants", "globals", "Bgps", "aciGws", "volumes", "volumeProfiles"}
    assert set(OBJECT_CLASSES) - tenants_own == others


def test_every_class_has_rights() -> None:
    assert set(RIGHTS) == set(RouteClass) - {RouteClass.PUBLIC}


def test_a_refusal_has_the_status_of_its_cause() -> None:
    request = access_request("DELETE", ITEM, {"key": "red:n1"})
    with pytest.raises(NotAuthenticated) as unknown:
        allowed(None, request).enforce()
    assert unknown.value.http_status == 401
    with pytest.raises(AccessDenied, match="Insufficient privileges") as denied:
        allowed(WHO["operator"], request).enforce()
    assert denied.value.http_status == 403
    allowed(WHO["admin"], request).enforce()


@pytest.mark.parametrize(
    ("who", "method", "route", "host", "reason"),
    [
        ("anonymous", "GET", "/hosts", "", "no certificate and no token"),
        ("agent", "POST", "/plugin/createEndpoint", "h2", "other host: h2"),
        ("agent", "POST", "/plugin/deleteEndpoint", "", "other host: unknown"),
        ("operator", "DELETE", ITEM, "", "other tenant: red"),
        ("reader", "POST", "/ipam/fix", "", "role reader has no right to it"),
        ("admin", "POST", "/ipam/fix", "", "role admin"),
        ("admin", "GET", "/new", "", "no rule for this route"),
    ],
)
def test_a_decision_says_why(who: str, method: str, route: str, host: str, reason: str) -> None:
    decision = allowed(WHO[who], access_request(method, route, {"key": "red:n"}, host=host))
    assert decision.reason == reason
    assert isinstance(decision, Decision)
