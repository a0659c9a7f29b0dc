"""`netctl diag`."""

from pathlib import Path

import pytest

from tests.unit.netctl.master import Netctl


def test_the_bundle_is_a_file_that_only_its_owner_reads(netctl: Netctl, tmp_path: Path) -> None:
    netctl.master.parts = [b"one", b"two"]
    file = tmp_path / "bundle.tar.gz"
    done = netctl("diag", "--output", str(file))
    assert (done.code, done.out) == (0, f"{file}\n")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"onetwo", 0o600)
    assert list(tmp_path.iterdir()) == [file]


def test_it_has_a_name_of_its_own(
    netctl: Netctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    netctl.master.parts = [b"one"]
    name = netctl("diag").out.strip()
    assert (tmp_path / name).read_bytes() == b"one"


def test_a_refusal_leaves_no_file(netctl: Netctl, tmp_path: Path) -> None:
    netctl.master.refusal = "Access denied!"
    done = netctl("diag", "-o", str(tmp_path / "bundle"))
    assert (done.code, done.message) == (3, '"Access denied!"')
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_an_error(netctl: Netctl, tmp_path: Path) -> None:
    done = netctl("diag", "-o", str(tmp_path / "no" / "bundle"))
    assert done.code == 4
    assert "No such file or directory" in done.message
