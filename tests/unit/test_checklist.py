"""The checklist names tests that are there, for every line of the original's."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LINES = re.findall(
    r"^\| ([A-L])(\d+) \| (.*) \|$", (TESTS / "CHECKLIST-netmaster.md").read_text(), re.MULTILINE
)
LAST = dict(zip("ABCDEFGHIJKL", (95, 8, 12, 5, 1, 19, 9, 8, 5, 1, 14, 9), strict=True))


def test_every_line_is_there_once() -> None:
    expected = [(part, str(n)) for part, last in LAST.items() for n in range(1, last + 1)]
    assert [(part, number) for part, number, _ in LINES] == expected


@pytest.mark.parametrize(
    ("number", "shown"), [(part + number, text) for part, number, text in LINES]
)
def test_every_test_that_is_named_exists(number: str, shown: str) -> None:
    for named in re.findall(r"`([^`]+\.py)(?:::(\w+))?`", shown):
        path, function = named
        text = (TESTS.parent / path).read_text()
        assert f"def {function}" in text, (number, named)
