"""Metrics of a daemon, as plain values: what is measured, and how a reading of it looks.

A module that measures keeps numbers of its own, or a `Histogram`. On each scrape a `Source` reads
them all as `Reading`s; `daemons.metrics_page` writes these down for Prometheus. No module but that
one knows Prometheus.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Bounds in seconds for work that usually takes milliseconds."""


class MetricKind(StrEnum):
    """How the values of a metric behave; the names are those of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """What is measured. `labels` are the names of the labels that tell its values apart.

    Names follow Prometheus' rules: a unit at the end, and `_total` behind that of a counter.
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()


class Histogram:
    """Counts values in intervals: a value belongs to the first of `bounds` that is not less."""

    # This is on the path of every ADD and every request: an observation is one search in a tuple
    # and two additions, and takes no lock. All of them come from the event loop's thread.

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def copy(self) -> "Histogram":
        """Return the counts of this moment."""
        copied = Histogram(self.bounds)
        copied.counts, copied.sum = self.counts.copy(), self.sum
        return copied


class HistogramMap:
    """A histogram for each combination of the labels' values; made when it is first used."""

    __slots__ = ("_bounds", "_values")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = tuple(bounds)
        self._values: dict[tuple[str, ...], Histogram] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value under labels."""
        found = self._values.get(labels)
        if found is None:
            found = self._values[labels] = Histogram(self._bounds)
        found.observe(value)

    def copy(self) -> dict[tuple[str, ...], Histogram]:
        """Return the counts of this moment, by the labels' values."""
        return {labels: one.copy() for labels, one in self._values.items()}


Values = Mapping[tuple[str, ...], float | Histogram]


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of a metric at one moment, by the values of its labels, () without labels."""

    metric: Metric
    values: Values


def single(metric: Metric, value: float | Histogram) -> Reading:
    """Return the reading of a metric without labels."""
    return Reading(metric, {(): value})


def labelled(metric: Metric, values: Mapping[str, float]) -> Reading:
    """Return the reading of a metric with one label, by that label's value."""
    return Reading(metric, {(label,): value for label, value in values.items()})


class Source(Protocol):
    """A part of a daemon that can be read for metrics."""

    async def read(self) -> Iterable[Reading]:
        """Return the metrics of this moment; what is not known now is left out."""
        ...
