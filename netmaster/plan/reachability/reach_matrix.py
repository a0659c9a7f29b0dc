"""Which groups of a tenant may open connections to which, for `GET /api/v2/reach`. Pure.

In come a view and a tenant; out come its groups and, for each pair that any rule is about, each
kind of traffic with its verdict and the rules that decide. A pair that is left out has no rule, so
everything is allowed. Next: `netmaster.plan.reachability.reach`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from contivmodel.answers import Count
from contivmodel.objects import Tenant
from core.errors import NotFound
from core.ids import TenantName
from netmaster.plan.reachability.reach import (
    NO_GROUP,
    Ends,
    ReachEnd,
    Rules,
    TrafficKind,
    rule_key,
    traffic_between,
)
from netmaster.plan.show.ofnet_rules import ofnet_rules
from netmaster.view import View
from state.policy_rules import OfnetRule
from state.records import EndpointRecord


class ReachGroup(TypedDict):
    """A group of the tenant."""

    name: Annotated[str, Field(description="empty for endpoints without a group")]
    endpoints: Count


class ReachTraffic(TypedDict):
    """What rules say of a kind of traffic between two groups."""

    traffic: Annotated[str, Field(description="as `tcp/80`, `tcp`, `47`; `any` is all other")]
    verdict: Literal["allowed", "denied", "partly"]
    by: Annotated[list[str], Field(description="the rules that decide; none if no rule applies")]
    answers: Annotated[bool, Field(description="the rules deny answers alone")]


class ReachPair(TypedDict):
    """Two groups, and the traffic that rules about them tell apart."""

    source: str
    destination: str
    traffic: list[ReachTraffic]


class Reach(TypedDict):
    """Which groups of a tenant may open connections to which."""

    tenant: str
    groups: list[ReachGroup]
    pairs: list[ReachPair]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixLimits:
    """How much is compared for a matrix."""

    pairs: int = 40_000
    """Pairs of groups that are looked at."""

    verdicts: int = 10_000
    """Verdicts that are reached: a second of the leader's time or less, on a busy machine."""

    work: int = 300_000
    """Endpoints times addresses of rules that are compared."""


LIMITS: Final = MatrixLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachQuery:
    """Whose groups are asked for; `source` and `destination` are names of groups, "" for all."""

    tenant: TenantName
    source: str = ""
    destination: str = ""


@dataclass(frozen=True, slots=True)
class _Tenant:
    """Names of a tenant's groups by number, and their endpoints."""

    names: Mapping[int, str]
    endpoints: Mapping[int, Collection[EndpointRecord]]


def matrix(view: View, asked: ReachQuery, limits: MatrixLimits = LIMITS) -> Reach:
    """Return the matrix; `complete` is false where there is too much to be told whole.

    Raises NotFound for a tenant that does not exist.
    """
    if asked.tenant not in view.objects[Tenant.kind]:
        raise NotFound(f"tenant {asked.tenant} not found")
    of = _of(view, asked.tenant)
    rules = Rules({name: one for name, one in ofnet_rules(view).items() if _concerns(one, of)})
    sources = [number for number, name in of.names.items() if asked.source in {"", name}]
    others = [number for number, name in of.names.items() if asked.destination in {"", name}]
    told: Reach = {
        "tenant": asked.tenant,
        "groups": [
            {"name": name, "endpoints": len(of.endpoints[number])}
            for number, name in of.names.items()
            if number in {*sources, *others}
        ],
        "pairs": [],
        "complete": len(sources) * len(others) <= limits.pairs,
    }
    ends = _ends(asked.tenant, of, rules, limits.work) if told["complete"] else None
    if ends is None:
        return {**told, "complete": False}
    left = limits.verdicts
    for source, destination in product(sources, others):
        kinds = _kinds(rules, source, destination)
        left -= len(kinds) * len(ends[source]) * len(ends[destination])
        if left < 0:
            return {**told, "complete": False}
        if kinds:
            shown = [_shown(rules, ends[source], ends[destination], one) for one in kinds]
            told["pairs"].append(
                {
                    "source": of.names[source],
                    "destination": of.names[destination],
                    "traffic": shown,
                }
            )
    return told


def _of(view: View, tenant: TenantName) -> _Tenant:
    endpoints: dict[int, list[EndpointRecord]] = defaultdict(list)
    for nid, network in view.networks.items():
        if network.tenant == tenant:
            for key in view.network_endpoints.get(nid, ()):
                endpoints[view.endpoints[key].group_id].append(view.endpoints[key])
    named = sorted(
        (str(one.name), one.group_id) for one in view.groups.values() if one.tenant == tenant
    )
    names = {number: name for name, number in named}
    if NO_GROUP in endpoints:
        names[NO_GROUP] = ""
    return _Tenant(names, endpoints)


def _concerns(rule: OfnetRule, of: _Tenant) -> bool:
    return bool({rule.src_group, rule.dst_group} & (of.names.keys() - {NO_GROUP}))


def _ends(
    tenant: TenantName, of: _Tenant, rules: Rules, most_work: int
) -> dict[int, list[ReachEnd]] | None:
    """Return the ends of each group; of one without endpoints, what any address would be.

    None if there are too many to compare.
    """
    found = Ends(rules.by_id.values())
    if sum(map(len, of.endpoints.values())) * found.blocks > most_work:
        return None
    if not found.blocks:  # all endpoints of a group are alike, and none need be looked at
        return {number: [ReachEnd(tenant, number, 4)] for number in of.names}
    for number, endpoints in of.endpoints.items():
        for one in endpoints:
            found.add(tenant, number, (one.ip_address, one.ipv6_address))
    by_group: dict[int, list[ReachEnd]] = defaultdict(list)
    for end in found.counts:
        by_group[end.group].append(end)
    return {number: by_group[number] or [ReachEnd(tenant, number, 4)] for number in of.names}


def _kinds(rules: Rules, source: int, destination: int) -> list[TrafficKind]:
    """Return the kinds of traffic that rules about a pair tell apart; none without a rule."""
    about = [*rules.between(source, destination), *rules.between(destination, source)]
    return sorted(traffic_between(about)) if about else []


def _shown(
    rules: Rules,
    sources: Iterable[ReachEnd],
    destinations: Collection[ReachEnd],
    traffic: TrafficKind,
) -> ReachTraffic:
    verdicts = [rules.verdict(*pair, traffic) for pair in _reaching(sources, destinations)]
    allowed = {verdict.allowed for verdict in verdicts}
    denying = [verdict for verdict in verdicts if not verdict.allowed]
    by = {rule_key(rule) for verdict in verdicts for rule in verdict.rules}
    return {
        "traffic": traffic.text,
        "verdict": "partly" if len(allowed) > 1 else "denied" if denying else "allowed",
        "by": sorted(by),
        "answers": bool(denying) and all(verdict.answers for verdict in denying),
    }


def _reaching(
    sources: Iterable[ReachEnd], destinations: Collection[ReachEnd]
) -> Iterator[tuple[ReachEnd, ReachEnd]]:
    """Yield the pairs of one address family."""
    for source, destination in product(sources, destinations):
        if source.version == destination.version:
            yield source, destination
