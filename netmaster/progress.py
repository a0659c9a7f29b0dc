"""What hosts have applied of the leader's changes, from their agents' reports. Pure.

A host is behind until its agent has realised, under every prefix that agents follow, the last
revision at which the leader or one before it changed something there. What a former leader deleted
last is not known, for nothing in the store tells its revision; a later change under the same prefix
covers it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core import keys
from ofnet.control import Node, Report
from state.records import HostRecord
from state.watch import AGENT_PREFIXES

NO_AGENT: Final = "no agent is registered"
SILENT: Final = "its agent has not reported yet"


@dataclass(slots=True)
class Marks:
    """The last revision at which something was changed, by the prefix that agents follow."""

    revisions: dict[str, int] = field(default_factory=dict)

    def note(self, key: str, rev: int) -> None:
        """Note that a key was changed."""
        prefix = next((prefix for prefix in AGENT_PREFIXES if key.startswith(prefix)), None)
        if prefix is not None and rev > self.revisions.get(prefix, 0):
            self.revisions[prefix] = rev


def policy_marks(marks: Mapping[str, int]) -> dict[str, int]:
    """Return the marks of what says which policies hold for an endpoint, and what they are."""
    return {prefix: marks[prefix] for prefix in _POLICIES if prefix in marks}


_POLICIES: Final = (keys.NETWORKS, keys.GROUPS, keys.GROUP_OBJECTS, keys.RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHost:
    """A host, and what each of its agent's registered ends has said."""

    record: HostRecord
    ends: Mapping[Node, Report | None]


def behind(marks: Mapping[str, int], reports: Collection[Report | None]) -> str:
    """Return why a host has not applied all that was changed; "" if it has."""
    if not reports:
        return NO_AGENT
    for report in reports:
        if report is None or not report.host:
            return SILENT
    return ", ".join(
        f"{prefix.removeprefix(keys.ROOT)} at {reached} of {mark}"
        for prefix, mark in marks.items()
        if (reached := min(_reached(report, prefix) for report in reports)) < mark
    )


def state_of(host: KnownHost, marks: Mapping[str, int], endpoints: int) -> dict[str, Any]:
    """Return a host as REST shows it; `endpoints` is how many it has."""
    why = behind(marks, host.ends.values())
    record = host.record
    return {
        "label": record.label,
        "controlIP": record.control_ip,
        "vtepIP": record.vtep_ip,
        "uplinkMACs": list(record.uplink_macs),
        "version": record.version,
        "registered": bool(host.ends),
        "ends": [str(node) for node in host.ends],
        "applied": not why,
        "behind": why,
        "errors": list(dict.fromkeys(_errors(host.ends.values()))),
        "endpoints": endpoints,
    }


def _reached(report: Report | None, prefix: str) -> int:
    return 0 if report is None else report.revisions.get(prefix, 0)


def _errors(reports: Iterable[Report | None]) -> Iterable[str]:
    return (error for report in reports if report is not None for error in report.errors)
