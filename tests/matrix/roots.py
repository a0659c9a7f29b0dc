"""A root of a release of Debian, made once and kept outside the tree.

In comes the name of a suite, out goes the folder of a minimal root with what `make setup` needs
before it can begin. Next is `tests.matrix.box`.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final

CACHE: Final = Path("/var/cache/contiv-matrix")
TREE: Final = "root/contiv"
"""Where a root has its clone of this tree."""
AUTHORITIES: Final = "etc/ssl/certs/ca-certificates.crt"
_PACKAGES: Final = "ca-certificates,git,make,python3,python3-venv,procps,iproute2"
_MIRROR: Final = "http://deb.debian.org/debian"


def made(suite: str) -> Path:
    """Return the root of a suite, which is made if it is not there."""
    root = CACHE / suite
    if not root.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        half = CACHE / f"{suite}.half"
        shutil.rmtree(half, ignore_errors=True)
        sources = [f"deb {_MIRROR} {one} main" for one in (suite, f"{suite}-updates")]
        words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}"]
        subprocess.run([*words, suite, str(half), *sources], check=True)
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
