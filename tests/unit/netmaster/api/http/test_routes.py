"""Paths and methods mean what the original's do."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netmaster.api.http.routes import OperationDoc, Route, RouteFinder, cleaned
from netmaster.api.route_table import ROUTE_FINDER, ROUTES

DOC = OperationDoc(summary="x", tag="x")


@pytest.mark.parametrize(
    ("method", "path", "pattern", "parameters"),
    [
        ("GET", "/api/v1/networks/", "/api/v1/networks/", {}),
        ("GET", "/api/v1/networks/t:n/", "/api/v1/networks/{key}/", {"key": "t:n"}),
        ("POST", "/api/v1/networks/t:n/", "/api/v1/networks/{key}/", {"key": "t:n"}),
        ("PUT", "/api/v1/networks/:n/", "/api/v1/networks/{key}/", {"key": ":n"}),
        ("DELETE", "/api/v1/tenants/a b/", "/api/v1/tenants/{key}/", {"key": "a b"}),
        (
            "GET",
            "/api/v1/inspect/networks/x/",
            "/api/v1/inspect/networks/{key}/",
            {"key": "x"},
        ),
        (
            "GET",
            "/api/v1/inspect/endpoints/x/",
            "/api/v1/inspect/endpoints/{key}/",
            {"key": "x"},
        ),
        ("POST", "/plugin/allocAddress", "/plugin/allocAddress", {}),
        ("POST", "/plugin/releaseAddress", "/plugin/releaseAddress", {}),
        ("POST", "/plugin/allocNetwork", "/plugin/allocNetwork", {}),
        ("POST", "/plugin/freeNetwork", "/plugin/freeNetwork", {}),
        ("POST", "/plugin/addressBlocks", "/plugin/addressBlocks", {}),
        ("POST", "/plugin/createEndpoint", "/plugin/createEndpoint", {}),
        ("POST", "/plugin/updateEndpoint", "/plugin/updateEndpoint", {}),
        ("POST", "/plugin/deleteEndpoint", "/plugin/deleteEndpoint", {}),
        ("GET", "/version", "/version", {}),
        ("GET", "/info", "/info", {}),
        ("GET", "/service/s:t", "/service/{key}", {"key": "s:t"}),
        ("GET", "/hosts", "/hosts", {}),
        ("GET", "/hosts/h1.example", "/hosts/{label}", {"label": "h1.example"}),
        ("DELETE", "/hosts/h1", "/hosts/{label}", {"label": "h1"}),
        ("DELETE", "/hosts/h1/force", "/hosts/{label}/force", {"label": "h1"}),
        ("GET", "/hosts/h1/drain", "/hosts/{label}/drain", {"label": "h1"}),
        ("POST", "/hosts/h1/drain", "/hosts/{label}/drain", {"label": "h1"}),
        ("DELETE", "/hosts/h1/drain", "/hosts/{label}/drain", {"label": "h1"}),
        ("GET", "/ipam/check", "/ipam/check", {}),
        ("POST", "/ipam/fix", "/ipam/fix", {}),
        (
            "DELETE",
            "/debug/epcleanup/tenant/t/net/n1",
            "/debug/epcleanup/tenant/{tenant}/{category}/{key}",
            {"tenant": "t", "category": "net", "key": "n1"},
        ),
    ],
)
def test_a_known_request_has_a_route(
    method: str, path: str, pattern: str, parameters: dict[str, str]
) -> None:
    found = ROUTE_FINDER.find(method, path)
    assert found is not None
    assert (found.route.method, found.route.pattern) == (method, pattern)
    assert found.parameters == parameters


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/api/v1/"),
        ("GET", "/api/v1/globals"),
        ("GET", "/api/v2/globals/"),
        ("GET", "/api/v1/unknown/"),
        ("GET", "/api/v1/endpoints/"),
        ("POST", "/api/v1/unknown/x/"),
        ("GET", "/api/v1/networks/t:n"),
        ("POST", "/api/v1/globals/"),
        ("PATCH", "/api/v1/globals/"),
        ("HEAD", "/api/v1/globals/"),
        ("OPTIONS", "/version"),
        ("POST", "/version"),
        ("GET", "/version/"),
        ("POST", "/hosts"),
        ("GET", "/hosts/"),
        ("DELETE", "/hosts/"),
        ("POST", "/hosts/h1"),
        ("POST", "/hosts/h1/force"),
        ("PUT", "/hosts/h1/drain"),
        ("DELETE", "/hosts//drain"),
        ("POST", "/ipam/check"),
        ("GET", "/plugin/createEndpoint"),
        ("PUT", "/plugin/createEndpoint"),
        ("POST", "/plugin/createEndpoint/"),
        ("POST", "/api/v1/inspect/networks/t:n/"),
        ("GET", "/api/v1/inspect/networks/"),
        ("GET", "/api/v1/networks/a/b/c/"),
        ("GET", "/hosts/{label}/force"),
    ],
)
def test_everything_else_has_none(method: str, path: str) -> None:
    assert ROUTE_FINDER.find(method, path) is None


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.pattern}")
def test_every_route_of_the_table_is_dispatched(route: Route[object]) -> None:
    found = ROUTE_FINDER.find(route.method, re.sub(r"\{\w+\}", "a", route.pattern))
    assert found is not None
    assert found.route is route


def test_a_route_that_is_there_twice_is_refused() -> None:
    route = Route("GET", "/a/{key}", None, DOC)
    with pytest.raises(ValueError, match="in the table twice"):
        RouteFinder([route, Route("GET", "/a/{label}", None, DOC)])


def test_parameters_of_one_shape_do_not_hide_those_of_another() -> None:
    first = Route("GET", "/a/{x}/b", 1, DOC)
    second = Route("GET", "/a/b/{y}", 2, DOC)
    router = RouteFinder([first, second])
    for path, route in (("/a/1/b", first), ("/a/b/2", second)):
        found = router.find("GET", path)
        assert found is not None
        assert found.route is route


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("/api/v1/globals//", "/api/v1/globals/"),
        ("/api/v1/../v1/globals/", "/api/v1/globals/"),
        ("//api/./v1/globals", "/api/v1/globals"),
        ("/../..", "/"),
        ("/", "/"),
        ("/a..b/.c/", "/a..b/.c/"),
    ],
)
def test_unclean_paths_are_cleaned(path: str, clean: str) -> None:
    assert cleaned(path) == clean


@given(st.text(alphabet="/.a", max_size=12))
def test_cleaning_is_idempotent_and_keeps_the_last_slash(path: str) -> None:
    clean = cleaned(path)
    assert cleaned(clean) == clean
    assert clean.startswith("/")
    assert "//" not in clean
