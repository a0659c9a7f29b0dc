"""A root file system of its own: this machine's beneath an overlay, for installations.

Whatever is written in it is seen in the overlay's upper folder, and gone when it is unmounted.
`tests.packaging.machine` boots one.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

IGNORED: Final = (
    *(
        "/var/lib/dpkg",
        "/var/log",
        "/var/cache",
        "/run",
        "/tmp",
        "/root/.cache",
        "/etc/ld.so.cache",
    ),
    "/var/lib/libuuid",  # the clock of the system's library, which Python's uuid1 asks
)
"""Where dpkg keeps its own books, and what other programs of this machine write meanwhile."""


THIS_MACHINE: Final = Path("/")


@dataclass(frozen=True)
class Root:
    """A root of its own: `upper` has all that differs from this machine."""

    path: Path
    upper: Path

    def run(
        self,
        *words: str,
        check: bool = True,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in it; `check` raises with what it said."""
        command = ["chroot", str(self.path), *words]
        basic = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(
            command, env={**basic, **environ}, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done

    def written(self) -> set[str]:
        """Return the files that are there and differ from this machine's."""
        found = {
            f"/{path.relative_to(self.upper)}"
            for path in self.upper.rglob("*")
            if not path.is_dir() and not path.is_char_device()
        }
        return {path for path in found if not path.startswith(IGNORED)}


@contextmanager
def overlaid(directory: Path, lower: Path = THIS_MACHINE) -> Iterator[Root]:
    """Mount a root, whose changes are gone at the end, in an empty directory.

    This machine's has its devices and processes.
    """
    with ExitStack() as undo:

        def mount(*words: str, at: Path) -> None:
            subprocess.run(["mount", *words, str(at)], check=True)
            undo.callback(subprocess.run, ["umount", "--lazy", str(at)], check=True)

        mount("-t", "tmpfs", "tmpfs", at=directory)
        for name in ("upper", "work", "root"):
            (directory / name).mkdir()
        options = f"lowerdir={lower},upperdir={directory}/upper,workdir={directory}/work"
        mount("-t", "overlay", "overlay", "-o", options, at=directory / "root")
        for folder in ("proc", "dev", "run") if lower == THIS_MACHINE else ():
            # in a container each device is a mount of its own; what is unmounted here stays there
            how = "--rbind" if folder == "dev" else "--bind"
            mount(how, "--make-rslave", f"/{folder}", at=directory / "root" / folder)
        # dpkg would read all manual pages of this machine each time: minutes on a busy one
        (directory / "root/var/lib/man-db/auto-update").unlink(missing_ok=True)
        yield Root(directory / "root", directory / "upper")
