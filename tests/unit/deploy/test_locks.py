"""The two locks: what runs is pinned in one of them alone, and as the other has it."""

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).parents[3]


def pinned(lock: str) -> dict[str, str]:
    """Return the versions of a lock by the names of distributions."""
    text = (ROOT / lock).read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def needed() -> set[str]:
    """Return the distributions that the daemons need, with what these need."""
    waiting = list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    found: set[str] = set()
    while waiting:
        wanted = Requirement(waiting.pop())
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        applies = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if applies and name not in found:
            found.add(name)
            waiting += importlib.metadata.requires(name) or []
    return found


def test_the_runtime_lock_has_what_runs_and_nothing_else() -> None:
    assert pinned("requirements-runtime.lock").keys() == needed(), "run make lock"


def test_what_runs_is_what_was_tested() -> None:
    both = pinned("requirements.lock")
    differ = pinned("requirements-runtime.lock").items() - both.items()
    assert differ == set(), "run make lock"
