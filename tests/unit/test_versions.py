"""The version has one place; what repeats it, the changelog and the tag of a release agree."""

import re
import tomllib
from pathlib import Path

import pytest
from setuptools import find_namespace_packages  # type: ignore[import-untyped]

from contivk8s import main as contivk8s
from contivk8s import netcontiv
from core.version import VERSION

ROOT = Path(__file__).parents[2]
REPEATING = [
    *(ROOT / page for page in ("README.md", "docs/installation.md", "docs/quick-start.md")),
    *sorted((ROOT / "deploy/quadlets").iterdir()),
    *sorted(path for path in (ROOT / "deploy/kubernetes").rglob("*") if path.is_file()),
]


def test_the_package_takes_its_version_from_the_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "core.version.VERSION"}


def test_the_plugins_have_the_same_version() -> None:
    assert contivk8s.VERSION == netcontiv.VERSION == VERSION


@pytest.mark.parametrize("path", REPEATING, ids=lambda path: path.name)
def test_images_and_packages_that_are_named_are_of_this_version(path: Path) -> None:
    named = re.findall(r"\bcontiv(?:/\w+:|_)(\d+\.\d+\.\d+)", path.read_text())
    assert set(named) <= {VERSION}


def test_the_changelog_has_the_version() -> None:
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == f"[Unreleased], to be {VERSION}" or heads[0].startswith(f"[{VERSION}] ")


def test_what_is_built_is_not_searched_for_packages(tmp_path: Path) -> None:
    """Images lie in `build`, with links that lead round in circles: a search would not end."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    inside = tmp_path / "build" / "image"
    inside.mkdir(parents=True)
    for number in range(2):
        (inside / f"again{number}").symlink_to(inside)
    (tmp_path / "core").mkdir()
    options = project["tool"]["setuptools"]["packages"]["find"]
    assert find_namespace_packages(str(tmp_path), **options) == ["core"]
