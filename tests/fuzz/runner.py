"""Calls targets with mutated inputs and counts; `python -m tests.fuzz.runner [TARGET...]`.

ITERATIONS is the number of calls of each target of share 1, SEED that of the choices. What fails is
printed with the input, and the exit code is 1. `make explore` runs it.
"""

import os
import random
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS, Target

SLOW: Final = 2.0
"""Seconds of processor time for one input; more is a failure as well."""
MOST_KEPT: Final = 5
"""Different failures that are kept of a target; the run of the target ends then."""


@dataclass(slots=True)
class Outcome:
    """What a run of a target showed: calls, refusals, and what failed by the place it came from."""

    target: str
    calls: int = 0
    refused: int = 0
    failures: dict[str, tuple[bytes, str]] = field(default_factory=dict)


def run(target: Target, iterations: int, seed: int) -> Outcome:
    """Call a target with its seeds, then with inputs made of them."""
    outcome, choices = Outcome(target.name), random.Random(f"{seed} {target.name}")
    for number in range(iterations):
        if number < len(target.seeds):
            data = target.seeds[number]
        else:
            data = mutated(choices, target.seeds, text=target.text)
        attempt(target, data, outcome)
        if len(outcome.failures) >= MOST_KEPT:
            break
    return outcome


def attempt(target: Target, data: bytes, outcome: Outcome) -> None:
    """Call a target once. Anything but its own errors is a failure, and so is a slow answer."""
    outcome.calls += 1
    began = time.thread_time()
    try:
        target.call(data)
    except target.refusals:
        outcome.refused += 1
    except Exception as exc:  # noqa: BLE001 - what a parser must not raise is looked for here
        place = traceback.extract_tb(exc.__traceback__)[-1]
        outcome.failures.setdefault(
            f"{type(exc).__name__} at {place.filename}:{place.lineno}",
            (data, "".join(traceback.format_exception(exc)[-6:])),
        )
    taken = time.thread_time() - began
    if taken > SLOW:
        outcome.failures.setdefault("slow", (data, f"{taken:.1f} s of processor time"))


def report(outcome: Outcome) -> None:
    """Print one line for a target, and its failures."""
    _say(f"{outcome.target:32} {outcome.calls:>9} calls {outcome.refused:>9} refused")
    for place, (data, text) in outcome.failures.items():
        _say(f"  {place}\n  input {data[:400]!r}{' ...' if len(data) > 400 else ''}\n{text}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(names: Iterable[str]) -> int:
    """Run the targets that are named, or all."""
    wanted = set(names) or {target.name for target in TARGETS}
    iterations = int(os.environ.get("ITERATIONS", "20000"))
    seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
    _say(f"seed {seed}")
    total, failed = 0, False
    for target in TARGETS:
        if target.name in wanted:
            outcome = run(target, int(iterations * target.share), seed)
            report(outcome)
            total += outcome.calls
            failed = failed or bool(outcome.failures)
    _say(f"{'all':32} {total:>9} calls")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
