"""Counters of flows, by the objects that have the flows."""

from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.channel.flow_stats import FlowCount
from ofnet.desired import Desired
from ofnet.hits import Hits, guarded_by_object, hits_by_object
from ofnet.tables import Priority, TableId
from ofnet.world import Bridge, FwdMode, Rule, World


def rule(name: str, port: int = 80) -> Rule:
    return Rule(id=name, priority=1, allow=True, src_group=1, protocol=6, dst_port=port)


def desired(*rules: Rule) -> Desired:
    found = Desired(Bridge.VXLAN)
    world = World(fwd_mode=FwdMode.ROUTING, rules={one.id: one for one in rules})
    found.update(world, EVERYTHING)
    return found


def test_the_flows_of_a_rule_are_added_up() -> None:
    owners = desired(rule("web"), rule("dns", 53)).cookies(ObjectKind.RULE)
    assert sorted(owners.values()) == ["dns", "dns", "web", "web"]  # one for each family
    counted = [FlowCount(cookie, 2, 100) for cookie, name in owners.items() if name == "web"]
    others = [FlowCount(0xC0 << 56, 9, 9)]
    assert hits_by_object(owners, [*counted, *others]) == {"web": Hits(4, 200)}


def test_a_rule_without_packets_is_left_out() -> None:
    owners = desired(rule("web")).cookies(ObjectKind.RULE)
    assert hits_by_object(owners, [FlowCount(one, 0, 0) for one in owners]) == {}


def test_a_flow_of_two_rules_counts_for_the_smallest() -> None:
    found = desired(rule("b"), rule("a"))
    assert set(found.cookies(ObjectKind.RULE).values()) == {"a"}
    left = World(fwd_mode=FwdMode.ROUTING, rules={"b": rule("b")})
    found.update(left, Changes.of(ObjectKind.RULE, ["a"]))
    assert set(found.cookies(ObjectKind.RULE).values()) == {"b"}


def test_what_the_source_guard_drops_is_added_up_by_endpoint() -> None:
    owners = {1: "web", 2: "web", 3: "web", 4: "db"}
    counted = [
        FlowCount(1, 5, 500, TableId.INPUT, Priority.GUARD),
        FlowCount(2, 2, 200, TableId.INPUT, Priority.GUARD_NEVER),
        FlowCount(3, 9, 900, TableId.INPUT, Priority.GUARD_PASS),
        FlowCount(3, 9, 900, TableId.IP, Priority.GUARD),
        FlowCount(4, 0, 0, TableId.INPUT, Priority.GUARD),
        FlowCount(7, 9, 900, TableId.INPUT, Priority.GUARD),
    ]
    assert guarded_by_object(owners, counted) == {"web": 7}
