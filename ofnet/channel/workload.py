"""The work that Open vSwitch was given and has not acknowledged, and the time it may take for it.

Open vSwitch handles the OpenFlow messages of all its bridges in one thread. While it commits a
bundle or walks its flows for a dump it answers nobody, on no bridge. So how long it may stay
silent grows with the work of all bridges; without work it is the usual time. Pure.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

PER_FLOW: Final = 50e-6
"""Seconds that a flow may take to be added, deleted or dumped.

Nine times what Open vSwitch 3.1 needs for an added flow on a quiet machine (docs/performance.md).
"""


class Moment(NamedTuple):
    """A time in seconds, and how many flows were acknowledged before it."""

    time: float
    done: int


class Workload:
    """Counts the flows that a switch is at work on. The bridges of one process share it.

    It may take `per_flow` seconds for each.
    """

    def __init__(self, per_flow: float = PER_FLOW) -> None:
        self._per_flow = per_flow
        self._given = self._done = 0

    @contextmanager
    def of(self, flows: int) -> Iterator[None]:
        """Count flows as given for the length of the body, and as done after it."""
        self._given += flows
        try:
            yield
        finally:
            self._done += flows

    def moment(self, time: float) -> Moment:
        """Return the present moment, from which `deadline` counts. `time` is in seconds."""
        return Moment(time, self._done)

    def deadline(self, since: Moment, limit: float) -> float:
        """Return when a switch is late that may take `limit` seconds without any work."""
        # Also work that is done by now counts: it may be what has kept the switch from the rest.
        return since.time + limit + self._per_flow * (self._given - since.done)
