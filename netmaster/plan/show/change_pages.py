"""The last changes of objects, the newest first, a page at a time. Pure.

In come the query of a request and the view; out comes a page of `netmaster.plan.change_log`'s
records, and the number that the next page begins below.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Final

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from contivmodel.answers import Moment, one_of
from netmaster.auth.route_classes import tenant_of
from netmaster.stored import ChangedObject, ChangeRecord
from netmaster.view import View

FILTERS: Final = {
    "kind": "only changes of objects of this class, as `networks`",
    "tenantName": "only changes of objects of this tenant",
    "who": "only changes of this user or program",
}


class ChangedField(TypedDict):
    """A field of an object, before a change and after it."""

    name: str
    before: str
    after: str


class ChangeOfObject(TypedDict):
    """What a change did to an object."""

    kind: str
    key: str
    action: Annotated[str, one_of("create", "update", "delete")]
    fields: list[ChangedField]


@with_config(ConfigDict(title="Change"))
class ShownChange(TypedDict):
    """Who changed which objects, when and from where."""

    number: int
    at: Moment
    who: str
    address: str
    omitted: int
    objects: list[ChangeOfObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuery:
    """What is asked for; "" stands for any value, `below` 0 for the newest.

    `tenants` are those the client may see, None for all.
    """

    kind: str = ""
    tenant: str = ""
    who: str = ""
    limit: int
    below: int = 0
    tenants: frozenset[str] | None = None


def page(view: View, asked: ChangeQuery) -> tuple[list[ShownChange], str]:
    """Return the newest changes that are asked for, and what to go on below; "" at the end."""
    found = list(islice(_found(view, asked), asked.limit + 1))
    shown = found[: asked.limit]
    further = str(shown[-1][0].number) if len(found) > asked.limit else ""
    return [_shown(record, some) for record, some in shown], further


def _found(view: View, asked: ChangeQuery) -> Iterator[tuple[ChangeRecord, list[ChangedObject]]]:
    for record in sorted(view.changes.values(), key=lambda one: -one.number):
        if asked.below and record.number >= asked.below:
            continue
        if asked.who not in {"", record.who}:
            continue
        some = [one for one in record.objects if _is_of(one, asked)]
        if some:
            yield record, some


def _is_of(one: ChangedObject, asked: ChangeQuery) -> bool:
    tenant = tenant_of(f"/api/v2/{one.plural}/{{key}}", {"key": one.key})
    return (
        asked.kind in {"", one.plural}
        and asked.tenant in {"", tenant}
        and (asked.tenants is None or tenant in asked.tenants)
    )


def _shown(record: ChangeRecord, some: list[ChangedObject]) -> ShownChange:
    return {
        "number": record.number,
        "at": datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds"),
        "who": record.who,
        "address": record.address,
        "omitted": record.omitted,
        "objects": [
            {
                "kind": one.plural,
                "key": one.key,
                "action": one.action,
                "fields": [
                    {"name": name, "before": before, "after": after}
                    for name, before, after in one.fields
                ],
            }
            for one in some
        ],
    }
