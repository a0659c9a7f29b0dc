"""Pages of lists: each item once, whatever comes and goes between two pages."""

from typing import Any

import pytest

from core.errors import Malformed
from netmaster.api.http.paging import key_of, token
from netmaster.api.http.queries import MOST_PARAMETERS, parameters
from netmaster.api.v2.queries import list_query, page

FIELDS = {"key": "", "n": 0, "on": True, "names": []}
FILTERS = ("n", "on", "names")


def listed(items: dict[str, dict[str, Any]], query: str) -> tuple[list[str], str]:
    found = page(items, items.__getitem__, list_query(query, FIELDS, FILTERS))
    return [item["key"] for item in found.items], found.next


def some(*keys: str) -> dict[str, dict[str, Any]]:
    return {key: {"key": key, "n": len(key), "on": len(key) > 1, "names": [key]} for key in keys}


def test_pages_follow_each_other() -> None:
    items = some("c", "a", "b")
    first, after = listed(items, "limit=2")
    assert first == ["a", "b"]
    del items["b"]
    items |= some("aa", "d")
    assert listed(items, f"limit=2&after={after}") == (["c", "d"], "")
    assert listed({}, "") == ([], "")


@pytest.mark.parametrize(
    ("query", "keys"),
    [("n=2", ["bb"]), ("on=true", ["bb"]), ("on=false", ["a"]), ("names=a", ["a"]), ("n=x", [])],
)
def test_filters_compare_by_text(query: str, keys: list[str]) -> None:
    assert listed(some("a", "bb"), query)[0] == keys


@pytest.mark.parametrize("key", ["default:p1:1", "a", "ü/ä", "x" * 200])
def test_a_token_is_a_key(key: str) -> None:
    assert key_of(token(key)) == key


@pytest.mark.parametrize("query", ["a=1", "n=1&n=2", "n=%ff", "&".join(["n=1"] * 65)])
def test_bad_queries_are_refused(query: str) -> None:
    assert MOST_PARAMETERS < 65
    with pytest.raises(Malformed):
        parameters(query, {"n"})
