"""Roots: one whose set-up was cut off is made anew, all others are kept."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.matrix import roots


def test_a_root_that_was_set_up_half_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, made = subprocess.run, []

    def without_archive(words: list[str], **how: Any) -> "subprocess.CompletedProcess[str]":
        if "mmdebstrap" in words:
            made.append(words)
            words = ["mkdir", str(tmp_path / "trixie.half")]
        return run(words, **how)

    monkeypatch.setattr(roots, "CACHE", tmp_path)
    monkeypatch.setattr(subprocess, "run", without_archive)
    root = roots.made("trixie")
    (root / "packages").touch()
    assert roots.made("trixie") == root
    assert (root / "packages").exists()
    roots.unfinished("trixie").touch()
    assert roots.made("trixie") == root
    assert not (root / "packages").exists()
    assert len(made) == 2
