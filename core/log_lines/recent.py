"""The last lines of this process's log, kept in memory for `netctl diag`.

They are there whatever becomes of standard error: a journal, a file of a container's runtime, or
syslog on another machine. Their number and length are bounded.
"""

import logging
from collections import deque
from typing import Final

LINES: Final = 1000
LONGEST: Final = 2000
"""Characters of a line that are kept."""


class RecentLines(logging.Handler):
    """Keeps the last lines; `formatter` is set by who adds it to a logger."""

    def __init__(self, lines: int = LINES) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=lines)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line of a record."""
        self._lines.append(self.format(record)[:LONGEST])

    def lines(self) -> list[str]:
        """Return the lines, the oldest first."""
        return list(self._lines)


def recent_lines() -> list[str]:
    """Return the last lines of the root logger; none where nothing keeps them."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RecentLines):
            return handler.lines()
    return []
