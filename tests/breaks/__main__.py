"""`make break-check`: break a cluster in many ways, and see whether one command names the cause.

Each break is made on a running cluster that is well; its command is asked until it names the cause,
and the break is mended. With --write the table of
docs/troubleshooting.md has the results. At the end stand all causes that were not named in time.
Exits with 0 if 57 of sixty were, or that share of those that were tried.
"""

import argparse
import itertools
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bed.cluster import ROOT
from tests.bed.waiting import eventually
from tests.breaks import others, parts, plain
from tests.breaks.breakable_cluster import BreakableCluster, cluster
from tests.breaks.table import LAST, Break, Result, chosen, names, verdict, written

BREAKS: Final = {**plain.BREAKS, **others.BREAKS, **parts.BREAKS}
PAGE: Final = ROOT / "docs" / "troubleshooting.md"
PAUSE: Final = 0.2
"""Seconds between two questions."""
MENDED: Final = 120.0
"""Seconds in which a cluster must be well again after a break; else the next one gets another."""


def main() -> int:
    """Run the breaks that are named, all for none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("breaks", nargs="*", help="names of breaks, all for none")
    parser.add_argument("--said", type=Path, help="a folder for what each command said last")
    parser.add_argument("--write", action="store_true", help=f"write the table of {PAGE.name}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="brk", dir="/run") as directory:
        wanted = chosen(BREAKS, arguments.breaks)
        found = list(results(Path(directory), wanted, arguments.said))
    if arguments.write:
        titles = [one.title for one in BREAKS.values()]
        PAGE.write_text(written(PAGE.read_text(), found, titles))
    enough, lines = verdict(found)
    say("\n".join(lines))
    return 0 if enough else 1


def results(directory: Path, wanted: list[Break], said: Path | None) -> Iterator[Result]:
    """Yield what came of each break, all on one cluster while that is well."""
    numbers = itertools.count()
    with ExitStack() as stack:
        made: BreakableCluster | None = None
        kind = ""
        for one in wanted:
            if made is None or kind != one.site or not is_mended(made):
                stack.close()
                kind = one.site
                made = stack.enter_context(cluster(directory / f"b{next(numbers)}", kind))
            yield tried(made, one, said)


def is_mended(made: BreakableCluster) -> bool:
    """Wait until a cluster is well; say why it is not."""
    try:
        eventually(made.is_well, "all is well", within=MENDED)
    except TimeoutError:
        say(f"  not mended: {made.ailment()}")
        return False
    return True


def tried(made: BreakableCluster, one: Break, said: Path | None) -> Result:
    """Break, ask, mend."""
    made.begin()
    seconds: float | None = None
    answer, began = "", time.monotonic()
    try:
        with one.way(made):
            seconds, answer = asked(made, one)
    except Exception:  # noqa: BLE001 - the others are tried all the same
        answer += traceback.format_exc()
    if said is not None:
        said.mkdir(parents=True, exist_ok=True)
        (said / f"{one.name}.txt").write_text(f"{one.title}\n{one.ask}\n{one.told}\n\n{answer}\n")
    shown = "not named" if seconds is None else f"{seconds:.1f} s"
    say(f"{one.name}: {shown} ({time.monotonic() - began:.0f} s)")
    return Result(title=one.title, ask=one.ask, seconds=seconds)


def asked(made: BreakableCluster, one: Break) -> tuple[float | None, str]:
    """Ask until the cause is named; return the seconds and what was said last."""
    answer, broken = "", time.monotonic()
    while time.monotonic() - broken < LAST:
        try:
            answer = made.ask(one.ask)
        except Exception:  # noqa: BLE001 - what is broken has to be mended
            answer = traceback.format_exc()
        if names(answer, one.told):
            return time.monotonic() - broken, answer
        time.sleep(PAUSE)
    return None, answer


def say(text: str) -> None:
    """Tell whoever waits."""
    print(text, flush=True)  # noqa: T201 - a program's output


if __name__ == "__main__":
    sys.exit(main())
