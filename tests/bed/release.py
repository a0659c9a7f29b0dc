"""An older release of this project: its programs, from a commit of this repository.

In come a directory and a commit; out come programs that run that commit's modules with the packages
of this environment. Daemons of a bed are made older by `run_by`, and newer by the same call with
`None`, between a stop and a start.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.bed.cluster import PROGRAMS, ROOT, Bed
from tests.bed.daemon import Daemon
from tests.bed.plugin import compiled

_SCRIPT = """#!{python} -sP
import sys
sys.path.insert(0, {tree!r})
from {module} import main
sys.exit(main())
"""
_CLAIMING = """#!{python} -sP
import sys
sys.path.insert(0, {tree!r})
import core.version
core.version.VERSION = {version!r}
from {module} import main
sys.exit(main())
"""


class Release:
    """The tree of a commit below a directory, with a script for each program."""

    def __init__(self, directory: Path, commit: str) -> None:
        self.commit = commit
        self._tree = directory / "tree"
        self._programs = directory / "bin"
        self._tree.mkdir(parents=True)
        self._programs.mkdir()
        archive = subprocess.run(
            ["git", "-C", ROOT, "archive", commit], check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", self._tree], input=archive.stdout, check=True)
        for name in ("netmaster", "netplugin", "netctl"):
            script, module = self.program(name), _module(self._tree, name)
            text = _SCRIPT.format(python=sys.executable, tree=str(self._tree), module=module)
            script.write_text(text)
            script.chmod(0o755)

    @property
    def plugin(self) -> Path:
        """The CNI plugin."""
        return self._tree / "contivk8s" / "main.py"

    def program(self, name: str) -> Path:
        """Return a program by its name."""
        return self._programs / name


def _module(tree: Path, program: str) -> str:
    """Return the module whose `main` a program of a tree is."""
    scripts: dict[str, str] = tomllib.loads((tree / "pyproject.toml").read_text())["project"][
        "scripts"
    ]
    return scripts[program].removesuffix(":main")


def claiming(program: str, version: str, directory: Path) -> Path:
    """Return a program of this tree that says of itself that it is of another version."""
    script = directory / f"{program}-{version}"
    script.write_text(
        _CLAIMING.format(
            python=sys.executable, tree=str(ROOT), module=_module(ROOT, program), version=version
        )
    )
    script.chmod(0o755)
    return script


def run_by(daemon: Daemon, release: Release | None) -> None:
    """Have a daemon that does not run be of a release at its next start; None is this one."""
    program = release.program(daemon.name) if release else PROGRAMS / daemon.name
    daemon.command[0] = str(program)


def install_plugin(bed: Bed, release: Release | None) -> None:
    """Have the pods of a bed connected by the plugin of a release; None is this one."""
    source = release.plugin if release else compiled()
    new = bed.runtime.plugin.with_suffix(".new")
    new.write_bytes(source.read_bytes())
    new.chmod(0o755)
    new.replace(bed.runtime.plugin)
