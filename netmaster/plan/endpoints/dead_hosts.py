"""Decisions about hosts whose agents are missing: for how long, and whether for too long.

Observations come in from `netmaster.hosts.dead_hosts`. How long a host has been absent is stored in
parts as a leader observes it, so most of it survives a change of leader. It is tied to the revision
of the host's record, which an agent writes at each start: an agent that was back for a moment
starts the absence anew. So does a host that renews its address blocks: it may use them for as long
as this renewal promised, so what was counted before does not count (ADR 29).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from core import keys
from core.ids import HostLabel
from netmaster.plan.model import Plan
from netmaster.stored import BlockLease, HostAbsence, Write
from netmaster.view import View

CHUNK: Final = 24
"""How many hosts one plan writes about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a scan found, by host.

    `absent` are the hosts whose agents are not registered at the moment, with the revision of their
    records; `confirmed` are those of them whose absence is certain. `seconds` are totals to store.
    `now` is the wall clock, for display.
    """

    absent: Mapping[HostLabel, int]
    confirmed: Mapping[HostLabel, int]
    seconds: Mapping[HostLabel, float]
    now: float


def update(view: View, observed: Observed) -> Plan:
    """Store who is missing and for how long, delete who is back; the reply is how many changes.

    One plan makes some of the changes: repeat until there are none.
    """
    writes = tuple(islice(_changes(view, observed), CHUNK))
    return Plan(writes, reply=len(writes))


def absences(view: View, confirmed: Mapping[HostLabel, int]) -> list[HostAbsence]:
    """Return the stored absences that are confirmed at this moment."""
    return [
        absence
        for label, rev in confirmed.items()
        if (absence := view.absences.get(label)) is not None
        and (absence.rev, absence.renewal) == (rev, renewal(view, label))
    ]


def renewal(view: View, label: HostLabel) -> str:
    """Return the last renewal of a host's address blocks, "" if it has none."""
    lease = view.block_leases.get(label)
    return lease.renewal if lease else ""


def holders(view: View) -> Mapping[HostLabel, BlockLease]:
    """Return the hosts that hold addresses ahead of their pods."""
    return dict(view.block_leases)


def _changes(view: View, observed: Observed) -> Iterator[Write]:
    for label, known in view.absences.items():
        absent_again = known.renewal != renewal(view, label)  # it renewed its blocks meanwhile
        if observed.absent.get(label) != known.rev or absent_again:
            yield Write(keys.absence(label), None, new=False)
        elif observed.seconds.get(label, 0.0) > known.seconds:
            longer = replace(known, seconds=observed.seconds[label])
            yield Write(keys.absence(label), longer, new=False)
    for label, rev in observed.confirmed.items():
        if label not in view.absences:
            absence = HostAbsence(label, observed.now, rev, renewal=renewal(view, label))
            yield Write(keys.absence(label), absence, new=True)
