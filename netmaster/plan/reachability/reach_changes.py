"""Changes of reachability between groups, for dry runs. Pure.

In come the view before a change and the one after; out come the pairs of groups between which
traffic becomes allowed or denied, with the rules that decide and how many endpoints it concerns.
Next: `netmaster.plan.reachability.reach`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from typing_extensions import TypedDict

from netmaster.plan.reachability.reach import (
    NO_GROUP,
    Ends,
    ReachEnd,
    Rules,
    Shift,
    TrafficKind,
    rule_key,
    shifts,
)
from netmaster.plan.show.ofnet_rules import ofnet_rules
from netmaster.view import View
from state.policy_rules import OfnetRule
from state.records import EndpointRecord


class ReachChange(TypedDict):
    """Traffic between two groups that becomes allowed or denied, and the rules that decide."""

    tenant: str
    source: str
    destination: str
    traffic: str
    becomes: Literal["allowed", "denied"]
    by: list[str]
    before: list[str]
    sources: int
    destinations: int


class ReachChanges(TypedDict):
    """What a change means for which groups reach each other."""

    changes: list[ReachChange]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLimits:
    """How much is compared, and told."""

    changes: int = 1000
    """Reported group pairs."""

    work: int = 1_000_000
    """Endpoints times addresses of rules: a second of the leader's time or less."""


LIMITS: Final = ChangeLimits()


@dataclass(frozen=True, slots=True)
class _Pair:
    """Traffic between two groups of a tenant that is decided in one way before, in one after."""

    tenant: str
    source: int
    destination: int
    traffic: TrafficKind
    allowed: bool
    rules: tuple[str, ...]
    before: tuple[str, ...]


@dataclass(slots=True)
class _Concerned:
    """The ends that a change between two groups concerns, by address family."""

    sources: dict[int, set[ReachEnd]] = field(default_factory=lambda: defaultdict(set))
    destinations: dict[int, set[ReachEnd]] = field(default_factory=lambda: defaultdict(set))

    def add(self, shift: Shift) -> None:
        """Count the ends of a shift."""
        self.sources[shift.source.version].add(shift.source)
        self.destinations[shift.destination.version].add(shift.destination)


def compare(before: View, after: View, limits: ChangeLimits = LIMITS) -> ReachChanges:
    """Return what changes; `complete` is false where there is too much to be told whole."""
    was, will = Rules(ofnet_rules(before)), Rules(ofnet_rules(after))
    changed = [rule for rule in _all(was, will) if _differs(rule, was, will)]
    if not changed:
        return {"changes": [], "complete": True}
    ends = Ends(_all(was, will))
    endpoints = _endpoints(after, changed)
    if len(endpoints) * max(1, ends.blocks) > limits.work:
        return {"changes": [], "complete": False}
    for endpoint in endpoints:
        tenant = after.networks[endpoint.network].tenant
        ends.add(tenant, endpoint.group_id, (endpoint.ip_address, endpoint.ipv6_address))
    pairs: dict[_Pair, _Concerned] = defaultdict(_Concerned)
    complete = True
    for shift in shifts(was, will, ends):
        if shift.source == shift.destination and ends.counts[shift.source] == 1:
            continue  # an endpoint and itself
        pair = _pair(shift)
        if pair not in pairs and len(pairs) == limits.changes:
            complete = False
            break
        pairs[pair].add(shift)
    names = {record.group_id: str(record.name) for record in after.groups.values()}
    shown = [_shown(pair, concerned, ends, names) for pair, concerned in pairs.items()]
    return {"changes": shown, "complete": complete}


def _all(*sets: Rules) -> Iterable[OfnetRule]:
    return (rule for rules in sets for rule in rules.by_id.values())


def _differs(rule: OfnetRule, was: Rules, will: Rules) -> bool:
    return was.by_id.get(rule.rule_id) != will.by_id.get(rule.rule_id)


def _endpoints(view: View, changed: Iterable[OfnetRule]) -> list[EndpointRecord]:
    """Return the endpoints that changed rules may be about."""
    groups = {group for rule in changed for group in (rule.src_group, rule.dst_group)}
    if NO_GROUP in groups:
        return list(view.endpoints.values())
    return [one for one in view.endpoints.values() if one.group_id in groups]


def _pair(shift: Shift) -> _Pair:
    return _Pair(
        shift.source.tenant,
        shift.source.group,
        shift.destination.group,
        shift.traffic,
        shift.after.allowed,
        tuple(sorted({rule_key(one) for one in shift.after.rules})),
        tuple(sorted({rule_key(one) for one in shift.before.rules})),
    )


def _shown(pair: _Pair, concerned: _Concerned, ends: Ends, names: Mapping[int, str]) -> ReachChange:
    return {
        "tenant": pair.tenant,
        "source": names.get(pair.source, ""),
        "destination": names.get(pair.destination, ""),
        "traffic": pair.traffic.text,
        "becomes": "allowed" if pair.allowed else "denied",
        "by": list(pair.rules),
        "before": list(pair.before),
        "sources": _count(concerned.sources, ends),
        "destinations": _count(concerned.destinations, ends),
    }


def _count(by_family: Mapping[int, set[ReachEnd]], ends: Ends) -> int:
    """Return how many endpoints some ends have; one with both families counts once."""
    return max(sum(ends.counts[end] for end in some) for some in by_family.values())
