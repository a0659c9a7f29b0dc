"""The id of a host stays, and is not that of a host with a copy of its disk."""

from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.masters.host_id import flow_key, host_id


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


def test_the_key_of_flows_is_the_hosts_alone_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "host-id"
    key = flow_key(file)
    assert len(key) == 32
    assert flow_key(file) == key != flow_key(tmp_path / "other")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_everybody_could_read_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "host-id"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    file.chmod(0o644)
    flow_key(file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_of_another_user_is_read_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "host-id"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    file.chmod(0o644)

    def not_permitted(*_: object) -> None:
        raise PermissionError("not the owner")

    monkeypatch.setattr(Path, "chmod", not_permitted)
    assert len(flow_key(file)) == 32
    assert "chown the file" in caplog.text


def test_a_garbled_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "host-id"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(HostError, match=str(file)):
        flow_key(file)


def test_what_a_killed_agent_left_is_replaced(tmp_path: Path) -> None:
    half = tmp_path / "host-id.tmp"
    half.write_text("half")
    half.chmod(0o644)
    made = flow_key(tmp_path / "host-id")
    assert flow_key(tmp_path / "host-id") == made
    assert not half.exists()


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match="cannot keep the id of this host"):
        host_id(tmp_path / "file" / "host-id")
