"""Policies on a host: which rules the switches have, and what each change says it altered."""

from dataclasses import replace
from ipaddress import ip_network

import pytest

from core.ids import GroupName, NetworkName, TenantName
from netplugin.world.contiv_policies.policies import Policies
from ofnet.openflow.fields import Flags
from ofnet.world import Rule
from state.intents import Attachment
from state.policy_rules import PolicyRule
from tests.unit.netplugin.records import group, network

TENANT = TenantName("default")
WEB = replace(group("web"), group_id=3)
DB = replace(group("db"), group_id=7)
NET = network("n2")
POLICY = Attachment(TENANT, GroupName("web"), ("p1",))
NAME = "default:web:default:p1:default:p1:"


def rule(rule_id: str = "1", policy: str = "p1", **more: object) -> PolicyRule:
    asked: dict[str, object] = {
        "tenant": TENANT,
        "policy": policy,
        "rule_id": rule_id,
        "direction": "in",
        "action": "allow",
        "priority": 10,
    }
    return PolicyRule(**(asked | more))  # type: ignore[arg-type] # by name


@pytest.fixture
def book() -> Policies:
    """Return a book that knows two groups, of which one has a policy without rules."""
    book = Policies()
    book.put_group(WEB)
    book.put_group(DB)
    book.put_attachment(POLICY)
    return book


def test_a_rule_becomes_one_for_switches(book: Policies) -> None:
    assert book.put_rule(rule(protocol=6)) == {f"{NAME}1:inRx"}
    assert book.rules == {
        f"{NAME}1:inRx": Rule(
            id=f"{NAME}1:inRx",
            priority=10,
            allow=True,
            dst_group=3,
            protocol=6,
            tcp_flags=Flags(value=0x02, mask=0x12),
        )
    }


def test_a_port_is_answered_from(book: Policies) -> None:
    asked, answered = f"{NAME}1:inRx", f"{NAME}1:inTx"
    assert book.put_rule(rule(protocol=17, port=53, action="deny")) == {asked, answered}
    assert (book.rules[asked].dst_port, book.rules[answered].src_port) == (53, 53)
    assert book.rules[answered].src_group == 3
    assert not any(each.allow or each.tcp_flags for each in book.rules.values())


def test_addresses_are_networks(book: Policies) -> None:
    book.put_rule(rule(direction="out", destination=(0x0A000009, 0x0A000009)))
    book.put_network(NET)
    book.put_rule(rule("2", network=NetworkName("n2")))
    out, into = book.rules[f"{NAME}1:outTx"], book.rules[f"{NAME}2:inRx"]
    assert (out.source, out.destination) == (None, ip_network("10.0.0.9/32"))
    assert (into.source, into.destination) == (ip_network("10.1.0.0/16"), None)


def test_the_order_of_facts_is_indifferent() -> None:
    book = Policies()
    assert book.put_rule(rule(group=GroupName("db"))) == set()
    assert book.put_attachment(POLICY) == set()
    assert book.put_group(WEB) == set()
    assert book.put_group(DB) == {f"{NAME}1:inRx"}
    assert book.rules[f"{NAME}1:inRx"].src_group == 7


def test_who_is_named_and_is_gone_is_not_anybody(book: Policies) -> None:
    book.put_network(NET)
    book.put_rule(rule("1", group=GroupName("db")))
    book.put_rule(rule("2", network=NetworkName("n2")))
    assert book.remove_group(DB.key) == {f"{NAME}1:inRx"}
    assert book.remove_network(NET.id) == {f"{NAME}2:inRx"}
    assert not book.rules


def test_another_number_of_a_group_is_another_rule(book: Policies) -> None:
    book.put_rule(rule("1", group=GroupName("db")))
    book.put_rule(rule("2"))
    assert book.put_group(replace(DB, group_id=8)) == {f"{NAME}1:inRx"}
    assert book.put_group(replace(WEB, group_id=4)) == set(book.rules)
    assert {each.dst_group for each in book.rules.values()} == {4}


def test_what_does_not_matter_to_rules_alters_none(book: Policies) -> None:
    book.put_rule(rule())
    assert book.put_group(replace(WEB, dscp=26)) == set()
    assert book.put_attachment(POLICY) == set()
    assert book.put_network(NET) == set()
    assert book.remove_rule(rule("9")) == set()


def test_a_replaced_rule_leaves_nothing_of_the_former(book: Policies) -> None:
    book.put_rule(rule(protocol=6, port=80))
    assert book.put_rule(rule(protocol=6)) == {f"{NAME}1:inRx", f"{NAME}1:inTx"}
    assert set(book.rules) == {f"{NAME}1:inRx"}


def test_policies_come_and_go(book: Policies) -> None:
    book.put_rule(rule())
    book.put_rule(rule(policy="p2"))
    both = Attachment(TENANT, GroupName("web"), ("p1", "p2"))
    book.put_attachment(both)
    assert len(book.rules) == 2
    book.put_attachment(Attachment(TENANT, GroupName("web"), ("p2",)))
    assert [name.split(":")[3] for name in book.rules] == ["p2"]
    assert book.remove_attachment(WEB.key) != set()
    assert not book.rules


def test_a_policy_of_another_tenant_is_another_policy(book: Policies) -> None:
    book.put_rule(replace(rule(), tenant=TenantName("blue")))
    assert not book.rules


def test_a_policy_named_twice_counts_once(book: Policies) -> None:
    """The original accepts such a group, and its store may hold one."""
    book.put_rule(rule())
    book.put_attachment(Attachment(TENANT, GroupName("web"), ("p1", "p1")))
    assert len(book.rules) == 1
    book.remove_attachment(WEB.key)
    assert not book.rules
