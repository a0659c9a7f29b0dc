"""The overview: numbers of what there is, networks that are nearly full, services nobody serves."""

from netmaster.plan.show.overview import overview
from tests.unit.netmaster.scene import Scene


def scene() -> Scene:
    """Two tenants; one of the networks has 4 of its 5 free addresses used."""
    found = Scene()
    found.network("n1")
    found.network("small", "10.2.0.0/29", gateway="10.2.0.1")
    for name in "abcd":
        found.endpoint(name, "small")
    found.service_lb("shop")
    found.tenant("blue")
    found.network("n1", tenant_name="blue")
    found.endpoint("e", tenant="blue")
    return found


def test_everything_is_counted_for_who_may_see_everything() -> None:
    told = overview(scene().view, None)
    assert told["totals"] == {
        "endpoints": 5,
        "tenants": 2,
        "networks": 3,
        "endpointGroups": 0,
        "policys": 0,
        "rules": 0,
        "serviceLBs": 1,
        "Bgps": 0,
    }
    assert [one["key"] for one in told["full"]] == ["default:small"]
    assert [one["key"] for one in told["unserved"]] == ["default:shop"]
    assert told["complete"]


def test_an_operator_learns_nothing_of_other_tenants() -> None:
    told = overview(scene().view, frozenset({"blue"}))
    assert {name: count for name, count in told["totals"].items() if count} == {
        "endpoints": 1,
        "tenants": 1,
        "networks": 1,
    }
    assert (told["full"], told["unserved"]) == ([], [])


def test_a_service_with_a_provider_is_not_named() -> None:
    found = scene()
    found.endpoint("web")
    found.start("web", {"app": "web"})
    assert overview(found.view, None)["unserved"] == []
