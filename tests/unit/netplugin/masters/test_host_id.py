"""The id of a host stays, and is not that of a host with a copy of its disk."""

from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.masters.host_id import host_id


def test_it_is_made_once(tmp_path: Path) -> None:
    made = host_id(tmp_path / "data" / "host-id", tmp_path / "machine-id")
    assert len(made) == 32
    assert host_id(tmp_path / "data" / "host-id", tmp_path / "machine-id") == made
    assert host_id(tmp_path / "other" / "host-id", tmp_path / "machine-id") != made


def test_a_copy_of_the_data_on_another_machine_is_another_host(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"{name}\n")
    file = tmp_path / "host-id"
    assert host_id(file, tmp_path / "a") != host_id(file, tmp_path / "b")


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match="cannot keep the id of this host"):
        host_id(tmp_path / "file" / "host-id")
