"""A line that repeats is written a few times, then now and then, with how many were left out."""

import logging
from typing import Final

import pytest

from core.log_lines.repeats import BURST, COMPLETE, PAUSE, RepeatLimit
from netmaster.auth import audit
from netplugin.diagnostics import policy_log

BEGAN: Final = 1_000_000.0


@pytest.fixture
def limit() -> RepeatLimit:
    return RepeatLimit()


def line(
    message: str = "waiting",
    level: int = logging.INFO,
    name: str = "a",
    at: float = 0.0,
    **extra: object,
) -> logging.LogRecord:
    logger = logging.getLogger(name)
    made = logger.makeRecord(name, level, "f", 1, message, (), None, extra=extra)
    made.created = BEGAN + at
    return made


def passed(limit: RepeatLimit, number: int, **of: object) -> int:
    """Return how many of a number of the same lines are written."""
    return sum(bool(limit.filter(line(**of))) for _ in range(number))  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING, logging.ERROR])
def test_the_first_lines_pass(limit: RepeatLimit, level: int) -> None:
    assert passed(limit, 3 * BURST, level=level) == BURST


def test_a_line_that_goes_on_is_written_now_and_then(limit: RepeatLimit) -> None:
    passed(limit, BURST)
    for turn in range(3):
        assert passed(limit, 20, at=turn * PAUSE) == 0
        record = line(at=(turn + 1) * PAUSE)
        assert limit.filter(record)
        assert record.__dict__["repeated"] == 20


def test_one_that_is_rare_always_passes_as_it_is(limit: RepeatLimit) -> None:
    for turn in range(10 * BURST):
        record = line(at=turn * PAUSE)
        assert limit.filter(record)
        assert "repeated" not in record.__dict__


def test_a_clock_that_is_set_back_silences_nothing(limit: RepeatLimit) -> None:
    passed(limit, BURST)
    assert not limit.filter(line(at=-1000.0))
    assert limit.filter(line(at=-1000.0 + PAUSE))


def test_lines_that_differ_are_told_apart(limit: RepeatLimit) -> None:
    for other in (
        line("ready"),
        line(level=logging.WARNING),
        line(name="b"),
        line(host="h1"),
        line(host="h2"),
    ):
        passed(limit, BURST + 1)
        assert limit.filter(other)


def test_all_handlers_are_told_the_same_of_a_record(limit: RepeatLimit) -> None:
    for number in range(3 * BURST):
        record = line(at=PAUSE if number >= 2 * BURST else 0.0)
        passes = limit.filter(record)
        assert passes == (number < BURST or number == 2 * BURST)
        assert limit.filter(record) == passes


@pytest.mark.parametrize("name", sorted(COMPLETE))
def test_evidence_is_complete(limit: RepeatLimit, name: str) -> None:
    assert name in {audit.log.name, policy_log.log.name}
    assert passed(limit, 10 * BURST, name=name) == 10 * BURST


def test_debug_lines_pass(limit: RepeatLimit) -> None:
    assert passed(limit, 10 * BURST, level=logging.DEBUG) == 10 * BURST


def test_the_last_line_that_is_written_tells_the_state(limit: RepeatLimit) -> None:
    states = ["up1", "up1 up2"] * 5 * BURST
    assert all(limit.filter(line("cards in use changed", cards=one)) for one in states)


def test_another_loggers_line_changes_nothing(limit: RepeatLimit) -> None:
    for _ in range(BURST):
        assert limit.filter(line())
        assert limit.filter(line("else", name="b"))
    assert not limit.filter(line())
