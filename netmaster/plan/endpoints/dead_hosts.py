"""Decisions about hosts whose agents are missing: since when, and whether for too long.

What was seen comes in from `netmaster.dead_hosts`. Since when is stored, so that it survives a
change of leader; it is tied to the revision of the host's record, which an agent writes when it
starts.
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


def note(
    view: View, absent: Mapping[HostLabel, int], believed: Collection[HostLabel], now: float
) -> Plan:
    """Note who is missing since `now`, forget who is back; the reply is how many that were.

    `absent` are the hosts whose agents are not registered at the moment, with the revision of
    their records; `believed` those of them of which that is certain. Go on until there are none.
    """
    writes = tuple(islice(_changes(view, absent, believed, now), CHUNK))
    return Plan(writes, reply=len(writes))


def due(
    view: View, believed: Mapping[HostLabel, int], now: float, after: float
) -> list[HostAbsence]:
    """Return the absences that have lasted `after` seconds and are certain to go on."""
    return [
        absence
        for label, rev in believed.items()
        if (absence := view.absences.get(label)) is not None
        and absence.rev == rev
        and absence.since + after <= now
    ]


def _changes(
    view: View, absent: Mapping[HostLabel, int], believed: Collection[HostLabel], now: float
) -> Iterator[Write]:
    for label, known in view.absences.items():
        if absent.get(label) != known.rev:
            yield Write(keys.absence(label), None, new=False)
    for label in believed:
        if label not in view.absences:
            yield Write(keys.absence(label), HostAbsence(label, now, absent[label]), new=True)
