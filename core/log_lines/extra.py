"""The fields that a call site attached to a log record (`extra`)."""

import logging
from itertools import islice
from typing import Any, Final

_OWN: Final = len(logging.makeLogRecord({}).__dict__)
"""How many attributes `logging` sets of each record before it adds the fields."""
_ADDED: Final = frozenset({"message", "asctime", "taskName"})
"""What formatters and tasks of other libraries add behind it, and no call site attached."""


def extra_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields a call site attached to a record, in the order given."""
    # A leader logs each endpoint, so this does not look at all that a record has: the fields are
    # behind what `logging` sets itself.
    behind = islice(record.__dict__.items(), _OWN, None)
    return {name: value for name, value in behind if name not in _ADDED}
