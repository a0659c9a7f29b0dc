"""What `scripts/house` counts, on a tree of a few lines."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.scripts import script as load

MOST_MODULES: Final = 20
"""A folder with more is searched by name, not by subject: it gets rooms."""

ONE = '''"""A module."""

from collections.abc import Callable
from dataclasses import dataclass

from core.two.three import Other

Wake = Callable[[], None]


class Facade:
    """Passes calls on."""  # a comment

    def __init__(self, other: Other, wake: Wake, ask: Callable[[int], str] | None) -> None:
        self._other = other

    async def call(self, name: str, *, count: int) -> str:
        """As `Other.call`."""
        return await self._other.call(name, count=count)

    def first(self, name: str) -> str:
        return self._other.call(name, count=1)


@dataclass
class Answer:
    text: str
    done: Callable[[], None]
'''
TWO = '''"""Another."""

from core import one


class Other:
    pass


class Answer:
    """A name for the second time."""
'''


@pytest.fixture(scope="module")
def house() -> Any:
    return load("house")


@pytest.fixture
def rows(house: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the table of a tree."""
    for name, text in {"one.py": ONE, "two/__init__.py": "", "two/three.py": TWO}.items():
        path = tmp_path / "core" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert house.main([str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    return dict(one.strip().split("  ", 1) for one in lines)


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ("files, lines", "3, 39"),
        ("modules in a folder", "core 1, core.two 1"),
        ("functions that only forward", "1: core.one 1"),
        ("collaborators that are callables", "2 as parameters, 1 as fields"),
        ("largest constructors", "core.one.Facade 3, core.one.Answer 2"),
        ("class names used 2 times or more", "1: Answer 2"),
        ("cycles of modules", "1; core.one + core.two.three"),
        ("cycles of folders", "1; core.one + core.two"),
    ],
)
def test_a_row_of_the_table(rows: dict[str, str], row: str, value: str) -> None:
    assert rows[row].strip().startswith(value)


def test_no_folder_has_over_twenty_modules_and_no_modules_or_folders_import_each_other() -> None:
    house = load("house")
    modules = list(house.read(house.ROOT))
    folders = Counter(one.folder for one in modules if one.name != one.folder)
    assert {folder: count for folder, count in folders.items() if count > MOST_MODULES} == {}
    assert [said for _, said in house.cycles(modules)][1:] == ["0", "0"]
