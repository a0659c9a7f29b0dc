"""A run of parts: what comes of a root that cannot be had, and of time that is over."""

import subprocess
from pathlib import Path

import pytest

from tests.matrix import __main__ as matrix
from tests.matrix import roots
from tests.matrix.table import BEGIN, END, read


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give a page with an empty table, and have the archive give no root."""

    def refuse(name: str, seconds: int) -> Path:
        raise subprocess.CalledProcessError(100, ["mmdebstrap", name, str(seconds)])

    page = tmp_path / "platforms.md"
    page.write_text(f"{BEGIN}{END}")
    monkeypatch.setattr(matrix, "PAGE", page)
    monkeypatch.setattr(matrix, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(roots, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(roots, "made", refuse)
    return page


def test_no_root_is_a_failure_and_is_told(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["--releases", "trixie"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("Debian 13: setup: left out, there is no root: Command '['mmdebstrap', ")
    assert ("setup", "Debian 13") in read(page.read_text())


def test_no_root_is_no_failure_within_a_time(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = page.read_text()
    assert matrix.main(["--releases", "trixie", "--within", "4000"]) == 0
    assert "left out, there is no root" in capsys.readouterr().out
    assert page.read_text() == before


@pytest.mark.parametrize("seconds", ["400", "0", "-100"])
def test_nothing_is_begun_when_time_is_over(
    page: Path, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    before = page.read_text()
    words = ["--releases", "trixie", "--parts", "demo", "stores", f"--within={seconds}"]
    assert matrix.main(words) == 0
    assert capsys.readouterr().out == "Debian 13: demo, stores: left out for time\n"
    assert page.read_text() == before


def test_a_root_that_another_run_has_is_left_alone(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = page.read_text()
    with roots.alone("trixie"):
        assert matrix.main(["--releases", "trixie", "--within=4000"]) == 0
    assert "another run has it" in capsys.readouterr().out
    assert page.read_text() == before
