"""What hosts have applied of the leader's changes, from their agents' reports.

`netmaster.hosts.host_inventory` reads which agents are registered, `netmaster.api.leader.hosts`
shows the result. Does no I/O itself.

A host is behind until its agent has applied the last change under every prefix that agents watch.
The revision of that change is the leader's own commit, or what the store showed when its view was
loaded. What a former leader deleted last is not known, because the store keeps no revision of a
deleted key; a later change under the same prefix covers it.

Revisions are compared within one history only (`state.lineage`): what an agent reported before the
leader's term began says nothing.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from contivmodel.answers import Count
from core import keys
from core.version import VERSION
from ofnet.rpc.control import AgentReport, Node
from state.records import HostRecord
from state.watch import AGENT_PREFIXES

NO_AGENT: Final = "no agent is registered"
NOT_REPORTED: Final = "its agent has not reported yet"
OTHER_HISTORY: Final = "its agent has not reported since the leader's term began"
OVERDUE: Final = (
    "its agent's reports do not come any more, what is shown is old: does the agent hang, or does "
    "a firewall keep it from TCP port 9001 (--ofnet-port) of the leading netmaster?"
)


MOST_REMOVALS: Final = 10_000
"""Policies of which is known when a rule was removed last."""

_WATCHED: Final = re.compile("|".join(map(re.escape, AGENT_PREFIXES)))


@dataclass(slots=True)
class PrefixRevisions:
    """The revision of the last change under each prefix that agents watch."""

    # Kept by prefix, not by key. An agent has one watch for each prefix, and a watch delivers
    # changes in order: the revision it has reached covers all earlier changes under the prefix.

    revisions: dict[str, int] = field(default_factory=dict)
    removals: dict[str, int] = field(default_factory=dict)
    """The revision at which the last rule of a policy was removed, by the policy's key."""

    def remove(self, key: str, rev: int) -> None:
        """Take note that a key was deleted at a revision, as `update` does of a change.

        A policy is not realised while a host has a rule that it has no more. The store keeps
        nothing of that.
        """
        self.update(key, rev)
        if key.startswith(keys.RULES):
            policy = keys.after(keys.RULES, key).rpartition(":")[0]
            self.removals.pop(policy, None)
            self.removals[policy] = rev
            if len(self.removals) > MOST_REMOVALS:
                del self.removals[next(iter(self.removals))]

    def update(self, key: str, rev: int) -> None:
        """Take note of a change of a key at a revision, if agents watch the key."""
        found = _WATCHED.match(key)
        if found is not None and rev > self.revisions.get(found[0], 0):
            self.revisions[found[0]] = rev


def policy_revisions(revisions: Mapping[str, int]) -> dict[str, int]:
    """Return the revisions of the prefixes that decide which policies hold for an endpoint."""
    return {prefix: revisions[prefix] for prefix in _POLICIES if prefix in revisions}


_POLICIES: Final = (keys.NETWORKS, keys.GROUPS, keys.GROUP_OBJECTS, keys.RULES, keys.ENDPOINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedHost:
    """A host, whether its agent is registered, and the last report from each agent address.

    `faults` say why its record, which is empty then, or its registrations cannot be used.
    """

    record: HostRecord
    faults: Sequence[str] = ()
    registered: bool
    reports: Mapping[Node, AgentReport | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """What the leader stores about a host: endpoints, a drain, since when its agent is missing.

    `faults` is what is wrong with its addresses, beside those of networks and other hosts.
    """

    endpoints: int = 0
    drained: bool = False
    missing_since: float | None = None
    faults: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Applicable:
    """What a host is to apply: the last change under each prefix, in the history of a term."""

    revisions: Mapping[str, int]
    history: str = ""


def unapplied_reason(wanted: Applicable, reports: Collection[AgentReport | None]) -> str:
    """Return why a host with an agent has not applied all that was changed; "" if it has."""
    if not reports or any(report is None or not report.host for report in reports):
        return NOT_REPORTED
    if any(report and report.history not in {None, wanted.history} for report in reports):
        return OTHER_HISTORY
    return ", ".join(
        f"{prefix.removeprefix(keys.ROOT)} at {reached} of {rev}"
        for prefix, rev in wanted.revisions.items()
        if (reached := min(_applied(report, prefix) for report in reports)) < rev
    )


@with_config(ConfigDict(title="Host"))
class ShownHost(TypedDict):
    """A host, what its agents have applied and what is wrong with it."""

    label: str
    controlIP: str
    vtepIP: str
    vtepIP6: NotRequired[
        Annotated[str, Field(description="a second tunnel address, of IPv6, where it has both")]
    ]
    uplinkMACs: list[str]
    version: str
    registered: bool
    ends: list[str]
    applied: bool
    behind: Annotated[str, Field(description="why the host has not applied all that was changed")]
    errors: list[str]
    endpoints: Count
    drained: bool
    missingSince: NotRequired[
        Annotated[
            float,
            Field(
                description="since when its agent is not registered, in seconds since 1970, "
                "where known"
            ),
        ]
    ]
    masterVersion: NotRequired[
        Annotated[
            str,
            Field(description="the version of the leading netmaster, where the agent's is another"),
        ]
    ]


def shown_host(
    host: ObservedHost, wanted: Applicable, state: HostState, now: float = 0.0
) -> ShownHost:
    """Return a host as REST shows it; `now` is by the clock of its reports."""
    reason = unapplied_reason(wanted, host.reports.values()) if host.registered else NO_AGENT
    record = host.record
    shown: ShownHost = {
        "label": record.label,
        "controlIP": record.control_ip,
        "vtepIP": record.vtep_ip,
        "uplinkMACs": list(record.uplink_macs),
        "version": record.version,
        "registered": host.registered,
        "ends": [str(node) for node in host.reports],
        "applied": not reason,
        "behind": reason,
        "errors": list(dict.fromkeys((*_errors(host, now), *state.faults))),
        "endpoints": state.endpoints,
        "drained": state.drained,
    }
    if record.vtep_ip6:
        shown["vtepIP6"] = record.vtep_ip6
    if host.registered and record.version not in ("", VERSION):
        shown["masterVersion"] = VERSION
    if state.missing_since is not None and not host.registered:
        shown["missingSince"] = state.missing_since
    return shown


def _applied(report: AgentReport | None, prefix: str) -> int:
    return 0 if report is None else report.revisions.get(prefix, 0)


def _errors(host: ObservedHost, now: float) -> Iterator[str]:
    yield from host.faults
    addresses = sorted({node.host for node in host.reports})
    if len(addresses) > 1:
        named = " and ".join(addresses)
        yield f"agents at {named} have this label: give each host its own --host"
    yield from reported_errors(host.reports.values(), now)


def reported_errors(reports: Collection[AgentReport | None], now: float) -> Iterator[str]:
    """Yield what the agents of a host report, and whether their reports are old."""
    if any(report is not None and report.is_overdue(now) for report in reports):
        yield OVERDUE
    for report in reports:
        if report is not None:
            yield from report.errors
