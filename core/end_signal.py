"""Waits for the end that a signal asks for, in commands that run for long and are no daemons.

In come SIGTERM and SIGINT, out goes an event. What runs on an event loop has `core.tasks`.
"""

import signal
import threading


def told_to_end() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on, instead of ending the process."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    return told
