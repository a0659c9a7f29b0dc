"""Limits how often one and the same log line is written in a row.

A loop that waits for something says so each time it looks. In come records; a line with the same
level, message and fields as the one before of its logger passes `BURST` times at once, then once in
`PAUSE` seconds, with the number that were left out as its field `repeated`. Any other line of the
logger comes first anew: of lines that tell of a state, the last that is written is the state.
Debug lines always pass. So do the loggers of `COMPLETE`, where each line is a fact of its own.
"""

import logging
from dataclasses import dataclass
from typing import Final

from core.log_lines.extra import extra_of

BURST: Final = 5
PAUSE: Final = 10.0
"""Seconds."""

COMPLETE: Final = frozenset({"audit", "netplugin.diagnostics.policy_log"})
"""Loggers whose lines are evidence: who did what, and each packet of a rule with `log`."""


@dataclass(slots=True)
class _Line:
    """The latest line of a logger."""

    identity: tuple[str, ...]
    at: float
    """When `left` was computed."""
    left: float = BURST
    """How often the line may be written now."""
    dropped: int = 0


class RepeatLimit(logging.Filter):
    """A filter, which all handlers of a logger share. Its clock is the records' own time."""

    def __init__(self) -> None:
        super().__init__()
        self._judged: logging.LogRecord | None = None
        self._passed = True
        self._latest: dict[str, _Line] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be written, with `repeated` if some were not."""
        # Each handler asks, one after the other, about the same record.
        if record is not self._judged:
            self._passed, self._judged = self._judge(record), record
        return self._passed

    def _judge(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG or record.name in COMPLETE:
            return True
        line = self._line(record)
        passed = max(0.0, record.created - line.at)  # the clock may be set back
        line.left, line.at = min(BURST, line.left + passed / PAUSE), record.created
        if line.left < 1:
            line.dropped += 1
            return False
        line.left -= 1
        if line.dropped:
            # On the record itself: until Python 3.12 a filter cannot give another one.
            record.__dict__["repeated"] = line.dropped
            line.dropped = 0
        return True

    def _line(self, record: logging.LogRecord) -> _Line:
        identity, line = _identity(record), self._latest.get(record.name)
        if line is None or line.identity != identity:
            line = self._latest[record.name] = _Line(identity, record.created)
        return line


def _identity(record: logging.LogRecord) -> tuple[str, ...]:
    """Return what tells a line of a logger from others: not its time, nor its place in the code."""
    named = sorted(extra_of(record).items())
    return record.levelname, record.getMessage(), *(f"{name}={value}" for name, value in named)
