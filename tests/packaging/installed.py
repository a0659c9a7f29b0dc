"""Each way to install: run by the units' own command lines, removed; nothing is left.

The root of its own is this machine's file system beneath an overlay: whatever an installation and
the daemons write is seen in the overlay's upper folder. Run by `make install-check`, which builds
the package; the wheel's dependencies come from the package index.
"""

import platform
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from core.version import VERSION
from daemons.flags import Flag
from netmaster import settings as of_master
from netplugin import settings as of_agent
from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.daemon import Daemon
from tests.bed.metrics import parsed
from tests.bed.netns import http_request
from tests.packaging.kinds import KINDS, Kind, debian_package
from tests.packaging.root import Root, overlaid


@pytest.fixture
def root(bed_dirs: Iterator[Path]) -> Iterator[Root]:
    """Mount a root of its own."""
    directory = next(bed_dirs)
    directory.mkdir()
    with overlaid(directory) as mounted:
        yield mounted


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_it_installs_runs_and_leaves_nothing(kind: Kind, root: Root, bed_dir: Path) -> None:
    before = root.written()
    kind.install(root)
    assert {f"{kind.programs}/netctl", "/etc/default/netplugin"} <= root.written()
    assert f"Version: {VERSION}" in root.run(f"{kind.programs}/netctl", "--version").stdout
    said = root.run(f"{kind.programs}/netmaster", "--version").stdout
    commit = r"[0-9a-f]{12}" if kind.names_commit else r"\n"
    assert re.search(rf"^GitCommit: {commit}", said, re.MULTILINE), said
    run_daemons(kind, root, bed_dir)
    kind.remove(root)
    assert root.written() - before == set()


@pytest.mark.timeout(300)
def test_a_package_for_another_python_is_refused_before_it_is_unpacked(root: Root) -> None:
    package = debian_package()
    release = platform.freedesktop_os_release()["VERSION_ID"]
    assert f"+deb{release}_" in package.name
    KINDS["deb"].install(root)
    for_another(package, root)
    done = root.run("dpkg", "--install", "/var/cache/another.deb", check=False)
    assert "pre-dependency problem" in done.stderr
    state = root.run("dpkg-query", "--show", "--showformat=${Status} ${Version}", "contiv").stdout
    assert state == f"install ok installed {package.name.split('_')[1]}"
    assert f"Version: {VERSION}" in root.run("/usr/bin/netctl", "--version").stdout


def for_another(package: Path, root: Root) -> None:
    """Make /var/cache/another.deb: the package of a later release, whose Python this one lacks."""
    tree = root.path / "var/cache/another"
    (tree / "DEBIAN").mkdir(parents=True)
    said = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, check=True)
    control = re.sub(r"\+deb\d+", "+deb99", said.stdout.decode())
    control = re.sub(r"python3 \(>= [\d.]+\)", "python3 (>= 3.99)", control)
    (tree / "DEBIAN/control").write_text(re.sub(r"\(<< [\d.]+\)", "(<< 3.100)", control))
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/netctl").write_text("#!/bin/sh\necho another\n")
    (tree / "usr/bin/netctl").chmod(0o755)
    root.run("dpkg-deb", "--build", "/var/cache/another", "/var/cache/another.deb")


def run_daemons(kind: Kind, root: Root, directory: Path) -> None:
    """Run a cluster of one host with the daemons installed; each tells that it is ready."""
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
            unit = root.path / kind.units[1:] / f"{name}.service"
            as_unit(root, unit, daemon, flags, {"NOTIFY_SOCKET": manager.getsockname()})
        bed.start()
        for name, manager in ready.items():
            assert manager.recv(100) == b"READY=1", name
        host = bed.hosts[0]
        url = f"http://127.0.0.1:{AGENT_PORT}/metrics"
        status, page = http_request(url, namespace=host.namespace)
        assert status == 200, bed.agents[0].log_text()
        assert parsed(page).value("contiv_netplugin_build_info", version=VERSION) == 1
        status, page = http_request(f"{bed.url}/metrics", namespace=bed.fabric.namespace)
        assert status == 200, bed.netmaster.log_text()
        assert parsed(page).value("contiv_netmaster_leader") == 1
    finally:
        bed.stop()
        for manager in ready.values():
            manager.close()


def as_unit(
    root: Root, unit: Path, daemon: Daemon, flags: Sequence[Flag], environ: Mapping[str, str]
) -> None:
    """Have a daemon of the bed run as its unit would: by its command line and its variables."""
    said = unit.read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", said, re.MULTILINE)
    (named,) = re.findall(r"^EnvironmentFile=-?(.*)$", said, re.MULTILINE)
    text = (root.path / named.lstrip("/")).read_text()
    variables = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    words = daemon.command[1:]
    by_name = {f"--{one}": flag for flag in flags for one in flag.names}
    for flag, value in zip(words[::2], words[1::2], strict=True):
        variables[f"CONTIV_{unit.stem.upper()}_{by_name[flag].env}"] = value
    daemon.command = ["chroot", str(root.path), *line.split()]
    daemon._env = {**(daemon._env or {}), **variables, **environ}
