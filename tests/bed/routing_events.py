"""What a namespace's kernel tells of changes of its routing: rules, routes, addresses.

In come a namespace and a file; out come the lines of `ip monitor` during the body.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bed.netns import Namespace
from tests.bed.waiting import eventually

_MARKS = ("198.51.100.1", "198.51.100.2")
"""Addresses of routes that nothing uses: the first and the last event are theirs."""


@contextmanager
def routing_events(namespace: Namespace, log: Path) -> Iterator[list[str]]:
    """Yield a list that has the events of the body when that has ended."""
    events: list[str] = []
    monitor = namespace.popen(["ip", "-o", "monitor", "rule", "route", "address"], log=log)
    try:
        eventually(lambda: _shown(namespace, log, _MARKS[0]), "the monitor hears of routes")
        yield events
        eventually(lambda: _shown(namespace, log, _MARKS[1]), "the monitor has heard of all")
    finally:
        monitor.kill()
        monitor.wait()
    lines = log.read_text().splitlines()
    events += [line for line in lines if not any(mark in line for mark in _MARKS)]


def _shown(namespace: Namespace, log: Path, address: str) -> bool:
    """Have an event of a route; tell whether the log has it."""
    for verb in ("replace", "del"):
        namespace.run(["ip", "route", verb, "unreachable", address, "table", "4242"])
    return address in log.read_text()
