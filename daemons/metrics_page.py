"""The page `/metrics` of a daemon: readings of `core.metrics` in the text format of Prometheus.

Here alone `prometheus_client` is imported, once a daemon is ready (`load`): it takes up to a fifth
of a second, which no start of a daemon should pay. It adds the usual metrics of the process, its
collector and its interpreter (`process_*`, `python_*`).
"""

import asyncio
import importlib
import itertools
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from core.metrics import Histogram, MetricKind, Reading, Source

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

PATH: Final = "/metrics"
_LOADING: Final = threading.Lock()
"""Of two threads that import modules which import each other, one may get a module that is half
loaded: Python ends what would be a deadlock so.
"""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def load() -> None:
    """Import the library, which is otherwise done for the first scrape.

    An upgrade replaces the files of a daemon that runs: by the first scrape they may be gone, or
    those of another release.
    """
    with _LOADING:
        importlib.import_module("prometheus_client.core")


class MetricsPage:
    """Reads the sources and writes the page; one per daemon."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources
        self._writing = asyncio.Lock()
        self._process: CollectorRegistry | None = None

    async def text(self) -> bytes:
        """Return the page of this moment."""
        # One at a time: a page is read at once from what the loop's thread changes, and written in
        # a thread, so that a cluster of many networks does not block the event loop.
        async with self._writing:
            readings = [one for source in self._sources for one in await source.read()]
            return await asyncio.to_thread(self._write, readings)

    async def plain_text(self) -> str:
        """Return the page of this moment as text."""
        return (await self.text()).decode()

    def _write(self, readings: Iterable[Reading]) -> bytes:
        load()  # which another thread may be about
        from prometheus_client import (  # noqa: PLC0415 - see `load`
            CollectorRegistry,
            GCCollector,
            PlatformCollector,
            ProcessCollector,
            generate_latest,
        )

        if self._process is None:
            process = CollectorRegistry()
            for collector in (ProcessCollector, PlatformCollector, GCCollector):
                collector(registry=process)
            self._process = process
        own = CollectorRegistry()
        own.register(_Readings(readings))
        return generate_latest(own) + generate_latest(self._process)


class _Readings:
    """Readings as a collector of `prometheus_client`."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = readings

    def collect(self) -> "Iterator[Metric]":
        """Yield each metric with its values."""
        for reading in self._readings:
            yield _family(reading)

    def describe(self) -> "Iterator[Metric]":
        """Yield nothing: the names are checked where they are declared."""
        return iter(())


def _family(reading: Reading) -> "Metric":
    from prometheus_client.core import (  # noqa: PLC0415 - see `load`
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    metric = reading.metric
    if metric.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in reading.values.items():
            if isinstance(value, Histogram):
                histogram.add_metric(labels, _buckets(value), value.sum)
        return histogram
    counts = metric.kind is MetricKind.COUNTER
    one = CounterMetricFamily if counts else GaugeMetricFamily
    family = one(metric.name, metric.help, labels=metric.labels)
    for labels, value in reading.values.items():
        if not isinstance(value, Histogram):
            family.add_metric(labels, value)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = (*(str(bound) for bound in histogram.bounds), "+Inf")
    return list(zip(bounds, itertools.accumulate(histogram.counts), strict=True))
