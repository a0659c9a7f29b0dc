"""A root of a release of Debian, made once and kept outside the tree.

In comes the name of a release, out goes the folder of a minimal root with what `make setup` needs
before it can begin. Next is `tests.matrix.box`.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.matrix.releases import RELEASES

CACHE: Final = Path("/var/cache/contiv-matrix")
TREE: Final = "root/contiv"
"""Where a root has its clone of this tree."""
AUTHORITIES: Final = "etc/ssl/certs/ca-certificates.crt"
_PACKAGES: Final = "ca-certificates,git,make,python3,python3-venv,procps,iproute2"
_MIRROR: Final = os.environ.get("MIRROR", "http://deb.debian.org/debian")
"""Of Debian's archive, as for scripts/image."""
_PATIENCE: Final = 1200
"""Seconds that the archive may take; one that hangs must not keep all others waiting."""


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Have the root of a release for this run; raises `BlockingIOError` while another has it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(f"another run has it ({CACHE / name})") from error
        yield


def unfinished(name: str) -> Path:
    """Return the file that is there while a root is set up, and stays if that ends too early.

    Packages that are installed half would keep all others out for ever.
    """
    return CACHE / f"{name}.unfinished"


def made(name: str, seconds: int = 0) -> Path:
    """Return the root of a release, which is made if it is not there, in so many seconds if any.

    Raises `subprocess.CalledProcessError` if the archive does not give it.
    """
    root, half = CACHE / name, CACHE / f"{name}.half"
    # never what an earlier try has left mounted in them
    remove = ["rm", "-rf", "--one-file-system", str(half)]
    if unfinished(name).exists():
        remove.append(str(root))
    subprocess.run(remove, check=True)
    if not root.exists():
        release = RELEASES[name]
        sources = [f"deb {_MIRROR} {suite} main" for suite in release.suites]
        options = [f"--include={_PACKAGES}", *(f"--aptopt={one}" for one in release.apt)]
        # told to end, mmdebstrap unmounts what it has mounted in the root
        limit = ["timeout", "--kill-after=60", str(seconds or _PATIENCE)]
        words = [*limit, "mmdebstrap", "--quiet", "--variant=minbase", *options]
        subprocess.run([*words, release.suites[0], str(half), *sources], check=True)
        half.rename(root)
    return root


def prepare(root: Path, source: Path) -> None:
    """Give a root this tree's commit, and what this machine knows of the network."""
    for path in (AUTHORITIES, "etc/resolv.conf"):
        shutil.copy(Path("/") / path, root / path)
    tree = root / TREE
    git = ["git", "-C", str(tree)]
    if not tree.exists():
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", source, tree], check=True)
    subprocess.run([*git, "fetch", "--quiet", "--tags", str(source), "HEAD"], check=True)
    subprocess.run([*git, "reset", "--quiet", "--hard", "FETCH_HEAD"], check=True)
