"""The tables of docs/platforms.md: what parts found on which release. Pure.

In come results and the page; out goes the page with those results in the place of earlier ones of
the same part and release, and all others as they were.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

BEGIN: Final = "<!-- the table below is written by `make matrix` -->\n"
KERNEL: Final = "<!-- the table below is written by `make kernel-check` -->\n"
"""What begins the other table."""
END: Final = "<!-- end of the table -->\n"
UNTRIED: Final = "-"

CUT: Final = "cut off for time"
"""Why a part that had to be ended did not come to its end."""

Cells = Mapping[tuple[str, str], str]
"""What stands in the table by part and release."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one part; `ended` is why it did not come to its end, "" if it did."""

    passed: int
    failed: int
    ended: str = ""

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}; {self.ended}" if self.ended else text

    @property
    def bad(self) -> bool:
        """Tell whether this is a failure: a lack of time alone is none."""
        return self.failed > 0 or self.ended not in {"", CUT}


def counted(report: str, ended: str = "") -> Result:
    """Return the result in a report of pytest (JUnit's XML); skipped tests do not count.

    `ended` is why pytest ended before all tests were run.
    """
    suites = list(ET.fromstring(report).iter("testsuite"))
    total, failed = (
        sum(int(suite.get(name, "0")) for suite in suites for name in names)
        for names in (("tests",), ("failures", "errors"))
    )
    skipped = sum(int(suite.get("skipped", "0")) for suite in suites)
    return Result(total - failed - skipped, failed, ended)


def together(results: Iterable[Result], ended: str = "") -> Result:
    """Return several results as one, which ended so."""
    found = list(results)
    return Result(sum(one.passed for one in found), sum(one.failed for one in found), ended)


def read(page: str, begin: str = BEGIN) -> dict[tuple[str, str], str]:
    """Return the cells of the page's table that begins so."""
    inside = page.partition(begin)[2].partition(END)[0]
    head, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in inside.splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ] or [[""]]
    return {
        (row[0], release): cell
        for row in rows
        for release, cell in zip(head[1:], row[1:], strict=True)
    }


def written(page: str, cells: Cells, begin: str = BEGIN) -> str:
    """Return the page with these cells in the table that begins so, besides those that it has."""
    merged = {**read(page, begin), **cells}
    parts = list(dict.fromkeys(part for part, _ in merged))
    releases = list(dict.fromkeys(release for _, release in merged))
    rows = ([part, *(merged.get((part, one), UNTRIED) for one in releases)] for part in parts)
    lines = [_line(["", *releases]), "|" + "---|" * (len(releases) + 1), *map(_line, rows)]
    before, _, rest = page.partition(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n\n" + END + rest.partition(END)[2]


def version_in(said: str) -> str:
    """Return the first version that a program names, "?" if it names none."""
    found = re.search(r"\d+\.\d+(?:\.\d+)?", said)
    return found[0] if found else "?"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
