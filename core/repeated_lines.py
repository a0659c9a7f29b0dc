"""Limits how often one and the same log line is written.

A loop that waits for something says so each time it looks. In come records; a line with the same
logger, message and fields as one before passes `BURST` times at once, then once in `PAUSE` seconds,
with the number that were left out as its field `repeated`. Lines that differ in any field are told
apart, and debug lines always pass. So do the loggers of `COMPLETE`, where each line is a fact of
its own.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

BURST: Final = 5
PAUSE: Final = 10.0
"""Seconds."""
REMEMBERED: Final = 512
"""Lines that are told apart; of more, those that were not repeated for longest are forgotten."""

COMPLETE: Final = frozenset({"audit", "netplugin.diagnostics.policy_log"})
"""Loggers whose lines are evidence: who did what, and each packet of a rule with `log`."""


@dataclass(slots=True)
class _Line:
    left: float
    """How often the line may be written now."""
    at: float
    """When `left` was computed."""
    dropped: int = 0


class RepeatLimit(logging.Filter):
    """A filter for one handler. Its clock is the records' own time."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: OrderedDict[tuple[str, ...], _Line] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be written, with `repeated` if some were not."""
        if record.levelno <= logging.DEBUG or record.name in COMPLETE:
            return True
        line = self._line(_identity(record), record.created)
        passed = max(0.0, record.created - line.at)  # the clock may be set back
        line.left, line.at = min(BURST, line.left + passed / PAUSE), record.created
        if line.left < 1:
            line.dropped += 1
            return False
        line.left -= 1
        if line.dropped:
            # On the record itself: until Python 3.12 a filter cannot give another one.
            record.__dict__[_REPEATED] = line.dropped
            line.dropped = 0
        return True

    def _line(self, identity: tuple[str, ...], now: float) -> _Line:
        line = self._lines.get(identity)
        if line is None:
            if len(self._lines) >= REMEMBERED:
                self._lines.popitem(last=False)
            line = self._lines[identity] = _Line(BURST, now)
        self._lines.move_to_end(identity)
        return line


_REPEATED: Final = "repeated"
_IGNORED: Final = frozenset({*logging.makeLogRecord({}).__dict__, _REPEATED})
"""What is no field of a line; `repeated` may be another handler's, which counts as this one."""


def _identity(record: logging.LogRecord) -> tuple[str, ...]:
    """Return what tells a line from others: not its time, nor the place in the code."""
    named = (f"{k}={v}" for k, v in record.__dict__.items() if k not in _IGNORED)
    return record.name, record.levelname, record.getMessage(), *named
