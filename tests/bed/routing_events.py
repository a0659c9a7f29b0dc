"""What a namespace's kernel tells of changes of its routing: rules, routes, addresses.

In come a namespace and a file; out come the lines of `ip monitor` during the body.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bed.netns import Namespace
from tests.bed.waiting import eventually

_HEARING, _FIRST, _LAST = "198.51.100.1", "198.51.100.2", "198.51.100.3"
"""Addresses of routes that nothing uses; events of routes to them are the list's bounds."""


@contextmanager
def routing_events(namespace: Namespace, log: Path) -> Iterator[list[str]]:
    """Yield a list that has the events of the body when that has ended.

    What was done before the body causes none: the kernel tells of an IPv6 address once it has
    looked for duplicates, which it does later, of its own accord, even where it may skip the
    search. It holds the lock that changes of routes wait for until it has told.
    """
    events: list[str] = []
    monitor = namespace.popen(["ip", "-o", "monitor", "rule", "route", "address"], log=log)
    try:
        eventually(lambda: _shown(namespace, log, _HEARING), "the monitor hears of routes")
        eventually(lambda: not _tentative(namespace), "every address has been looked for")
        eventually(lambda: _shown(namespace, log, _FIRST), "what was before has been heard")
        yield events
        eventually(lambda: _shown(namespace, log, _LAST), "the monitor has heard of all")
    finally:
        monitor.kill()
        monitor.wait()
    lines = log.read_text().splitlines()
    first = max(number for number, line in enumerate(lines) if _FIRST in line)
    events += [line for line in lines[first + 1 :] if _LAST not in line]


def _tentative(namespace: Namespace) -> str:
    return namespace.run(["ip", "-6", "-o", "address", "show", "tentative"]).stdout


def _shown(namespace: Namespace, log: Path, address: str) -> bool:
    """Have an event of a route; tell whether the log has it."""
    for verb in ("replace", "del"):
        namespace.run(["ip", "route", verb, "unreachable", address, "table", "4242"])
    return address in log.read_text()
