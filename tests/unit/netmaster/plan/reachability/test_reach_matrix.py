"""The matrix of who may talk to whom: pairs that rules are about, and what decides."""

from dataclasses import replace

import pytest

from core.errors import NotFound
from core.ids import TenantName
from netmaster.plan.reachability import reach_changes
from netmaster.plan.reachability.reach_matrix import (
    LIMITS,
    MatrixLimits,
    Reach,
    ReachQuery,
    ReachTraffic,
    matrix,
)
from tests.unit.netmaster.scene import Scene


def scene() -> Scene:
    """Return two groups of clients, and a server whose policy denies TCP but for one port."""
    found = Scene()
    found.network("n1", "10.1.1.0/24", ipv6_subnet="2001:db8::/64", ipv6_gateway="2001:db8::1")
    found.policy("p1")
    for name, policies in (("web", ["p1"]), ("clients", []), ("others", [])):
        found.group(name, policies=policies)
    for name, of in (("c1", "clients"), ("c2", "clients"), ("s1", "web"), ("o1", "others")):
        found.endpoint(name, service_name=of)
    found.rule("1", action="deny", protocol="tcp")
    found.rule("2", protocol="tcp", port=80, priority=2, from_endpoint_group="clients")
    return found


def asked(found: Scene, limits: MatrixLimits = LIMITS, **more: str) -> Reach:
    return matrix(found.view, ReachQuery(tenant=TenantName("default"), **more), limits)


def between(told: Reach, source: str, destination: str) -> dict[str, ReachTraffic]:
    """Return what is told of a pair, by kind of traffic; nothing of one without rules."""
    for pair in told["pairs"]:
        if (pair["source"], pair["destination"]) == (source, destination):
            return {one["traffic"]: one for one in pair["traffic"]}
    return {}


def test_groups_are_told_with_their_endpoints() -> None:
    told = asked(scene())
    assert told["groups"] == [
        {"name": "clients", "endpoints": 2},
        {"name": "others", "endpoints": 1},
        {"name": "web", "endpoints": 1},
    ]
    assert told["complete"]


def test_each_kind_of_traffic_has_a_verdict_and_the_rule_that_decides() -> None:
    told = between(asked(scene()), "clients", "web")
    assert {kind: (one["verdict"], one["by"]) for kind, one in told.items()} == {
        "any": ("allowed", []),
        "tcp": ("denied", ["default:p1:1"]),
        "tcp/80": ("allowed", ["default:p1:2"]),
    }


def test_a_pair_that_no_rule_is_about_is_left_out() -> None:
    assert between(asked(scene()), "clients", "others") == {}


def test_a_group_without_endpoints_is_decided_about_all_the_same() -> None:
    found = scene()
    found.group("empty")
    assert between(asked(found), "empty", "web")["tcp"]["verdict"] == "denied"


def test_endpoints_without_a_group_have_a_row_without_a_name() -> None:
    found = scene()
    found.endpoint("alone")
    told = asked(found)
    assert {"name": "", "endpoints": 1} in told["groups"]
    assert between(told, "", "web")["tcp"]["verdict"] == "denied"


def test_a_rule_for_some_addresses_of_a_group_decides_partly() -> None:
    found = scene()
    (address,) = (
        one.ip_address for one in found.view.endpoints.values() if one.endpoint_id == "c1"
    )
    found.rule("3", action="deny", priority=9, protocol="udp", from_ip_address=address)
    told = between(asked(found), "clients", "web")["udp"]
    assert (told["verdict"], told["by"]) == ("partly", ["default:p1:3"])


def test_a_rule_may_deny_the_answers_alone() -> None:
    found = scene()
    found.rule("4", action="deny", protocol="udp")
    told = between(asked(found), "web", "clients")["udp"]
    assert (told["verdict"], told["answers"]) == ("denied", True)


def test_a_side_can_be_named() -> None:
    told = asked(scene(), source="clients", destination="web")
    assert [(one["source"], one["destination"]) for one in told["pairs"]] == [("clients", "web")]
    assert [one["name"] for one in told["groups"]] == ["clients", "web"]


def test_other_tenants_are_told_nothing_of() -> None:
    found = scene()
    found.tenant("blue")
    told = matrix(found.view, ReachQuery(tenant=TenantName("blue")))
    assert told == {"tenant": "blue", "groups": [], "pairs": [], "complete": True}
    with pytest.raises(NotFound):
        matrix(found.view, ReachQuery(tenant=TenantName("red")))


@pytest.mark.parametrize("limit", ["pairs", "verdicts", "work"])
def test_what_is_too_much_is_not_told_whole(limit: str) -> None:
    found = scene()
    found.rule("3", action="deny", priority=9, protocol="udp", from_ip_address="10.1.1.7")
    assert asked(found)["complete"]
    assert not asked(found, replace(LIMITS, **{limit: 1}))["complete"]


def test_the_matrix_agrees_with_what_if() -> None:
    """A rule changes in the matrix what a dry run tells of it."""
    before, after = scene(), scene()
    after.rule("9", action="deny", protocol="udp", port=53)
    kinds = between(asked(after), "clients", "web")
    assert kinds["udp/53"]["by"] == ["default:p1:9"]
    told = reach_changes_of(before, after)
    assert ("clients", "web", "udp/53", "denied") in told


def reach_changes_of(before: Scene, after: Scene) -> set[tuple[str, str, str, str]]:

    found = reach_changes.compare(before.view, after.view)["changes"]
    return {(one["source"], one["destination"], one["traffic"], one["becomes"]) for one in found}
