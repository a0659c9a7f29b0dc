"""The ways to install: a Debian package, `make install`, and a wheel in a virtual environment.

Each puts everything into a root and takes it out again, as docs/installation.md says.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.version import VERSION
from tests.packaging.root import Root

ROOT: Final = Path(__file__).parents[2]
VENV: Final = "/opt/contiv"
CNI_BIN: Final = "/opt/cni/bin"
SOURCES: Final = "/var/cache/contiv"
"""A folder of the root that what is installed comes from."""


@dataclass(frozen=True)
class Kind:
    """A way to install: folders of programs and units, how, and whether it knows its commit."""

    programs: str
    units: str
    install: Callable[[Root], None]
    remove: Callable[[Root], None]
    names_commit: bool = True


def debian_package() -> Path:
    """Return the Debian package that was built last."""
    (found,) = (ROOT / "build").glob(f"contiv_{VERSION}+*_*.deb")
    return found


def _install_package(root: Root) -> None:
    shutil.copy(debian_package(), root.path / "var/cache/contiv.deb")
    root.run("dpkg", "--install", "/var/cache/contiv.deb")


def _remove_package(root: Root) -> None:
    root.run("dpkg", "--purge", "contiv")


def _make(target: str) -> Callable[[Root], None]:
    def run(root: Root) -> None:
        subprocess.run(["make", "-C", ROOT, target, f"DESTDIR={root.path}"], check=True)

    return run


def _install_wheel(root: Root) -> None:
    sources = root.path / SOURCES[1:]
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", sources, ROOT], check=True)
    shutil.copy(ROOT / "requirements-runtime.lock", sources)
    root.run("/usr/bin/python3", "-m", "venv", VENV)
    registry = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    pip = [f"{VENV}/bin/pip", "install", "--quiet", "--no-deps"]
    lock = ("--require-hashes", "-r", f"{SOURCES}/requirements-runtime.lock")
    root.run(*pip, *lock, environ=registry)
    root.run(*pip, *(f"{SOURCES}/{path.name}" for path in sources.glob("*.whl")), environ=registry)
    plugin = root.path / CNI_BIN[1:] / "contivk8s"
    plugin.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "contivk8s/main.py", plugin)
    plugin.chmod(0o755)
    for unit in (ROOT / "deploy/systemd").iterdir():
        text = unit.read_text().replace("/usr/bin/", f"{VENV}/bin/")
        (root.path / "etc/systemd/system" / unit.name).write_text(text)
    for settings in (ROOT / "deploy/default").iterdir():
        shutil.copy(settings, root.path / "etc/default")


def _remove_wheel(root: Root) -> None:
    shutil.rmtree(root.path / VENV[1:])
    files = [root.path / CNI_BIN[1:] / "contivk8s"]
    files += [
        root.path / "etc/systemd/system" / x.name for x in (ROOT / "deploy/systemd").iterdir()
    ]
    files += [root.path / "etc/default" / x.name for x in (ROOT / "deploy/default").iterdir()]
    for path in files:
        path.unlink()


KINDS: Final = {
    "deb": Kind("/usr/bin", "/usr/lib/systemd/system", _install_package, _remove_package),
    "make install": Kind(
        "/usr/local/bin", "/usr/local/lib/systemd/system", _make("install"), _make("uninstall")
    ),
    "wheel": Kind(
        f"{VENV}/bin", "/etc/systemd/system", _install_wheel, _remove_wheel, names_commit=False
    ),
}
