"""Whatever the history, a host's rules are those of its outcome.

A machine tells a book of policies random facts in any order: rules, groups, networks, and which
policies hold for whom, there and gone. At each step the rules must be those that are expanded from
scratch, and the change must have said of each rule that differs that it does.
"""

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, ip_network

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.ids import GroupKey, GroupName, NetworkId, NetworkName, TenantName
from netplugin.world.policies import Policies
from ofnet.world import Rule
from state.intents import Attachment
from state.policy_rules import NEW_CONNECTION, OfnetRule, PolicyRule, RuleScope, expand_all
from state.records import GroupRecord, NetworkRecord
from tests.unit.netplugin.records import group, network

TENANTS = st.sampled_from([TenantName("red"), TenantName("blue")])
GROUPS = st.sampled_from([GroupName("web"), GroupName("db")])
POLICIES = st.sampled_from(["p1", "p2"])

groups = st.builds(
    lambda name, tenant, number, dscp: replace(group(name, tenant, dscp=dscp), group_id=number),
    GROUPS,
    TENANTS,
    st.integers(1, 3),
    st.integers(0, 1),
)
networks = st.builds(
    lambda tenant, last, v6: replace(network("n1", tenant, v6=v6), last=last),
    TENANTS,
    st.sampled_from(["10.1.255.255", "10.1.0.9"]),
    st.booleans(),
)
attachments = st.builds(
    lambda tenant, name, policies: Attachment(tenant, name, tuple(policies)),
    TENANTS,
    GROUPS,
    st.lists(POLICIES, max_size=3),
)
spans = st.none() | st.tuples(st.integers(0, 4), st.integers(4, 9))
rules = st.builds(
    PolicyRule,
    tenant=TENANTS,
    policy=POLICIES,
    rule_id=st.sampled_from(["1", "2", "3"]),
    direction=st.sampled_from(["in", "out"]),
    action=st.sampled_from(["allow", "deny"]),
    priority=st.integers(1, 3),
    protocol=st.sampled_from([0, 1, 6, 17]),
    port=st.sampled_from([0, 80]),
    group=st.none() | GROUPS,
    network=st.none() | st.just(NetworkName("n1")),
    source=spans,
    destination=spans,
)


class History(RuleBasedStateMachine):
    """A book, and the facts that are in force."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Policies()
        self.before: dict[str, Rule] = {}
        self.altered: set[str] = set()
        self.groups: dict[GroupKey, GroupRecord] = {}
        self.networks: dict[NetworkId, NetworkRecord] = {}
        self.attachments: dict[GroupKey, Attachment] = {}
        self.written: dict[tuple[TenantName, str, str], PolicyRule] = {}

    @rule(record=groups)
    def put_group(self, record: GroupRecord) -> None:
        self.groups[record.key] = record
        self.altered = self.book.put_group(record)

    @rule(record=groups)
    def remove_group(self, record: GroupRecord) -> None:
        self.groups.pop(record.key, None)
        self.altered = self.book.remove_group(record.key)

    @rule(record=networks)
    def put_network(self, record: NetworkRecord) -> None:
        self.networks[record.id] = record
        self.altered = self.book.put_network(record)

    @rule(record=networks)
    def remove_network(self, record: NetworkRecord) -> None:
        self.networks.pop(record.id, None)
        self.altered = self.book.remove_network(record.id)

    @rule(attachment=attachments)
    def put_attachment(self, attachment: Attachment) -> None:
        self.attachments[attachment.key] = attachment
        self.altered = self.book.put_attachment(attachment)

    @rule(attachment=attachments)
    def remove_attachment(self, attachment: Attachment) -> None:
        self.attachments.pop(attachment.key, None)
        self.altered = self.book.remove_attachment(attachment.key)

    @rule(written=rules)
    def put_rule(self, written: PolicyRule) -> None:
        self.written[written.tenant, written.policy, written.rule_id] = written
        self.altered = self.book.put_rule(written)

    @rule(written=rules)
    def remove_rule(self, written: PolicyRule) -> None:
        self.written.pop((written.tenant, written.policy, written.rule_id), None)
        self.altered = self.book.remove_rule(written)

    @invariant()
    def the_rules_are_those_expanded_from_scratch(self) -> None:
        assert {name: as_text(each) for name, each in self.book.rules.items()} == {
            name: as_text(each) for name, each in self.from_scratch().items()
        }

    @invariant()
    def every_difference_was_told(self) -> None:
        names = self.before.keys() | self.book.rules.keys()
        differing = {name for name in names if self.before.get(name) != self.book.rules.get(name)}
        assert differing <= self.altered <= names
        self.before = dict(self.book.rules)

    def from_scratch(self) -> dict[str, OfnetRule]:
        holding = [
            (self.groups[key], self.of_policy(attachment))
            for key, attachment in self.attachments.items()
            if key in self.groups
        ]
        return expand_all(holding, RuleScope(groups=self.groups, networks=self.networks))

    def of_policy(self, attachment: Attachment) -> list[PolicyRule]:
        return [
            each
            for each in self.written.values()
            if each.tenant == attachment.tenant and each.policy in attachment.policies
        ]


def as_text(of: Rule | OfnetRule) -> tuple[object, ...]:
    """Return a rule in words that both kinds of it share."""
    if isinstance(of, Rule):
        ends = (of.source, of.destination)
        flags = "" if of.tcp_flags is None else str(of.tcp_flags)
        action = "allow" if of.allow else "deny"
    else:
        ends = (block(of.src_address), block(of.dst_address))
        flags = {"": "", NEW_CONNECTION: "+syn-ack"}[of.tcp_flags]
        action = of.action
    numbers = (of.priority, of.src_group, of.dst_group, of.protocol, of.src_port, of.dst_port)
    return (*numbers, *ends, flags, action)


def block(text: str) -> IPv4Network | IPv6Network | None:
    """Return the addresses a text stands for, None for any."""
    return ip_network(text) if text else None


History.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestHistory = History.TestCase
