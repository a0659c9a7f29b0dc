"""Times the stages of ADDs: for the histograms of all of them, and for the log line of each.

In come stages that begin and end (`netplugin.pods.handler`, `netplugin.pods.add`); out go `seconds`
for the page of metrics, and what `begin` returned for the log and for those who look later
(`netplugin.pods.registry.recent_adds`). Knows nothing of what a stage does.
"""

import time
from collections.abc import Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Final

from core.metrics import HistogramMap
from core.tracing.spans import part


class AddTimes:
    """The stages of one ADD that have ended: what each took in all, and when it was last over."""

    __slots__ = ("_began", "_over", "seconds")

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._over: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def note(self, stage: str, seconds: float) -> None:
        """Note a stage that ends now; one that came twice, as `port` may, took both together."""
        self._over[stage] = time.monotonic() - self._began
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def timeline(self) -> Iterator[tuple[str, float, float]]:
        """Yield each stage, when it began and what it took, in the order in which they ended."""
        for stage, seconds in self.seconds.items():
            yield stage, max(0.0, self._over[stage] - seconds), seconds


# The steps of an ADD are tasks that it starts. They get its context, and with it the same times.
_OF_THIS_ADD: Final[ContextVar[AddTimes]] = ContextVar("stages")


class AddStages:
    """The stages of this agent's ADDs; those that fail are not counted."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = HistogramMap()

    def begin(self) -> AddTimes:
        """Return where the stages of the ADD that this task carries out are noted."""
        times = AddTimes()
        _OF_THIS_ADD.set(times)
        return times

    def timed(self, stage: str) -> "Stopwatch":
        """Return a context that notes how long its body took, unless it fails."""
        return Stopwatch(self, stage)

    def note(self, stage: str, seconds: float) -> None:
        """Note how long a stage took that ends now."""
        self.seconds.observe(seconds, stage)
        times = _OF_THIS_ADD.get(None)
        if times is not None:
            times.note(stage, seconds)


class Stopwatch:
    """Notes the seconds of a body. A failed body tells nothing about a usual duration."""

    __slots__ = ("_began", "_span", "_stage", "_stages")

    def __init__(self, stages: AddStages, stage: str) -> None:
        self._stages = stages
        self._stage = stage
        self._began = 0.0
        self._span = part(stage)

    def __enter__(self) -> None:
        self._span.__enter__()
        self._began = time.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._span.__exit__(kind, error, trace)
        if kind is None:
            self._stages.note(self._stage, time.monotonic() - self._began)


def shown(times: AddTimes) -> str:
    """Return the stages as the log has them, in the order in which they ended: `grant 0.0051, …`.

    Some run side by side, so that their sum is more than the whole.
    """
    return ", ".join(f"{stage} {seconds:.4f}" for stage, seconds in times.seconds.items())
