"""systemd accepts the units, and finds them confined."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from netmaster import settings as of_master
from netplugin import settings as of_agent

ROOT: Final = Path(__file__).parents[3]


UNITS: Final = ROOT / "deploy" / "systemd"


EXPOSURE: Final = {"netmaster.service": 15, "netplugin.service": 56}
"""The most of `systemd-analyze security`, in tenths. The agent works on the host's own network."""


DAEMONS: Final = {"netmaster": of_master, "netplugin": of_agent}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root with the units and the programs that they name."""
    root = tmp_path_factory.mktemp("root")
    shutil.copytree(UNITS, root / "usr/lib/systemd/system")
    for program in DAEMONS:
        path = root / "usr/bin" / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    for unit in ("network-online.target", "multi-user.target", "sockets.target", "sysinit.target"):
        (root / "usr/lib/systemd/system" / unit).write_text("[Unit]\n")
    return root


@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.iterdir()))
def test_systemd_understands_every_line(unit: str, tree: Path) -> None:
    command = ["systemd-analyze", "verify", "--man=no", f"--root={tree}", unit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if unit in line]
    assert said == []


def test_a_wrong_line_would_be_seen(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path / "root")
    path = tmp_path / "root/usr/lib/systemd/system/netmaster.service"
    path.write_text(path.read_text().replace("WatchdogSec=", "WatchdogSecs="))
    command = ["systemd-analyze", "verify", "--man=no", f"--root={tmp_path / 'root'}", path.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "WatchdogSecs" in done.stderr


@pytest.mark.parametrize(("unit", "most"), EXPOSURE.items())
def test_a_daemon_may_do_no_more_than_it_must(unit: str, most: int) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={most}"]
    done = subprocess.run([*command, UNITS / unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:]


def test_daemons_load_no_client_of_docker_before_they_need_one() -> None:
    modules = "netmaster.daemon, netplugin.startup.daemon, netplugin.commands.preflight"
    code = f"import sys, {modules}; print('aiodocker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
