"""The table of broken systems, and what counts as named."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.breaks.__main__ import BREAKS
from tests.breaks.table import (
    BEGIN,
    SOON,
    Break,
    Result,
    chosen,
    names,
    needed,
    read,
    verdict,
    written,
)
from tests.matrix.table import END

PAGE = f"before\n{BEGIN}\n{END}after\n"


@pytest.mark.parametrize(
    ("said", "told", "named"),
    [
        ("dropped by rule 1", ("rule 1",), True),
        ("The Store does not\n   answer", ("store", "does not answer"), True),
        ("the store is well", ("store", "does not answer"), False),
        ("", ("store",), False),
    ],
)
def test_all_words_name_a_cause(said: str, told: tuple[str, ...], named: bool) -> None:
    assert names(said, told) is named


@contextmanager
def something(_site: Any) -> Iterator[None]:
    yield


def test_breaks_are_chosen_by_name() -> None:
    one = Break(title="t", ask="netctl net ls", told=("x",), way=something)
    assert one.name == "something"
    assert chosen({"something": one}, []) == chosen({"something": one}, ["something"]) == [one]
    with pytest.raises(KeyError):
        chosen({}, ["other"])


def test_the_page_has_the_newest_results_of_what_is_known() -> None:
    soon = Result(title="one", ask="netctl a", seconds=1.26)
    late = Result(title="two", ask="netctl b", seconds=SOON + 1)
    never = Result(title="three", ask="netctl c", seconds=None)
    assert [one.named for one in (soon, late, never)] == [True, False, False]
    page = written(PAGE, [soon, late, never], ["one", "two", "three"])
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "1 of 3 are named by one command within 10 seconds." in page
    assert "| one | `netctl a` | 1.3 |" in page
    assert "| two | `netctl b` | **11.0** |" in page
    assert "| three | `netctl c` | **not named** |" in page
    again = written(page, [Result(title="two", ask="netctl b", seconds=2.0)], ["two", "one"])
    assert [*read(again)] == ["two", "one"], "what is not known any more is left out"
    assert "2 of 2 are named" in again


def test_each_break_has_a_title_of_its_own_and_words() -> None:
    assert len({one.title for one in BREAKS.values()}) == len(BREAKS)
    for one in BREAKS.values():
        assert one.told, one.name
        assert not {"|"} & {*one.title, *one.ask}, one.name


@pytest.mark.parametrize(
    ("tried", "least"), [(0, 0), (1, 1), (19, 19), (20, 19), (60, 57), (84, 80), (100, 95)]
)
def test_57_of_60_must_be_named(tried: int, least: int) -> None:
    assert needed(tried) == least


@pytest.mark.parametrize(("good", "enough"), [(57, True), (56, False)])
def test_every_cause_that_was_not_named_in_time_is_told(good: int, enough: bool) -> None:
    never = Result(title="cable", ask="a", seconds=None)
    late = Result(title="loss", ask="b", seconds=SOON + 2.04)
    soon = [Result(title=str(one), ask="c", seconds=SOON) for one in range(good)]
    others = [late] * (60 - good - 1)
    told = verdict([never, *soon, *others])
    lines = ["not named: cable", *["after 12.0 s: loss"] * len(others)]
    assert told == (enough, [*lines, f"{good} of 60 named in time, 57 must be"])
