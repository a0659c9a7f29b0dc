"""The checklists name tests that are there, for every line of the original's."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parents[1]
LAST = {
    "edge": {"A": 8, "B": 11},
    "netmaster": dict(zip("ABCDEFGHIJKL", (95, 8, 12, 5, 1, 19, 9, 8, 5, 1, 14, 9), strict=True)),
    "ofnet": dict(zip("ABCDEFGHIJ", (7, 16, 34, 28, 18, 15, 6, 29, 17, 8), strict=True)),
}
"""Checklist -> the last number of each part."""


class Line(NamedTuple):
    """One line of a checklist."""

    list: str
    part: str
    number: str
    text: str


def lines(of: str) -> list[Line]:
    text = (TESTS / f"CHECKLIST-{of}.md").read_text()
    found = re.findall(r"^\| ([A-L])(\d+) \| (.+) \|$", text, re.MULTILINE)
    return [Line(of, *parts) for parts in found]


@pytest.mark.parametrize("checklist", LAST)
def test_every_line_is_there_once(checklist: str) -> None:
    parts = LAST[checklist].items()
    expected = [(part, str(n)) for part, last in parts for n in range(1, last + 1)]
    assert [(line.part, line.number) for line in lines(checklist)] == expected


@pytest.mark.parametrize(
    "line",
    [line for checklist in LAST for line in lines(checklist)],
    ids=lambda line: f"{line.list}-{line.part}{line.number}",
)
def test_every_test_that_is_named_exists(line: Line) -> None:
    for path, function in re.findall(r"`([^`]+\.py)(?:::(\w+))?`", line.text):
        text = (TESTS.parent / path).read_text()
        assert (f"def {function}(" if function else "def ") in text, (line, path, function)
