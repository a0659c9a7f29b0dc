"""How tests are laid out: no module imports from one of tests, and units start no program."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MODULES = [*TESTS.rglob("*.py"), *(TESTS.parent / "bench").rglob("*.py")]


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{one.name}" for one in node.names)


def test_no_module_imports_from_one_of_tests() -> None:
    """What several share is in a module of its own beside them."""
    found = {
        (str(path.relative_to(TESTS.parent)), name)
        for path in MODULES
        for name in imported(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith("tests.") and ".test_" in name
    }
    assert found == set()


def test_a_unit_test_that_starts_a_program_fails() -> None:
    with pytest.raises(AssertionError, match="starts a program"):
        subprocess.run([sys.executable, "-c", ""], check=False)
