"""Decisions about drained hosts: they keep the endpoints they have and get no new ones."""

from core import keys
from core.errors import Conflict
from core.ids import HostLabel
from netmaster.plan.model import Plan
from netmaster.stored import HostDrain, Write
from netmaster.view import View


def check(view: View, label: HostLabel) -> None:
    """Raise Conflict, saying how to end it, if a host is drained."""
    if label in view.drains:
        raise Conflict(
            f"host {label} is drained and takes no new endpoints; "
            f"netctl host drain {label} --undo ends that"
        )


def drain(view: View, label: HostLabel, now: float) -> Plan:
    """Give a host no new endpoints from `now` on, wall-clock time; one that is drained stays so."""
    if label in view.drains:
        return Plan((), reply=None)
    return Plan((Write(keys.drain(label), HostDrain(label, now), new=True),), reply=None)


def undo(view: View, label: HostLabel) -> Plan:
    """Give a host new endpoints again, drained or not."""
    if label not in view.drains:
        return Plan((), reply=None)
    return Plan((Write(keys.drain(label), None, new=False),), reply=None)
