"""Who changed what, and when: each change of objects is recorded in its own transaction. Pure.

In comes the decision of a change and where its request comes from; out comes one that also writes
a `ChangeRecord` into the next place of a ring. `netmaster.plan.show.change_pages` shows them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from contivmodel.objects import RestObject
from contivmodel.representation import Json, shown
from contivmodel.wire import dumps
from core import keys
from netmaster.plan.model import Plan
from netmaster.stored import ChangedObject, ChangeRecord, Write
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

_SECRET: Final = re.compile("password|passwd|secret|token", re.IGNORECASE)
_CUT: Final = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOrigin:
    """Whose request a change is, "" where clients are not known, and from which address."""

    who: str
    address: str


def recorded(
    decide: Callable[[View], Plan], origin: ChangeOrigin, now: float
) -> Callable[[View], Plan]:
    """Return a decision that records the objects it changes; `now` is wall-clock time."""

    def decide_and_record(view: View) -> Plan:
        plan = decide(view)
        changed = list(_changed(view, plan.writes))
        if not changed:
            return plan
        number = view.last_change + 1
        slot = number % KEPT
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
    """Yield the objects of which the fields change, not only what refers to them."""
    for write in writes:
        if not write.key.startswith(keys.OBJECTS):
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
