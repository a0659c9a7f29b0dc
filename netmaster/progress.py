"""What hosts have applied of the leader's changes, from their agents' reports. Pure.

`netmaster.host_inventory` says whose agents are registered, `netmaster.api.hosts` shows what comes
out.

A host is behind until its agent has realised, under every prefix that agents follow, the last
revision at which the leader or one before it changed something there. What a former leader deleted
last is not known, for nothing in the store tells its revision; a later change under the same prefix
covers it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core import keys
from ofnet.rpc.control import Node, Report
from state.records import HostRecord
from state.watch import AGENT_PREFIXES

NO_AGENT: Final = "no agent is registered"
SILENT: Final = "its agent has not reported yet"


_FOLLOWED: Final = re.compile("|".join(map(re.escape, AGENT_PREFIXES)))


@dataclass(slots=True)
class Marks:
    """The last revision at which something was changed, by the prefix that agents follow."""

    revisions: dict[str, int] = field(default_factory=dict)

    def note(self, key: str, rev: int) -> None:
        """Note that a key was changed."""
        found = _FOLLOWED.match(key)
        if found is not None and rev > self.revisions.get(found[0], 0):
            self.revisions[found[0]] = rev


def policy_marks(marks: Mapping[str, int]) -> dict[str, int]:
    """Return the marks of what says which policies hold for an endpoint, and between whom."""
    return {prefix: marks[prefix] for prefix in _POLICIES if prefix in marks}


_POLICIES: Final = (keys.NETWORKS, keys.GROUPS, keys.GROUP_OBJECTS, keys.RULES, keys.ENDPOINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHost:
    """A host, whether its agent is registered, and what each of that one's ends has said.

    `fault` says why the record, which is empty then, cannot be read.
    """

    record: HostRecord
    fault: str = ""
    registered: bool
    ends: Mapping[Node, Report | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What the leader keeps of a host: endpoints, a drain, since when its agent is missing."""

    endpoints: int = 0
    drained: bool = False
    missing_since: float | None = None


def behind(marks: Mapping[str, int], reports: Collection[Report | None]) -> str:
    """Return why a host with an agent has not applied all that was changed; "" if it has."""
    if not reports or any(report is None or not report.host for report in reports):
        return SILENT
    return ", ".join(
        f"{prefix.removeprefix(keys.ROOT)} at {reached} of {mark}"
        for prefix, mark in marks.items()
        if (reached := min(_reached(report, prefix) for report in reports)) < mark
    )


def state_of(host: KnownHost, marks: Mapping[str, int], upkeep: Upkeep) -> dict[str, Any]:
    """Return a host as REST shows it."""
    why = behind(marks, host.ends.values()) if host.registered else NO_AGENT
    record = host.record
    shown = {
        "label": record.label,
        "controlIP": record.control_ip,
        "vtepIP": record.vtep_ip,
        "uplinkMACs": list(record.uplink_macs),
        "version": record.version,
        "registered": host.registered,
        "ends": [str(node) for node in host.ends],
        "applied": not why,
        "behind": why,
        "errors": list(dict.fromkeys(_errors(host))),
        "endpoints": upkeep.endpoints,
        "drained": upkeep.drained,
    }
    if upkeep.missing_since is not None and not host.registered:
        shown["missingSince"] = upkeep.missing_since
    return shown


def _reached(report: Report | None, prefix: str) -> int:
    return 0 if report is None else report.revisions.get(prefix, 0)


def _errors(host: KnownHost) -> Iterator[str]:
    if host.fault:
        yield host.fault
    for report in host.ends.values():
        if report is not None:
            yield from report.errors
