"""Says on a terminal's standard error that a command still waits, and for how long.

Knows nothing of what is waited for. The line is gone before anything else is printed.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE: Final = 1.0
"""Seconds after which it is said, and seconds between two such words."""

_inside = threading.local()
"""`busy` while this thread is in `waiting`, so that an inner one is silent."""


@contextmanager
def waiting(patience: float = PATIENCE) -> Iterator[None]:
    """Say what is waited for while this is entered, after each `patience` seconds."""
    if getattr(_inside, "busy", False) or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    told = threading.Thread(target=_tell, args=(ended, patience), daemon=True)
    _inside.busy = True
    told.start()
    try:
        yield
    finally:
        _inside.busy = False
        ended.set()
        told.join()


def _tell(ended: threading.Event, patience: float) -> None:
    seconds = 0
    while not ended.wait(patience):
        seconds += 1
        _write(f"\rwaiting for an answer, {seconds} s ")
    if seconds:
        _write("\r\x1b[K")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
