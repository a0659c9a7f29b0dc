"""The Debian package: installed, run by the units' own command lines, removed; nothing is left.

The root of its own is this machine's file system beneath an overlay: whatever dpkg and the daemons
write is seen in the overlay's upper folder. Run by `make deb-check`, which builds the package.
"""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from core.version import VERSION
from daemons.flags import Flag
from netmaster import settings as of_master
from netplugin import settings as of_agent
from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.daemon import Daemon
from tests.bed.metrics import parsed
from tests.bed.netns import http_request

ROOT: Final = Path(__file__).parents[2]
IGNORED: Final = (
    *("/var/lib/dpkg", "/var/log", "/var/cache", "/run", "/tmp", "/etc/ld.so.cache"),
    "/var/lib/libuuid",  # the clock of the system's library, which Python's uuid1 asks
)
"""Where dpkg keeps its own books, and what other programs of this machine write meanwhile."""


@dataclass(frozen=True)
class Root:
    """A root of its own: `upper` has all that differs from this machine."""

    path: Path
    upper: Path

    def run(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a command in it."""
        command = ["chroot", str(self.path), *words]
        environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=check)

    def written(self) -> set[str]:
        """Return the files that are there and differ from this machine's."""
        found = {
            f"/{path.relative_to(self.upper)}"
            for path in self.upper.rglob("*")
            if not path.is_dir() and not path.is_char_device()
        }
        return {path for path in found if not path.startswith(IGNORED)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Root]:
    """Mount the overlay."""
    directory = tmp_path_factory.mktemp("overlay")
    with ExitStack() as undo:

        def mount(*words: str, at: Path) -> None:
            subprocess.run(["mount", *words, str(at)], check=True)
            undo.callback(subprocess.run, ["umount", "--lazy", str(at)], check=True)

        mount("-t", "tmpfs", "tmpfs", at=directory)
        for name in ("upper", "work", "root"):
            (directory / name).mkdir()
        options = f"lowerdir=/,upperdir={directory}/upper,workdir={directory}/work"
        mount("-t", "overlay", "overlay", "-o", options, at=directory / "root")
        for folder in ("proc", "dev", "run"):
            mount("--bind", f"/{folder}", at=directory / "root" / folder)
        yield Root(directory / "root", directory / "upper")


def package() -> Path:
    """Return the package that was built last."""
    (found,) = (ROOT / "build").glob(f"contiv_{VERSION}_*.deb")
    return found


@pytest.mark.timeout(900)
def test_it_installs_runs_and_leaves_nothing(root: Root, bed_dir: Path) -> None:
    before = root.written()
    shutil.copy(package(), root.path / "var/cache/contiv.deb")
    root.run("dpkg", "--install", "--force-depends", "/var/cache/contiv.deb")
    assert {"/usr/bin/netctl", "/etc/default/netplugin"} <= root.written()
    assert f"Version: {VERSION}" in root.run("netctl", "--version").stdout
    said = root.run("netmaster", "--version").stdout
    assert re.search(r"^GitCommit: [0-9a-f]{12}", said, re.MULTILINE), said
    run_daemons(root, bed_dir)
    root.run("dpkg", "--purge", "contiv")
    assert root.written() - before == set()


def run_daemons(root: Root, directory: Path) -> None:
    """Run a cluster of one host with the daemons of the package; each tells that it is ready."""
    bed = Bed(directory, hosts=1)
    ready: dict[str, socket.socket] = {}
    try:
        for name, daemon, flags in (
            ("netmaster", bed.netmaster, of_master.FLAGS),
            ("netplugin", bed.agents[0], of_agent.FLAGS),
        ):
            manager = ready[name] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            manager.settimeout(60)
            manager.bind(str(directory / f"{name}.notify"))
            as_unit(root, name, daemon, flags, {"NOTIFY_SOCKET": manager.getsockname()})
        bed.start()
        for name, manager in ready.items():
            assert manager.recv(100) == b"READY=1", name
        host = bed.hosts[0]
        url = f"http://127.0.0.1:{AGENT_PORT}/metrics"
        _, page = http_request(url, namespace=host.namespace)
        assert parsed(page).value("contiv_netplugin_build_info", version=VERSION) == 1
        _, page = http_request(f"{bed.url}/metrics", namespace=bed.fabric.namespace)
        assert parsed(page).value("contiv_netmaster_leader") == 1
    finally:
        bed.stop()
        for manager in ready.values():
            manager.close()


def as_unit(
    root: Root, name: str, daemon: Daemon, flags: Sequence[Flag], environ: Mapping[str, str]
) -> None:
    """Have a daemon of the bed run as its unit would: by its command line and its variables."""
    unit = (root.path / f"usr/lib/systemd/system/{name}.service").read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    (named,) = re.findall(r"^EnvironmentFile=-?(.*)$", unit, re.MULTILINE)
    text = (root.path / named.lstrip("/")).read_text()
    variables = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    words = daemon.command[1:]
    by_name = {f"--{one}": flag for flag in flags for one in flag.names}
    for flag, value in zip(words[::2], words[1::2], strict=True):
        variables[f"CONTIV_{name.upper()}_{by_name[flag].env}"] = value
    daemon.command = ["chroot", str(root.path), *line.split()]
    daemon._env = {**(daemon._env or {}), **variables, **environ}
