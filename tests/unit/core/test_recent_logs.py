"""The last lines of the log, in memory."""

import logging

from core.log_lines.recent import LONGEST, RecentLines


def test_the_last_lines_are_kept_and_long_ones_cut() -> None:
    kept = RecentLines(lines=3)
    log = logging.getLogger("tests.recent lines")
    log.propagate = False
    log.setLevel(logging.INFO)
    log.addHandler(kept)
    try:
        for number in range(5):
            log.info("line %s", number)
        log.info("x" * (LONGEST + 1))
    finally:
        log.removeHandler(kept)
    assert kept.lines() == ["line 3", "line 4", "x" * LONGEST]
