"""When to write a tunnel port again that Open vSwitch could not add.

Open vSwitch tries such a port again only after the next change of its database, whatever the cause
was. One cause passes without a change: "File exists", since a removed tunnel to the same address is
destroyed a moment after its row. So the row is written again, with another number, soon at first
and seldom later: each change makes Open vSwitch go through all ports, which costs packets of other
tunnels.

In come the rows of OVSDB; out go the names that are due, for `netplugin.bridges.vxlan.tunnels`.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from core.retry import Pace
from netplugin.ovsdb import PortRow

PACE: Final = Pace(1.0, 60.0)
"""Of attempts."""


class PortRetries:
    """The ports that failed, and the time of each one's next attempt. `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, pace: Pace = PACE) -> None:
        self._clock = clock
        self._pace = pace
        self._waits: dict[str, Iterator[float]] = {}
        self._due: dict[str, float] = {}

    def observe(self, rows: Iterable[PortRow]) -> None:
        """Note which ports failed; those that were added, or are gone, are forgotten."""
        numbers = {row.name: row.ofport for row in rows}
        for name in self._waits.keys() - numbers.keys():
            self._forget(name)
        for name, ofport in numbers.items():
            if ofport is not None and ofport > 0:
                self._forget(name)
            elif ofport is not None and name not in self._due:
                waits = self._waits.setdefault(name, self._pace.pauses())
                self._due[name] = self._clock() + next(waits)

    def take(self, name: str) -> bool:
        """Return whether a port is to be written again now, which is one attempt."""
        if self._due.get(name, float("inf")) > self._clock():
            return False
        del self._due[name]
        return True

    def next_due(self) -> float | None:
        """Return the seconds until the next attempt, at least 0; None if no port failed."""
        return max(0.0, min(self._due.values()) - self._clock()) if self._due else None

    def _forget(self, name: str) -> None:
        self._waits.pop(name, None)
        self._due.pop(name, None)
