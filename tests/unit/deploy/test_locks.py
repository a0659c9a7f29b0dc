"""The two locks: what runs is pinned in one of them alone, and as the other has it."""

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[3]
LOCKS: Final = ("requirements.lock", "requirements-runtime.lock", "bench/requirements.lock")
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")


def python(version: str) -> Mapping[str, str]:
    """Return what markers ask of a Python that may be another than this one."""
    return {"python_version": version, "python_full_version": f"{version}.1", "extra": ""}


def pinned(lock: str, version: str) -> dict[str, str]:
    """Return the versions of a lock by the names of distributions, for a Python."""
    text = (ROOT / lock).read_text()
    lines = re.findall(r"^([\w.-]+)==(\S+)(?: ; ([^\\\n]+))?", text, re.MULTILINE)
    where = dict(python(version))
    return {
        name: number
        for name, number, marker in lines
        if not marker or Marker(marker).evaluate(where)
    }


def needed(version: str) -> set[str]:
    """Return the distributions that the daemons need on a Python, with what these need."""
    waiting = list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    found: set[str] = set()
    where = dict(python(version))
    while waiting:
        wanted = Requirement(waiting.pop())
        name = canonicalize_name(wanted.name)
        applies = wanted.marker is None or wanted.marker.evaluate(where)
        if applies and name not in found:
            found.add(name)
            waiting += requires(name)
    return found


def requires(name: str) -> list[str]:
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []  # for another Python than this one


@pytest.mark.parametrize("version", PYTHONS)
def test_the_runtime_lock_has_what_runs_and_nothing_else(version: str) -> None:
    locked = pinned("requirements-runtime.lock", version).keys()
    assert locked == needed(version), "run make lock"


@pytest.mark.parametrize("version", PYTHONS)
def test_what_runs_is_what_was_tested(version: str) -> None:
    both = pinned("requirements.lock", version)
    differ = pinned("requirements-runtime.lock", version).items() - both.items()
    assert differ == set(), "run make lock"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_place(lock: str) -> None:
    lines = (ROOT / lock).read_text().splitlines()
    assert [line for line in lines if line.startswith("-") or "/" in line] == []


def test_what_is_installed_has_all_that_it_needs() -> None:
    """As `pip check` says."""
    assert list(missing()) == []


def missing() -> Iterator[str]:
    for one in importlib.metadata.distributions():
        for text in one.requires or []:
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            try:
                found = importlib.metadata.version(wanted.name)
            except importlib.metadata.PackageNotFoundError:
                yield f"{one.name} needs {wanted.name}, which is not installed"
                continue
            if not wanted.specifier.contains(found, prereleases=True):
                yield f"{one.name} needs {wanted}, and {found} is installed"
