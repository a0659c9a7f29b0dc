"""Pages of endpoints: what fits a query, in the order of keys, and where the next page begins."""

from collections.abc import Collection
from typing import Any

import pytest

from core.errors import Invalid
from core.ids import endpoint_name
from netmaster.plan.endpoints import endpoint
from netmaster.plan.show.endpoint_pages import EndpointQuery, page, query
from tests.unit.netmaster.scene import NOW, Scene, wanted


@pytest.fixture(scope="module")
def scene() -> Scene:
    """Two tenants, each with a network n1; three endpoints in one, one in the other."""
    scene = Scene()
    scene.network("n1")
    scene.group("web")
    scene.endpoint("a", host="h1", service_name="web")
    scene.endpoint("b", host="h2")
    scene.start("b", {"io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.name": "web-1"})
    scene.endpoint("c", host="h1")
    scene.start("c", {"app": "shop", "tier": "db"})
    scene.tenant("blue")
    scene.network("n1", tenant_name="blue")
    scene.endpoint("d", tenant="blue", host="h1")
    return scene


def found(scene: Scene, wanted: EndpointQuery) -> list[str]:
    return [one["endpointID"] for one in page(scene.view, wanted)["items"]]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["d", "a", "b", "c"]),
        ({"tenant": ["default"]}, ["a", "b", "c"]),
        ({"tenant": ["blue"], "network": ["n1"]}, ["d"]),
        ({"network": ["n1"], "host": ["h1"]}, ["d", "a", "c"]),
        ({"tenant": ["default"], "group": ["web"]}, ["a"]),
        ({"tenant": ["blue"], "group": ["web"]}, []),
        ({"container": ["id-c"]}, ["c"]),
        ({"label": ["app=shop", "tier"]}, ["c"]),
        ({"label": ["app=shop", "tier=web"]}, []),
        ({"address": ["10.1.1.2"], "tenant": ["default"]}, ["b"]),
        ({"address": ["10.1.1.0/30"], "tenant": ["default"]}, ["a", "b", "c"]),
        ({"address": ["fd00::/8"]}, []),
        ({"name": ["CN-"], "tenant": ["default"], "group": ["web"]}, ["a"]),
        ({"name": ["shop/Web"]}, ["b"]),
        ({"name": ["nobody"]}, []),
    ],
)
def test_a_query_finds_what_has_all_it_names(
    scene: Scene, asked: dict[str, list[str]], names: list[str]
) -> None:
    assert found(scene, query(asked)) == names


def test_pages_show_each_endpoint_once(scene: Scene) -> None:
    shown: list[str] = []
    after = ""
    while True:
        read = page(scene.view, query({"limit": ["1"], "after": [after]}))
        shown += [one["endpointID"] for one in read["items"]]
        after = read["next"]
        if not after:
            break
    assert shown == ["d", "a", "b", "c"]


@pytest.mark.parametrize(
    ("sort", "field"),
    [
        ("address", "addresses"),
        ("-address", "addresses"),
        ("host", "host"),
        ("-tenant", "tenant"),
    ],
)
def test_pages_are_in_the_order_that_is_asked_for(scene: Scene, sort: str, field: str) -> None:
    shown: list[Any] = []
    after = ""
    for _ in range(4):
        read = page(scene.view, query({"sort": [sort], "limit": ["1"], "after": [after]}))
        shown += read["items"]
        assert read["total"] == 4
        after = read["next"]
    assert not after
    wanted = sorted(shown, key=lambda one: (one[field], one["key"]), reverse=sort.startswith("-"))
    assert shown == wanted
    assert sorted(one["endpointID"] for one in shown) == list("abcd")


@pytest.mark.parametrize("sort", ["name", "-name"])
def test_pages_are_in_the_order_of_names(scene: Scene, sort: str) -> None:
    read = page(scene.view, query({"sort": [sort]}))["items"]
    names = [endpoint_name(one["containerName"], one["labels"]) for one in read]
    assert names == sorted(names, reverse=sort.startswith("-"))
    assert "shop/web-1" in names


def test_the_total_is_of_what_is_asked_for(scene: Scene) -> None:
    some = query({"limit": ["1"], "network": ["n1"], "host": ["h1"]})
    assert page(scene.view, some)["total"] == 3
    assert page(scene.view, EndpointQuery(tenants=frozenset({"blue"})))["total"] == 1


def test_a_client_sees_its_own_tenants_only(scene: Scene) -> None:
    assert found(scene, EndpointQuery(tenants=frozenset({"blue"}))) == ["d"]
    assert found(scene, EndpointQuery(tenants=frozenset({"blue"}), tenant="default")) == []


def test_what_is_shown(scene: Scene) -> None:
    (shown,) = page(scene.view, query({"container": ["id-c"]}))["items"]
    assert shown["addresses"] == ["10.1.1.3"]
    assert shown["labels"] == {"app": "shop", "tier": "db"}
    assert (shown["tenant"], shown["network"], shown["host"]) == ("default", "n1", "h1")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"colour": ["red"]}, r"^unknown parameter colour; known are address, after"),
        ({"tenants": ["blue"]}, r"^unknown parameter tenants"),
        ({"host": ["a", "b"]}, r"^parameter host is given 2 times"),
        ({"address": ["10.1"]}, r"^parameter address=10\.1 is neither"),
        ({"limit": ["0"]}, r"^parameter limit=0 is not a number from 1 to 5000"),
        ({"limit": ["9999999999999"]}, r"^parameter limit="),
        ({"sort": ["colour"]}, r"^parameter sort=colour: known are address, group"),
        ({"label": ["=x"]}, r"^parameter label==x has no name"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(
    asked: dict[str, Collection[str]], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        query(asked)


def test_dockers_slash_is_no_part_of_a_name() -> None:
    scene = Scene()
    scene.network("n1")
    asked = wanted("a").model_copy(update={"common_name": "/left"})
    scene.do(endpoint.create, asked, NOW)
    (shown,) = page(scene.view, query({"name": ["/lef"]}))["items"]
    assert shown["containerName"] == "left"
