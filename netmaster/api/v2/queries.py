"""Queries of lists in API v2: filters, fields and pages. Pure.

In come the parameters of a request and the items of a collection in the order of their keys; out
comes a page of them, with the token that the next page begins behind. A page is of the moment when
it is read: an item that stays is shown once, whatever comes and goes between two pages.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from contivmodel.representation import names_of_fields, selected
from netmaster.api.http import paging
from netmaster.api.http.queries import parameters

FIELDS: Final = {"fields": "show these fields alone, as `a,b`; the key is always shown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """What is asked of a collection: items with all values of `having`, behind the key `after`."""

    having: Mapping[str, str]
    fields: frozenset[str]
    limit: int = paging.LIMIT
    after: str = ""


@dataclass(frozen=True, slots=True)
class ListPage:
    """Items in the order of their keys, and the token of the next page; "" at the end."""

    items: Sequence[Mapping[str, Any]]
    next: str


def list_query(query: str, shown: Mapping[str, Any], filters: Collection[str]) -> ListQuery:
    """Return the query of a list whose items show these fields. Raises Malformed."""
    asked = parameters(query, {*filters, *paging.PAGED, *FIELDS})
    return ListQuery(
        having={name: text for name, text in asked.items() if name in filters},
        fields=names_of_fields(asked.get("fields", ""), shown),
        limit=paging.limit(asked["limit"]) if "limit" in asked else paging.LIMIT,
        after=paging.key_of(asked["after"]) if asked.get("after") else "",
    )


def page(
    keys: Iterable[str], show: Callable[[str], Mapping[str, Any]], wanted: ListQuery
) -> ListPage:
    """Return the first of the items that are wanted; `show` returns the one of a key."""
    behind = (key for key in sorted(keys) if key > wanted.after)
    items = ((key, show(key)) for key in behind)
    found = list(islice(((k, item) for k, item in items if _fits(item, wanted)), wanted.limit + 1))
    more = len(found) > wanted.limit
    found = found[: wanted.limit]
    return ListPage(
        [selected(item, wanted.fields) for _, item in found],
        paging.token(found[-1][0]) if more else "",
    )


def _fits(item: Mapping[str, Any], wanted: ListQuery) -> bool:
    return all(_has(item[name], text) for name, text in wanted.having.items())


def _has(value: Any, text: str) -> bool:
    """Return whether a value is what a filter says; of a list, whether one of its items is."""
    match value:
        case bool():
            return text == str(value).lower()
        case list():
            return text in value
        case _:
            return text == str(value)
