"""`make matrix`: run parts of the tests on releases of Debian, and write what came of it.

    python -m tests.matrix [RELEASE... [-- PART...]]

The results go into the table of docs/platforms.md, what was printed into .run/matrix. Needs root,
mmdebstrap, and the archives of Debian and of Python while a root is set up.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.matrix import roots
from tests.matrix.box import Box
from tests.matrix.releases import DEMO, PARTS, RELEASES, VERSIONS
from tests.matrix.table import Result, counted, version_in, written

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "platforms.md"
LOGS: Final = ROOT / ".run" / "matrix"
REPORT: Final = "tmp/matrix.xml"
_WHOLE: Final = (0, 1)
"""What pytest ends with when it ran all tests."""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name, all of it without any; 1 if something failed."""
    separator = arguments.index("--") if "--" in arguments else len(arguments)
    suites = arguments[:separator] or list(RELEASES)
    parts = arguments[separator + 1 :] or list(PARTS)
    if unknown := [one for one in parts if one not in PARTS]:
        sys.exit(f"no part {', '.join(unknown)}: there are {', '.join(PARTS)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    failed = 0
    for suite in suites:
        for name, cell, good in tried(suite, parts):
            sys.stdout.write(f"{RELEASES[suite]}: {name}: {cell}\n")
            sys.stdout.flush()
            PAGE.write_text(written(PAGE.read_text(), {(name, RELEASES[suite]): cell}))
            failed += not good
    return int(failed > 0)


def tried(suite: str, parts: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Set up a root and run parts in it; yield the name, the cell, and whether it is good."""
    root = roots.made(suite)
    roots.prepare(root, ROOT)
    box = Box(root)
    box.start()
    try:
        setup = run(box, suite, "setup", "make setup", online=True)
        if setup:
            yield "setup", f"failed ({LOGS / suite}-setup.log)", False
            return
        (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
        said = {name: asked(box, command) for name, command in VERSIONS.items()}
        yield "what it has", ", ".join(f"{name} {version}" for name, version in said.items()), True
        for part in parts:
            found = result(box, suite, part)
            # in each cell: parts are run on different days
            when = f"{commit()}, {datetime.now(UTC):%Y-%m-%d}"
            yield part, f"{found} ({when})", not (found.failed or found.ended)
    finally:
        box.stop()


def result(box: Box, suite: str, part: str) -> Result:
    """Run one part and return what came of it."""
    if part == DEMO:
        status = run(box, suite, part, ".venv/bin/python -m tests.bed.demo run")
        return Result(int(status == 0), int(status != 0))
    report = box.root / REPORT
    report.unlink(missing_ok=True)
    words = " ".join(PARTS[part])
    tests = f".venv/bin/python -m pytest -q --junitxml=/{REPORT} {words}"
    status = run(box, suite, part.replace(" ", "-"), tests)
    ended = "" if status in _WHOLE else f"ended with status {status}"
    return counted(report.read_text(), ended) if report.exists() else Result(0, 0, ended)


def run(box: Box, suite: str, name: str, command: str, *, online: bool = False) -> int:
    """Run a command in the tree of a box, with what it prints in a file; return its status."""
    with (LOGS / f"{suite}-{name}.log").open("w") as log:
        return box.run(f"cd /{roots.TREE} && {command}", online=online, output=log).returncode


def asked(box: Box, command: str) -> str:
    """Return the version that a program of a box tells."""
    return version_in(box.run(command, output=subprocess.PIPE).stdout)


def commit() -> str:
    """Return the commit of this tree."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    sys.exit(main(sys.argv[1:]))
