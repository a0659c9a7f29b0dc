"""Decisions about hosts whose agents are missing: since when, and whether for too long.

Observations come in from `netmaster.dead_hosts`. The begin of an absence is stored, so it survives
a change of leader. It is tied to the revision of the host's record, which an agent writes at each
start: an agent that was back for a moment starts the absence anew.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final

from core import keys
from core.ids import HostLabel
from netmaster.plan.model import Plan
from netmaster.stored import HostAbsence, Write
from netmaster.view import View

CHUNK: Final = 24
"""How many hosts one plan writes about."""


def update(
    view: View, absent: Mapping[HostLabel, int], confirmed: Collection[HostLabel], now: float
) -> Plan:
    """Store who is missing since `now`, delete who is back; the reply is the number of changes.

    `absent` are the hosts whose agents are not registered at the moment, with the revision of
    their records; `confirmed` are those of them whose absence is certain. One plan makes some of
    the changes: repeat until there are none.
    """
    writes = tuple(islice(_changes(view, absent, confirmed, now), CHUNK))
    return Plan(writes, reply=len(writes))


def due(
    view: View, confirmed: Mapping[HostLabel, int], now: float, after: float
) -> list[HostAbsence]:
    """Return the absences that have lasted `after` seconds and are confirmed at this moment."""
    return [
        absence
        for label, rev in confirmed.items()
        if (absence := view.absences.get(label)) is not None
        and absence.rev == rev
        and absence.since + after <= now
    ]


def _changes(
    view: View, absent: Mapping[HostLabel, int], confirmed: Collection[HostLabel], now: float
) -> Iterator[Write]:
    for label, known in view.absences.items():
        if absent.get(label) != known.rev:
            yield Write(keys.absence(label), None, new=False)
    for label in confirmed:
        if label not in view.absences:
            yield Write(keys.absence(label), HostAbsence(label, now, absent[label]), new=True)
