"""Whatever the history, a host's rules are those of its outcome.

Rules that groups share are written out for each group, and are then those of each group alone.

A machine tells a book of policies random facts in any order: rules, groups, networks, and which
policies hold for whom, there and gone. At each step the rules must be those that are expanded from
scratch, and the change must have said of each rule that differs that it does.
"""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, ip_network

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.ids import GroupKey, GroupName, NetworkId, NetworkName, TenantName
from netplugin.world.contiv_policies.policies import Policies
from ofnet.flows import FlowKey
from ofnet.pipelines.features import contiv_policy
from ofnet.tables import TableId
from ofnet.world import FwdMode, PolicyClass, Rule, World
from state.intents import Attachment
from state.policy_rules import NEW_CONNECTION, OfnetRule, PolicyRule, RuleScope, expand_all
from state.records import GroupRecord, NetworkRecord
from tests.model.shared_rules import of_group
from tests.unit.netplugin.records import group, network

TENANTS = st.sampled_from([TenantName("red"), TenantName("blue")])
GROUPS = st.sampled_from([GroupName("web"), GroupName("db"), GroupName("shop")])
POLICIES = st.sampled_from(["p1", "p2"])

groups = st.builds(
    lambda name, tenant, number, dscp: replace(group(name, tenant, dscp=dscp), group_id=number),
    GROUPS,
    TENANTS,
    st.integers(0, 5),
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
    log=st.booleans(),
)


def of_one(shared: Rule, key: GroupKey, member: PolicyClass) -> Rule:
    """Return what a shared rule is for one of the groups."""
    tenant, _, rest = shared.id.split(":", 2)
    name = key.partition(":")[0]
    return of_group(shared, member.group_id, f"{tenant}:{name}:{rest}")


def pairs(book: Policies) -> Iterator[tuple[Rule, Rule]]:
    """Yield each rule with what it is for each group that it is shared by, or with itself."""
    for each in book.rules.values():
        number = each.src_class or each.dst_class
        if not number:
            yield each, each
        for key, member in book.classes.items() if number else ():
            if member.number == number:
                yield each, of_one(each, key, member)


def contradictions(book: Policies) -> Iterator[str]:
    """Yield each rule whose flow does something else than the groups' own flows would.

    Of rules with one flow the one with the smallest id has it.
    """
    own: dict[FlowKey, list[Rule]] = {}
    shared: dict[FlowKey, list[Rule]] = {}
    for each, written in pairs(book):
        for one, other in zip(keys(written), keys(each), strict=True):
            own.setdefault(one, []).append(written)
            shared.setdefault(other, []).append(each)
    for each, written in pairs(book):
        for one, other in zip(keys(written), keys(each), strict=True):
            if does(own[one]) != does(shared[other]):
                yield f"{written}: {own[one]}, shared {shared[other]}"


def keys(of: Rule) -> list[FlowKey]:
    flows = contiv_policy.flows(of, World(fwd_mode=FwdMode.ROUTING))
    return [flow.key for flow in flows if flow.table == TableId.POLICY]


def does(rules: list[Rule]) -> tuple[bool, bool]:
    """Return what a flow does that several rules yield (`ofnet.ownership`)."""
    first = min(rules, key=lambda rule: rule.id)
    return first.allow, first.log


@given(
    st.lists(st.sampled_from([("p1",), ("p2",), ("p1", "p2")]), min_size=3, max_size=3),
    st.lists(
        st.builds(
            PolicyRule,
            tenant=st.just(TenantName("red")),
            policy=POLICIES,
            rule_id=st.sampled_from("12345678"),
            direction=st.sampled_from(["in", "out"]),
            action=st.sampled_from(["allow", "deny"]),
            priority=st.just(1),
            protocol=st.sampled_from([1, 17, 58]),
            port=st.sampled_from([0, 80]),
            group=GROUPS,
            log=st.booleans(),
        ),
        min_size=2,
        max_size=8,
    ),
)
@settings(max_examples=300, deadline=None)
def test_rules_of_both_directions_between_groups(
    held: list[tuple[str, ...]], some: list[PolicyRule]
) -> None:
    book, red = Policies(), TenantName("red")
    for number, (name, policies) in enumerate(zip(("db", "shop", "web"), held, strict=True), 1):
        book.put_group(replace(group(name, red), group_id=number))
        book.put_attachment(Attachment(red, GroupName(name), policies))
    for each in some:
        book.put_rule(each)
    assert not list(contradictions(book))


class History(RuleBasedStateMachine):
    """A book, and the facts that are in force."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Policies()
        self.before: dict[str, Rule] = {}
        self.classed: dict[GroupKey, PolicyClass] = {}
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
        assert {name: as_text(each) for name, each in self.written_out()} == {
            name: as_text(each) for name, each in self.from_scratch().items()
        }

    @invariant()
    def classes_are_the_groups_with_the_same_policies(self) -> None:
        known = {key: record.group_id for key, record in self.groups.items() if record.group_id}
        ids = list(known.values())
        alike: dict[object, list[GroupKey]] = {}
        for key, attachment in self.attachments.items():
            if attachment.policies and ids.count(known.get(key, 0)) == 1:
                held = attachment.tenant, frozenset(attachment.policies)
                alike.setdefault(held, []).append(key)
        assert self.book.classes == {
            key: PolicyClass(known[key], min(known[each] for each in keys))
            for keys in alike.values()
            if len(keys) > 1
            for key in keys
        }

    @invariant()
    def every_group_that_changed_its_class_was_told(self) -> None:
        keys = self.classed.keys() | self.book.classes.keys()
        told = self.book.take_classed()
        assert {key for key in keys if self.classed.get(key) != self.book.classes.get(key)} <= told
        self.classed = dict(self.book.classes)

    @invariant()
    def shared_flows_do_what_each_groups_own_would(self) -> None:
        assert not list(contradictions(self.book))

    def written_out(self) -> Iterator[tuple[str, Rule]]:
        return ((written.id, written) for _, written in pairs(self.book))

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
