"""Each parser of outside input raises its own errors alone: a short run of each fuzz target."""

import random
import re
from pathlib import Path

import pytest

from tests.fuzz.mutations import mutated
from tests.fuzz.runner import Outcome, attempt, run
from tests.fuzz.targets import TARGETS, Target

ITERATIONS = 400


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_parser_raises_its_own_errors_alone(target: Target) -> None:
    outcome = run(target, ITERATIONS, seed=1)
    assert not outcome.failures
    assert outcome.calls == ITERATIONS


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_seeds_of_a_target_are_what_it_reads(target: Target) -> None:
    """A target whose seeds are refused would look at its first check alone."""
    assert any(not _refused(target, seed) for seed in target.seeds)


def _refused(target: Target, data: bytes) -> bool:
    outcome = Outcome(target.name)
    attempt(target, data, outcome)
    assert not outcome.failures
    return bool(outcome.refused)


def test_the_page_of_parsers_has_every_target() -> None:
    page = (Path(__file__).parents[2] / "docs" / "notes" / "parsers.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \| `", page, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(listed) == sorted(target.name for target in TARGETS)


def test_a_failure_is_found_and_named() -> None:
    def broken(data: bytes) -> None:
        if b"]" not in data:
            raise IndexError("a fault")

    outcome = run(Target("broken", (b"[1]",), broken, (ValueError,)), 500, seed=1)
    (place,) = outcome.failures
    assert place.startswith("IndexError at ")


def test_the_same_seed_makes_the_same_inputs() -> None:
    one, other = random.Random(7), random.Random(7)
    for _ in range(200):
        assert mutated(one, (b'{"a": 1}',), text=True) == mutated(other, (b'{"a": 1}',), text=True)
