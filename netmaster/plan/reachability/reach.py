"""Which groups may open connections to which, by which rule. Pure.

In come the ofnet rules (`netmaster.plan.show.ofnet_rules`) and the endpoints of a view; out come
verdicts for a source, a destination and a kind of traffic, and what another set of rules changes.
Endpoints of one group to which the rules' addresses apply alike are looked at once.
"""

# A connection is allowed if its packets and its answers are. A rule without a port also applies to
# answers of UDP and ICMP, so that a rule about packets from A to B may end what B asks of A.
#
# Traffic is told apart by what rules can tell apart: each protocol and each port that a rule names,
# and all others as one. A client's own port is never one that a rule names; a real client that
# has one by chance gets that rule's answer, too.
#
# Ends are told apart in the same way: by group, and by which of the rules' addresses they are in.
# So what is looked at depends on the rules, not on the number of endpoints.

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_network
from itertools import product
from typing import Final, NamedTuple

from core.addresses import ipv4, ipv6
from core.ids import TenantName
from state.policy_rules import NEW_CONNECTION, PROTOCOLS, TCP, UDP, OfnetRule

NO_GROUP: Final = 0
"""The number of the group of endpoints that have none; in a rule it means any."""

ANY_PROTOCOL: Final = 0
"""All protocols that no rule names."""

ANY_PORT: Final = 0
"""All ports that no rule names."""

_NAMES: Final = {number: name for name, number in PROTOCOLS.items()}


@dataclass(frozen=True, slots=True, order=True)
class TrafficKind:
    """A kind of traffic: `protocol` and `port` (TCP and UDP) of the destination, 0 for others."""

    protocol: int
    port: int = ANY_PORT

    @property
    def text(self) -> str:
        """The traffic in words, such as `tcp/80`, `tcp`, `47` or `any`."""
        name = (_NAMES.get(self.protocol) or str(self.protocol)) if self.protocol else "any"
        return f"{name}/{self.port}" if self.port else name


@dataclass(frozen=True, slots=True, order=True)
class ReachEnd:
    """Endpoints that all rules treat alike: of one tenant, group, family and set of addresses."""

    tenant: TenantName
    group: int
    version: int
    inside: tuple[str, ...] = ()
    """Which addresses of rules they are in."""


@dataclass(frozen=True, slots=True)
class ReachVerdict:
    """What becomes of a connection; `rules` are those that decide, none if no rule applies.

    `answers`: its packets pass, and these rules are about its answers. Rules of one priority that
    contradict each other leave it open, which counts as denied.
    """

    allowed: bool
    rules: tuple[str, ...] = ()
    answers: bool = False


@dataclass(frozen=True, slots=True)
class Shift:
    """A kind of traffic between two ends of which the verdict changes."""

    source: ReachEnd
    destination: ReachEnd
    traffic: TrafficKind
    before: ReachVerdict
    after: ReachVerdict


@dataclass(frozen=True)
class Rules:
    """The ofnet rules of a cluster; those that decide are found by the groups they are about."""

    by_id: Mapping[str, OfnetRule] = field(default_factory=dict)

    @cached_property
    def _by_groups(self) -> Mapping[tuple[int, int], list[OfnetRule]]:
        found = defaultdict(list)
        for rule in self.by_id.values():
            if not rule.audit:
                found[rule.src_group, rule.dst_group].append(rule)
        return found

    def between(self, source: int, destination: int) -> Iterator[OfnetRule]:
        """Yield the rules about packets of one group to another."""
        for pair in product({source, NO_GROUP}, {destination, NO_GROUP}):
            yield from self._by_groups.get(pair, ())

    def verdict(
        self, source: ReachEnd, destination: ReachEnd, traffic: TrafficKind
    ) -> ReachVerdict:
        """Return whether one end may open a connection to another."""
        asked = self._decisive(source, destination, traffic, is_answer=False)
        if not asked.allowed:
            return asked
        answered = self._decisive(destination, source, traffic, is_answer=True)
        return asked if answered.allowed else answered

    def _decisive(
        self, sender: ReachEnd, receiver: ReachEnd, traffic: TrafficKind, *, is_answer: bool
    ) -> ReachVerdict:
        found = [
            rule
            for rule in self.between(sender.group, receiver.group)
            if _is_about(rule, traffic, is_answer=is_answer)
            and _is_in(rule.src_address, sender)
            and _is_in(rule.dst_address, receiver)
        ]
        highest = max((rule.priority for rule in found), default=0)
        said = [rule for rule in found if rule.priority == highest]
        names = tuple(sorted(rule.rule_id for rule in said))
        return ReachVerdict(all(rule.action == "allow" for rule in said), names, is_answer)


class _Block(NamedTuple):
    """The addresses of one side of a rule: its text, and the bits that they have in common."""

    text: str
    mask: int
    address: int


class Ends:
    """The ends of a cluster's endpoints, as far as some rules tell them apart."""

    def __init__(self, rules: Iterable[OfnetRule]) -> None:
        texts = {text for rule in rules for text in (rule.src_address, rule.dst_address)} - {""}
        self._blocks: dict[int, list[_Block]] = {4: [], 6: []}
        """By address family, sorted by their text."""
        for text in sorted(texts):
            block = ip_network(text)
            masked = _Block(text, int(block.netmask), int(block.network_address))
            self._blocks[block.version].append(masked)
        self.counts: dict[ReachEnd, int] = defaultdict(int)
        """How many endpoints are of an end."""

    @property
    def blocks(self) -> int:
        """How many addresses of rules an endpoint is compared with."""
        return sum(map(len, self._blocks.values()))

    def add(self, tenant: TenantName, group: int, addresses: Iterable[str]) -> None:
        """Count an endpoint; `group` is its number."""
        for text in filter(None, addresses):
            version = 6 if ":" in text else 4
            blocks = self._blocks[version]
            inside: tuple[str, ...] = ()
            if blocks:  # most rules are about groups, so that most addresses need not be read
                address = ipv6(text) if version == 6 else ipv4(text)
                inside = tuple(one.text for one in blocks if address & one.mask == one.address)
            self.counts[ReachEnd(tenant, group, version, inside)] += 1

    def matching(self, group: int, address: str) -> Iterator[ReachEnd]:
        """Yield the ends to which one side of a rule applies."""
        for end in self.counts:
            if group in {NO_GROUP, end.group} and _is_in(address, end):
                yield end


def shifts(before: Rules, after: Rules, ends: Ends) -> Iterator[Shift]:
    """Yield what other rules change; `ends` tell apart what both sets of rules do.

    Pairs of different tenants are left out: their endpoints do not reach each other, by no rule.
    """
    changed = [
        rule
        for rules, others in ((before, after), (after, before))
        for name, rule in rules.by_id.items()
        if others.by_id.get(name) != rule
    ]
    seen = set[tuple[ReachEnd, ReachEnd, TrafficKind]]()
    for rule in changed:
        for source, destination, traffic in _concerned(rule, ends, (before, after)):
            if (source, destination, traffic) in seen:
                continue
            seen.add((source, destination, traffic))
            was, will = (one.verdict(source, destination, traffic) for one in (before, after))
            if was.allowed != will.allowed:
                yield Shift(source, destination, traffic, was, will)


def traffic_between(rules: Iterable[OfnetRule]) -> set[TrafficKind]:
    """Return the kinds of traffic that some rules tell apart."""
    found = {TrafficKind(ANY_PROTOCOL)}
    for rule in rules:
        if rule.protocol:
            found.add(TrafficKind(rule.protocol))
        if rule.protocol in {TCP, UDP}:
            found.add(TrafficKind(rule.protocol, rule.dst_port or rule.src_port))
    return found


def rule_key(rule_id: str) -> str:
    """Return the key of the rule that an ofnet rule was derived from (`state.policy_rules`)."""
    return ":".join(rule_id.split(":")[4:7])


def _concerned(
    rule: OfnetRule, ends: Ends, both: Iterable[Rules]
) -> Iterator[tuple[ReachEnd, ReachEnd, TrafficKind]]:
    """Yield the connections of which packets or answers are what a rule is about."""
    senders = list(ends.matching(rule.src_group, rule.src_address))
    receivers = list(ends.matching(rule.dst_group, rule.dst_address))
    for sender, receiver in product(senders, receivers):
        if (sender.tenant, sender.version) != (receiver.tenant, receiver.version):
            continue
        about = [
            one
            for rules in both
            for pair in ((sender, receiver), (receiver, sender))
            for one in rules.between(pair[0].group, pair[1].group)
        ]
        for traffic in traffic_between(about):
            if _is_about(rule, traffic, is_answer=False):
                yield sender, receiver, traffic
            if _is_about(rule, traffic, is_answer=True):
                yield receiver, sender, traffic


def _is_about(rule: OfnetRule, traffic: TrafficKind, *, is_answer: bool) -> bool:
    """Return whether a rule is about a connection's packets, or its answers."""
    if rule.protocol not in {ANY_PROTOCOL, traffic.protocol}:
        return False
    if is_answer and rule.tcp_flags == NEW_CONNECTION:
        return False
    if rule.protocol not in {TCP, UDP}:  # the port of any other rule means nothing
        return True
    own, other = rule.dst_port, rule.src_port
    if is_answer:
        own, other = other, own
    return own in {ANY_PORT, traffic.port} and other == ANY_PORT


def _is_in(address: str, end: ReachEnd) -> bool:
    return not address or address in end.inside
