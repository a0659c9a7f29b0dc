"""The page of deviations names files and tests that are there.

A test is named in full, from below `tests` or below a folder that its part of the page names, by a
letter that the page explains for its file, or by its name alone behind another of the same file.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deviations.md").read_text()
NOTICED_PAGE = (ROOT / "docs" / "from-contiv.md").read_text()
LETTERS = dict(re.findall(r"`([A-Z])`,? (?:is )?`(tests/[^`]+\.py)`", " ".join(PAGE.split())))
NAME = re.compile(r"`([\w./-]+\.py|[A-Z](?=`|::)|)(?:::(\w+))?`")
FOLDERS = re.compile(r"(?i)\bpaths (?:are )?under (.+)")


class Named(NamedTuple):
    """A file that may be at one of some paths, and a test in it, or none."""

    paths: tuple[str, ...]
    test: str


def named(page: str) -> Iterator[Named]:
    folders = [""]
    paths: tuple[str, ...] = ()
    for line in page.splitlines():
        if line.startswith("## "):
            folders = [""]
        elif more := FOLDERS.search(line):
            folders += re.findall(r"`([^`]+/)`", more[1])
        for place, test in NAME.findall(line):
            if place.endswith(".py"):
                paths = (*(f"{folder}{place}" for folder in folders), f"tests/{place}")
            elif place:
                paths = (LETTERS[place],)
            if place or test:
                yield Named(paths, test)


@pytest.mark.parametrize("one", sorted(set(named(PAGE))), ids=lambda one: one.paths[0] + one.test)
def test_every_test_that_is_named_exists(one: Named) -> None:
    (text,) = [(ROOT / path).read_text() for path in one.paths if (ROOT / path).exists()]
    assert not one.test or f"def {one.test}(" in text, f"{one.paths[0]} has no {one.test}"


def test_short_names_are_understood() -> None:
    page = "| `U::a`, `::b` | `unit/x.py` and `::c` |\n## On\nPaths under `tests/k/`.\n"
    assert list(named(page + "| `E`, `y.py::d` |")) == [
        ((LETTERS["U"],), "a"),
        ((LETTERS["U"],), "b"),
        (("unit/x.py", "tests/unit/x.py"), ""),
        (("unit/x.py", "tests/unit/x.py"), "c"),
        ((LETTERS["E"],), ""),
        (("y.py", "tests/k/y.py", "tests/y.py"), "d"),
    ]


# -- the form of the page ----------------------------------------------------------------------

KIND_ROW = re.compile(r"^\| ([a-z ]+) \| [^|]+ \|$", re.MULTILINE)
NOTICED = re.compile(r"\((`[a-z0-9-]+`(?:,\s+`[a-z0-9-]+`)*)\)")


class Row(NamedTuple):
    """One deviation."""

    id: str
    kind: str
    original: str
    here: str
    effect: str
    test: str


def rows() -> list[Row]:
    """Return the deviations; fails where a line of a table has other columns."""
    found = []
    for line in PAGE.partition("\n## netctl\n")[2].splitlines():
        if line.startswith("| ") and not line.startswith("| id |"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.append(Row(*cells))
    return found


def test_every_row_has_a_known_kind_and_says_what_a_client_sees() -> None:
    kinds = set(KIND_ROW.findall(PAGE.partition("\n## Kinds\n")[2].partition("\n## ")[0]))
    assert {kind for row in rows() for kind in row.kind.split(", ")} == kinds - {"kind"}
    assert [row.id for row in rows() if not row.effect.endswith(".")] == []


def test_an_id_names_one_row() -> None:
    ids = [row.id for row in rows()]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 263


def test_what_a_client_notices_names_rows() -> None:
    named_ids = [
        name for group in NOTICED.findall(NOTICED_PAGE) for name in re.findall(r"`(.+?)`", group)
    ]
    assert len(named_ids) >= 12
    assert set(named_ids) <= {row.id for row in rows()}
