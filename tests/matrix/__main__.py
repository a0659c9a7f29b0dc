"""`make matrix`: run parts of the tests on releases of Debian, and write what came of it.

    python -m tests.matrix [--releases NAME...] [--parts NAME...] [--within SECONDS]

The results go into the table of docs/platforms.md, what was printed into .run/matrix. Needs root,
mmdebstrap, and the archives of Debian and of Python while a root is set up.

`--within` is for CI: all has ended within so many seconds. What there is no time for is left out,
and an archive that does not answer leaves out all; neither is a failure, and the table stays.
"""

import argparse
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.matrix import roots
from tests.matrix.box import Box
from tests.matrix.budget import SETUP, Budget
from tests.matrix.releases import DEMO, PARTS, RELEASES, VERSIONS, WHOLE
from tests.matrix.table import CUT, Result, counted, together, version_in, written

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "platforms.md"
LOGS: Final = ROOT / ".run" / "matrix"
REPORT: Final = "tmp/matrix.xml"
REPORTS: Final = f"{roots.TREE}/.run/reports"
"""Where `make test` leaves a report of each of its parts."""
_COMPLETE: Final = (0, 1)
"""What pytest ends with when it ran all tests."""
_TIME: Final = (124, 137)
"""What `timeout` ends with when it had to end the command."""


class NoRootError(Exception):
    """A release has no root: the archive gives none, or another run has it."""


Found = tuple[str, str, bool]
"""The name of a part, what came of it, and whether it failed."""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name, all of it without any; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("--releases", nargs="+", choices=RELEASES, default=list(RELEASES))
    parser.add_argument("--parts", nargs="+", choices=PARTS)
    parser.add_argument("--within", type=int)
    options = parser.parse_args(arguments)
    within = options.within
    budget = Budget(None if within is None else time.monotonic() + within)
    LOGS.mkdir(parents=True, exist_ok=True)
    failures = 0
    for release in options.releases:
        title = RELEASES[release].title
        for name, cell, failed in tried(release, options.parts, budget):
            sys.stdout.write(f"{title}: {name}: {cell}\n")
            sys.stdout.flush()
            if not budget.limited:
                PAGE.write_text(written(PAGE.read_text(), {(name, title): cell}))
            failures += failed
    return int(failures > 0)


def tried(release: str, parts: Sequence[str] | None, budget: Budget) -> Iterator[Found]:
    """Set up a root and run parts in it, all that are for it without any; yield what came of each.

    A root that cannot be set up fails unless time is limited: then it says so.
    """
    chosen = parts or RELEASES[release].parts
    if not budget.has_room(time.monotonic(), SETUP):
        yield ", ".join(chosen), "left out for time", False
        return
    try:
        with started(release, budget) as box:
            roots.unfinished(release).touch()
            if run(box, budget, f"{release}-setup", "make setup", online=True):
                log = LOGS / f"{release}-setup.log"
                yield "setup", f"left out, it cannot be set up: {log}", not budget.limited
                return
            roots.unfinished(release).unlink()
            (box.root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
            yield "what it has", ", ".join(versions(box)), False
            yield from results(box, release, chosen, budget)
    except NoRootError as error:
        yield "setup", f"left out, there is no root: {error}", not budget.limited


@contextmanager
def started(release: str, budget: Budget) -> Iterator[Box]:
    """Run a box of a release with this tree in it; raises `NoRootError`."""
    with ExitStack() as undo:
        try:
            undo.enter_context(roots.alone(release))
            root = roots.made(release, budget.seconds(time.monotonic()))
            roots.prepare(root, ROOT)
            box = Box(root)
            undo.callback(box.stop)
            box.start()
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            raise NoRootError(str(error)) from error
        yield box


def results(box: Box, release: str, parts: Sequence[str], budget: Budget) -> Iterator[Found]:
    """Run parts in a box; yield what came of each."""
    for part in parts:
        if not budget.has_room(time.monotonic(), PARTS[part].minutes):
            yield part, "left out for time", False
            continue
        found = result(box, budget, release, part)
        # in each cell: parts are run on different days
        when = f"{commit(box.root)}, {datetime.now(UTC):%Y-%m-%d}"
        yield part, f"{found} ({when})", found.bad


def result(box: Box, budget: Budget, release: str, part: str) -> Result:
    """Run one part and return what came of it."""
    name, report = f"{release}-{part.replace(' ', '-')}", box.root / REPORT
    if part == DEMO:
        status = run(box, budget, name, ".venv/bin/python -m tests.bed.demo run")
        return Result(0, 0, CUT) if status in _TIME else Result(int(status == 0), int(status != 0))
    if part == WHOLE:
        reports = box.root / REPORTS
        shutil.rmtree(reports, ignore_errors=True)
        status = run(box, budget, name, "make test")
        found = [counted(one.read_text()) for one in sorted(reports.glob("*.xml"))]
        # of its parts, one that wrote no report is seen by the status alone
        ended = CUT if status in _TIME else "" if status == 0 else f"make ended with {status}"
        return together(found, ended)
    report.unlink(missing_ok=True)
    words = [".venv/bin/python", "-m", "pytest", "-q", f"--junitxml=/{REPORT}", *PARTS[part].tests]
    status = run(box, budget, name, f"{PARTS[part].before} {shlex.join(words)}".strip())
    ended = "" if status in _COMPLETE else CUT if status in _TIME else f"ended with status {status}"
    return counted(report.read_text(), ended) if report.exists() else Result(0, 0, ended)


def run(box: Box, budget: Budget, name: str, command: str, *, online: bool = False) -> int:
    """Run a command in the tree of a box, with what it prints in a file; return its status."""
    seconds = budget.seconds(time.monotonic())
    # pytest that is interrupted writes its report, and a demo removes what it has made
    limit = f"timeout --signal=INT --kill-after=60 {seconds} " if seconds else ""
    script = f"cd /{roots.TREE} && {limit}bash -c {shlex.quote(command)}"
    with (LOGS / f"{name}.log").open("w") as log:
        return box.run(script, online=online, output=log).returncode


def versions(box: Box) -> Iterator[str]:
    """Yield what differs most in a box, each with its version."""
    for name, command in VERSIONS.items():
        said = box.run(command, output=subprocess.PIPE).stdout
        yield f"{name} {version_in(said)}"


def commit(root: Path) -> str:
    """Return the commit that a root has: this tree may have moved on since."""
    words = ["git", "-C", str(root / roots.TREE), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    sys.exit(main(sys.argv[1:]))
