"""Who changed what, and when: changes of objects and hosts, each recorded in its transaction. Pure.

In comes the decision of a change and where its request comes from; out comes one that also writes
a `ChangeRecord` into the next place of a ring. `netmaster.plan.show.change_pages` shows them.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from contivmodel.objects import RestObject
from contivmodel.representation import Json, shown
from contivmodel.wire import dumps
from core import keys
from netmaster.plan.model import Plan
from netmaster.stored import (
    ChangedObject,
    ChangeRecord,
    CleanupCategory,
    EndpointCleanup,
    Stored,
    Write,
)
from netmaster.view import View

# In the transaction itself, so that the record and the change are both there or neither. The ring
# bounds what the store keeps without ever deleting: the record of a new change replaces the oldest.

KEPT: Final = 1000
"""Changes that are kept."""
MOST_OBJECTS: Final = 32
"""Objects that a record names."""
LONGEST: Final = 200
"""Characters of a field's value that are kept."""
HIDDEN: Final = '"(hidden)"'
HOSTS: Final = "hosts"
"""Stands for the class of an object in changes of hosts, which are not objects."""

_MARKS: Final = {
    keys.ABSENCES: ("agent", '"registered"', '"absent"'),
    keys.DRAINS: ("drained", "false", "true"),
}
"""What a key says of a host: the field, its value without the key, and with it."""

_SECRET: Final = re.compile("password|passwd|secret|token", re.IGNORECASE)
_CUT: Final = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOrigin:
    """Whose request a change is, "" where clients are not known, and from which address."""

    who: str
    address: str


LEADER: Final = ChangeOrigin(who="netmaster", address="")
"""The leader itself: what it observes and decides without a request."""


def recorded(
    decide: Callable[[View], Plan], origin: ChangeOrigin, now: float, *, kept: int = KEPT
) -> Callable[[View], Plan]:
    """Return a decision that records the objects it changes; `now` is wall-clock time.

    The ring has `kept` places.
    """

    def decide_and_record(view: View) -> Plan:
        plan = decide(view)
        changed = list(_changed(view, plan.writes))
        if not changed:
            return plan
        number = view.last_change + 1
        slot = number % kept
        record = ChangeRecord(
            number=number,
            at=now,
            who=origin.who,
            address=origin.address,
            objects=tuple(changed[:MOST_OBJECTS]),
            omitted=max(0, len(changed) - MOST_OBJECTS),
        )
        write = Write(keys.change(slot), record, new=slot not in view.changes)
        return replace(plan, writes=(*plan.writes, write))

    return decide_and_record


def _changed(view: View, writes: Iterable[Write]) -> Iterator[ChangedObject]:
    """Yield the objects of which the fields change, not only what refers to them, and the hosts."""
    writes = tuple(writes)
    removed = {one.name for write in writes if (one := _host_removal(write.record)) is not None}
    yield from (ChangedObject(plural=HOSTS, key=one, action="delete") for one in sorted(removed))
    for write in writes:
        if not write.key.startswith(keys.OBJECTS):
            yield from _of_host(write, removed)
            continue
        kind, key = keys.parse_obj(write.key)
        before, after = view.objects[kind].get(key), write.record
        if isinstance(after, RestObject):
            fields = tuple(_fields(shown(before) if before else {}, shown(after)))
            if fields:
                action = "update" if before else "create"
                yield ChangedObject(plural=after.plural, key=key, action=action, fields=fields)
        elif before is not None:
            yield ChangedObject(plural=before.plural, key=key, action="delete")


def _host_removal(record: Stored | None) -> EndpointCleanup | None:
    if isinstance(record, EndpointCleanup) and record.category is CleanupCategory.HOST:
        return record
    return None


def _of_host(write: Write, removed: Container[str]) -> Iterator[ChangedObject]:
    """Yield what a key that comes or goes says of a host, which is not removed."""
    for prefix, (field, without, present) in _MARKS.items():
        comes, goes = write.new, write.record is None
        if not write.key.startswith(prefix) or not (comes or goes):
            continue
        label = keys.after(prefix, write.key)
        if label not in removed:
            values = (present, without) if goes else (without, present)
            fields = ((field, *values),)
            yield ChangedObject(plural=HOSTS, key=label, action="update", fields=fields)


def _fields(before: Json, after: Json) -> Iterator[tuple[str, str, str]]:
    for name, value in after.items():
        was = before.get(name)
        if value != was and (value or was):
            yield name, _text(name, was), _text(name, value)


def _text(name: str, value: object) -> str:
    if not value:
        return ""
    if _SECRET.search(name):
        return HIDDEN
    text = dumps(value).decode()
    return text if len(text) <= LONGEST else text[:LONGEST] + _CUT
