"""Roots: one whose set-up was cut off is made anew, all others are kept."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.matrix import kernel, roots


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


@pytest.mark.parametrize("ended", [True, False])
def test_a_guests_root_whose_setup_is_ended_is_unfinished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, ended: bool
) -> None:
    class Ended:
        def __init__(self, root: Path) -> None:
            self.root = root

        def start(self) -> None:
            assert not roots.unfinished("trixie").exists()

        def stop(self) -> None:
            pass

        def run(self, _: str, **__: Any) -> "subprocess.CompletedProcess[str]":
            assert roots.unfinished("trixie").exists()
            if ended:
                raise SystemExit
            return subprocess.CompletedProcess([], 0)

    monkeypatch.setattr(roots, "CACHE", tmp_path)
    monkeypatch.setattr(roots, "made", lambda name: tmp_path / name)
    monkeypatch.setattr(roots, "prepare", lambda *_: None)
    monkeypatch.setattr(kernel, "Box", Ended)
    monkeypatch.setattr(kernel, "LOGS", tmp_path)
    with suppress(SystemExit), kernel.files("trixie") as place:
        assert place["KERNEL_CHECK_ROOT"] == str(tmp_path / "trixie")
    assert roots.unfinished("trixie").exists() == ended
