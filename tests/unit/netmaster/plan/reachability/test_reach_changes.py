"""What a dry run tells of who may talk to whom."""

from collections.abc import Callable

from netmaster.plan.objects import group
from netmaster.plan.reachability import reach_changes
from netmaster.plan.reachability.reach_changes import LIMITS, ChangeLimits, ReachChanges
from tests.unit.netmaster.scene import Scene, a_group

Change = Callable[[Scene], object]


def scene() -> Scene:
    """Return a server with a policy, two clients in a group, and a pod of no group."""
    found = Scene()
    found.network("n1", "10.1.1.0/24", ipv6_subnet="2001:db8::/64", ipv6_gateway="2001:db8::1")
    found.network("n2", "10.1.2.0/24")
    found.policy("p1")
    found.group("clients")
    found.group("web", policies=["p1"])
    for name, of in (("c1", "clients"), ("c2", "clients"), ("s1", "web"), ("alone", "")):
        found.endpoint(name, service_name=of)
    return found


def told(*changes: Change, limits: ChangeLimits = LIMITS) -> ReachChanges:
    """Return what the last change tells, after the others."""
    before, after = scene(), scene()
    for change in changes[:-1]:
        change(before)
    for change in changes:
        change(after)
    return reach_changes.compare(before.view, after.view, limits)


def deny_tcp(found: Scene) -> None:
    found.rule("1", action="deny", protocol="tcp")


def allow_web(found: Scene) -> None:
    found.rule("2", protocol="tcp", port=80, priority=2, from_endpoint_group="clients")


def test_a_rule_tells_the_groups_it_concerns_and_how_many_endpoints() -> None:
    found = told(deny_tcp)
    assert found["complete"]
    concerned = {(one["source"], one["sources"]) for one in found["changes"]}
    assert concerned == {("clients", 2), ("", 1)}
    assert {(one["destination"], one["destinations"]) for one in found["changes"]} == {("web", 1)}
    assert {one["traffic"] for one in found["changes"]} == {"tcp"}
    assert {one["becomes"] for one in found["changes"]} == {"denied"}
    assert all(one["by"] == ["default:p1:1"] for one in found["changes"])


def test_an_exception_tells_its_port_alone() -> None:
    (one,) = told(deny_tcp, allow_web)["changes"]
    assert one == {
        "tenant": "default",
        "source": "clients",
        "destination": "web",
        "traffic": "tcp/80",
        "becomes": "allowed",
        "by": ["default:p1:2"],
        "before": ["default:p1:1"],
        "sources": 2,
        "destinations": 1,
    }


def test_a_rule_that_decides_nothing_changes_nothing() -> None:
    assert told(lambda found: found.rule("1")) == {"changes": [], "complete": True}


def test_a_group_that_loses_its_policy_is_open_again() -> None:
    found = told(deny_tcp, lambda found: found.do(group.update, a_group("web")))
    assert {one["becomes"] for one in found["changes"]} == {"allowed"}
    assert all(one["before"] == ["default:p1:1"] for one in found["changes"])


def test_a_rule_for_addresses_counts_those_that_are_in_them() -> None:
    first = scene().view.endpoints.values()
    (address,) = (one.ip_address for one in first if one.endpoint_id == "c1")
    found = told(lambda one: one.rule("1", action="deny", from_ip_address=address))
    # with the answers to what the server asks of it
    assert {(one["source"], one["sources"], one["destination"]) for one in found["changes"]} == {
        ("clients", 1, "web"),
        ("web", 1, "clients"),
    }


def test_what_is_too_much_is_not_told() -> None:
    found = told(deny_tcp, limits=ChangeLimits(changes=1))
    assert (len(found["changes"]), found["complete"]) == (1, False)
    found = told(deny_tcp, limits=ChangeLimits(work=1))
    assert found == {"changes": [], "complete": False}
