"""Paths and methods mean what the original's do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netmaster.api.routes import RouteAction, Target, cleaned, find


@pytest.mark.parametrize(
    ("method", "path", "target"),
    [
        ("GET", "/api/v1/networks/", Target(RouteAction.LIST, "networks")),
        ("GET", "/api/v1/networks/t:n/", Target(RouteAction.READ, "networks", "t:n")),
        ("POST", "/api/v1/networks/t:n/", Target(RouteAction.WRITE, "networks", "t:n")),
        ("PUT", "/api/v1/networks/:n/", Target(RouteAction.WRITE, "networks", ":n")),
        ("DELETE", "/api/v1/tenants/a b/", Target(RouteAction.DELETE, "tenants", "a b")),
        ("GET", "/api/v1/inspect/endpoints/x/", Target(RouteAction.INSPECT, "endpoints", "x")),
        ("POST", "/plugin/allocAddress", Target(RouteAction.ALLOCATE_ADDRESS)),
        ("POST", "/plugin/releaseAddress", Target(RouteAction.RELEASE_ADDRESS)),
        ("POST", "/plugin/createEndpoint", Target(RouteAction.CREATE_ENDPOINT)),
        ("POST", "/plugin/deleteEndpoint", Target(RouteAction.DELETE_ENDPOINT)),
        ("GET", "/version", Target(RouteAction.VERSION)),
        ("GET", "/info", Target(RouteAction.INFO)),
        ("GET", "/hosts", Target(RouteAction.HOSTS)),
        ("GET", "/hosts/h1.example", Target(RouteAction.HOST, key="h1.example")),
        ("DELETE", "/hosts/h1", Target(RouteAction.REMOVE_HOST, key="h1")),
        ("DELETE", "/hosts/h1/force", Target(RouteAction.REMOVE_HOST, key="h1", force=True)),
        ("GET", "/hosts/h1/drain", Target(RouteAction.DRAINED, key="h1")),
        ("POST", "/hosts/h1/drain", Target(RouteAction.DRAIN, key="h1")),
        ("DELETE", "/hosts/h1/drain", Target(RouteAction.UNDRAIN, key="h1")),
        ("GET", "/ipam/check", Target(RouteAction.IPAM_CHECK)),
        ("POST", "/ipam/fix", Target(RouteAction.IPAM_FIX)),
    ],
)
def test_a_known_request_has_a_target(method: str, path: str, target: Target) -> None:
    assert find(method, path) == target


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/api/v1/"),
        ("GET", "/api/v1/globals"),
        ("GET", "/api/v2/globals/"),
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
        ("GET", "/api/v1/networks/a/b/c/"),
    ],
)
def test_everything_else_has_none(method: str, path: str) -> None:
    assert find(method, path) is None


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
