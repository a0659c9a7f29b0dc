"""What is broken, what was asked, and the table of what named the cause. Pure.

In come breaks and what a command said of each; out come results and the page with their table. Must
not know how anything is broken: `tests.breaks.breakable_cluster` and the modules of breaks do.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.matrix.table import END

BEGIN: Final = "<!-- the table below is written by `make break-check` -->\n"
SOON: Final = 10.0
"""Seconds in which a cause must be named."""
LAST: Final = 25.0
"""Seconds after which nobody asks any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A thing that breaks: `way` breaks it, and mends it at its end.

    `ask` is the one command; it names the cause if what it says has each of the words `told`,
    whatever their case.
    """

    title: str
    ask: str
    told: tuple[str, ...]
    way: Callable[[Any], AbstractContextManager[None]]
    site: str = "plain"
    """The kind of cluster that it is a break of (`tests.breaks.breakable_cluster`)."""

    @property
    def name(self) -> str:
        """What it is called in commands."""
        return self.way.__name__


Way = Callable[[Any], Iterator[None]]


def adding(table: dict[str, Break]) -> Callable[..., Callable[[Way], Way]]:
    """Return what puts functions into a table: called with their site, title, command and words."""

    def breaks(site: str, title: str, ask: str, *told: str) -> Callable[[Way], Way]:
        def add(function: Way) -> Way:
            way = contextmanager(function)
            one = Break(title=title, ask=ask, told=told, way=way, site=site)
            table[one.name] = one
            return function

        return add

    return breaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a break: seconds until its cause was named, None if it never was."""

    title: str
    ask: str
    seconds: float | None

    @property
    def named(self) -> bool:
        """Whether it was named in time."""
        return self.seconds is not None and self.seconds <= SOON

    @property
    def cells(self) -> tuple[str, str, str]:
        """The row of the table."""
        if self.seconds is None:
            return self.title, f"`{self.ask}`", "**not named**"
        text = f"{self.seconds:.1f}"
        return self.title, f"`{self.ask}`", text if self.named else f"**{text}**"


def needed(tried: int) -> int:
    """Return how many of so many causes must be named: 57 of 60, or as large a share."""
    return -(-57 * tried // 60)


def verdict(found: Sequence[Result]) -> tuple[bool, list[str]]:
    """Return whether enough causes were named in time, and what to say: those that were not."""
    late = [one for one in found if not one.named]
    good, least = len(found) - len(late), needed(len(found))
    lines = [
        f"{'not named' if one.seconds is None else f'after {one.seconds:.1f} s'}: {one.title}"
        for one in late
    ]
    return good >= least, [*lines, f"{good} of {len(found)} named in time, {least} must be"]


def names(said: str, told: Iterable[str]) -> bool:
    """Return whether a command said all words, on however many lines."""
    text = " ".join(said.lower().split())
    return all(" ".join(one.lower().split()) in text for one in told)


def chosen(known: Mapping[str, Break], wanted: Iterable[str]) -> list[Break]:
    """Return breaks by their names; all for none. Raises KeyError for one that is not known."""
    return [known[name] for name in wanted] or list(known.values())


def read(page: str) -> dict[str, tuple[str, str, str]]:
    """Return the rows of the page by their titles."""
    inside = page.partition(BEGIN)[2].partition(END)[0]
    rows = [line.strip("| ").split(" | ") for line in inside.splitlines() if line.startswith("| ")]
    return {row[0]: (row[0], row[1], row[2]) for row in rows[1:]}


def written(page: str, found: Iterable[Result], known: Iterable[str]) -> str:
    """Return the page with these results, and its earlier ones of other titles that are known."""
    rows = {**read(page), **{one.title: one.cells for one in found}}
    shown = [rows[title] for title in known if title in rows]
    lines = ["| what is broken | command | seconds |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in shown]
    good = sum(bool(re.fullmatch(r"[0-9.]+", row[2])) for row in shown)
    total = f"{good} of {len(shown)} are named by one command within {SOON:.0f} seconds."
    before, _, rest = page.partition(BEGIN)
    table = "\n".join(lines)
    return f"{before}{BEGIN}\n{total}\n\n{table}\n\n{END}{rest.partition(END)[2]}"
