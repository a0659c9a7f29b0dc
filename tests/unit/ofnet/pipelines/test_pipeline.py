"""Features add up to the flows of every kind of object."""

from dataclasses import replace
from ipaddress import IPv4Network

from core.ids import EndpointKey
from ofnet.changes import KINDS, BgpRoute, ObjectId, ObjectKind, held
from ofnet.pipelines import PIPELINES
from tests.unit.ofnet.worlds import NET, local, world

WORLD = world(here=(local(1),))
PREFIX = IPv4Network("10.9.0.0/16")


def test_each_kind_that_owns_flows_has_a_rule_in_some_mode_and_no_other_has() -> None:
    ruled = {kind for one in PIPELINES.values() for kind, rules in one.rules.items() if rules}
    assert ruled == {kind for kind, spec in KINDS.items() if spec.owns_flows}


def test_an_object_that_is_not_there_has_no_flows() -> None:
    gone = [ObjectId(kind, "10.8.0.0/16") for kind, spec in KINDS.items() if spec.field]
    for pipeline in PIPELINES.values():
        for oid in (*gone, ObjectId(ObjectKind.ROUTER)):
            assert held(oid, WORLD) is None
            assert not list(pipeline.flows(oid, WORLD))


def test_an_object_is_held_as_its_rules_take_it() -> None:
    pod = EndpointKey(f"{NET}-pod1")
    routed = replace(WORLD, routes={PREFIX: "02:02:00:00:00:01"})
    assert held(ObjectId(ObjectKind.LOCAL, pod), WORLD) is WORLD.local[pod]
    assert held(ObjectId(ObjectKind.PIPELINE), WORLD) is WORLD
    assert held(ObjectId(ObjectKind.ROUTE, str(PREFIX)), routed) == BgpRoute(
        PREFIX, "02:02:00:00:00:01"
    )
