"""A node has contivk8s, and a network configuration while its agent is ready."""

from pathlib import Path

import pytest

from netplugin import entry
from netplugin.commands import cni_files
from netplugin.commands.cni_files import CONFLIST, PLUGIN, Keeper


def test_the_static_program_is_installed_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cni_files, "__file__", str(tmp_path / "netplugin" / "commands" / "x.py"))
    folder = tmp_path / PLUGIN
    folder.mkdir()
    (folder / "main.py").write_text("script")
    assert cni_files.source() == folder / "main.py"
    (folder / PLUGIN).write_text("program")
    assert cni_files.source() == folder / PLUGIN


class KeptConflist:
    """A keeper, an agent that is ready unless `fault` says otherwise, and a clock."""

    def __init__(self, directory: Path) -> None:
        self.now = 100.0
        self.fault = ""
        self.conflist = directory / "given.conflist"
        self.conflist.write_text("{}")
        self.target = directory / "net.d" / CONFLIST
        self.keeper = Keeper(
            self.conflist,
            self.target,
            ready=lambda: self.fault,
            clock=lambda: self.now,
            grace=60.0,
        )

    def pass_time(self, seconds: float) -> bool:
        self.now += seconds
        self.keeper.step()
        return self.target.exists()


@pytest.fixture
def kept(tmp_path: Path) -> KeptConflist:
    return KeptConflist(tmp_path)


def test_nothing_is_there_before_the_agent_is_ready(kept: KeptConflist) -> None:
    kept.fault = "starts"
    assert not kept.pass_time(1)
    kept.fault = ""
    assert kept.pass_time(1)
    assert kept.target.stat().st_mode & 0o777 == 0o600


def test_a_restart_is_shorter_than_the_grace(kept: KeptConflist) -> None:
    kept.pass_time(1)
    kept.fault = "connection refused"
    assert kept.pass_time(59.9)
    kept.fault = ""
    assert kept.pass_time(1)
    kept.fault = "connection refused"
    assert kept.pass_time(59.9)
    assert not kept.pass_time(0.1)
    kept.fault = ""
    assert kept.pass_time(1)


def test_what_an_earlier_agent_left_goes_after_the_grace(kept: KeptConflist) -> None:
    kept.target.parent.mkdir()
    kept.target.write_text("{}")
    kept.fault = "starts"
    assert kept.pass_time(59)
    assert not kept.pass_time(1)


def test_a_changed_configuration_takes_the_place_of_the_old_one(kept: KeptConflist) -> None:
    kept.pass_time(1)
    kept.conflist.write_text('{"cniVersion": "1.0.0"}')
    kept.pass_time(1)
    assert kept.target.read_text() == '{"cniVersion": "1.0.0"}'
    assert [path.name for path in kept.target.parent.iterdir()] == [CONFLIST]


def test_install_and_remove(tmp_path: Path) -> None:
    directories = ["--bin-dir", str(tmp_path / "bin"), "--conf-dir", str(tmp_path / "net.d")]
    (tmp_path / "net.d").mkdir()
    (tmp_path / "net.d" / CONFLIST).write_text("{}")
    assert cni_files.run(["install-cni", *directories]) == 0
    plugin = tmp_path / "bin" / PLUGIN
    assert plugin.read_bytes() == Path("contivk8s/main.py").resolve().read_bytes()
    assert plugin.stat().st_mode & 0o777 == 0o755
    inode = plugin.stat().st_ino
    assert cni_files.run(["install-cni", *directories]) == 0
    assert plugin.stat().st_ino == inode, "the same plugin is left alone"
    assert cni_files.run(["remove-cni", *directories]) == 0
    assert cni_files.run(["remove-cni", *directories]) == 0
    assert not plugin.exists()
    assert not (tmp_path / "net.d" / CONFLIST).exists()


def test_a_directory_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert cni_files.run(["install-cni", "--bin-dir", str(tmp_path / "file")]) == 1
    assert "is the directory mounted" in capsys.readouterr().err


def test_no_answer_is_a_fault() -> None:
    assert "refused" in cni_files.fault_of("http://127.0.0.1:1/readyz")


def test_the_command_line_knows_these_commands() -> None:
    assert set(entry.CNI_FILES) == set(cni_files.HELP)
