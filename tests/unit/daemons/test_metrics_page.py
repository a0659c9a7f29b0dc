"""The page as the client library reads it."""

import asyncio
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from core.metrics import Histogram, Metric, MetricKind, Reading, labelled, single
from daemons import metrics_page
from daemons.metrics_page import MetricsPage
from daemons.request_stats import UNKNOWN, RequestStats, method_label

CALLS = Metric("contiv_x_calls_total", MetricKind.COUNTER, "Calls.", ("verb",))
SECONDS = Metric("contiv_x_seconds", MetricKind.HISTOGRAM, "Time.")
FREE = Metric("contiv_x_free", MetricKind.GAUGE, "Free ones.", ("network",))


class Fixed:
    """A source with always the same readings."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = readings

    async def read(self) -> Iterable[Reading]:
        return self._readings


async def values(*readings: Reading) -> dict[tuple[str, ...], float]:
    """Return the values of a page, by name and labels' values."""
    text = (await MetricsPage(Fixed(*readings)).text()).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_counters_gauges_and_histograms_are_read_back() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.5, 0.5, 3.0):
        histogram.observe(value)
    found = await values(
        labelled(CALLS, {"ADD": 3, "DEL": 1}),
        single(SECONDS, histogram),
        labelled(FREE, {'a "quoted"\\name\n': 2.0**64}),
    )
    assert found["contiv_x_calls_total", "ADD"] == 3
    assert found["contiv_x_calls_total", "DEL"] == 1
    assert found["contiv_x_free", 'a "quoted"\\name\n'] == 2.0**64
    buckets = {key[-1]: n for key, n in found.items() if key[0] == "contiv_x_seconds_bucket"}
    assert buckets == {"0.1": 1, "1.0": 3, "+Inf": 4}
    assert found["contiv_x_seconds_count",] == 4
    assert found["contiv_x_seconds_sum",] == 4.05


async def test_the_process_is_there_too_and_only_once() -> None:
    page = MetricsPage(Fixed())
    first, second = await page.text(), await page.text()
    for text in (first, second):
        names = [family.name for family in text_string_to_metric_families(text.decode())]
        assert "process_resident_memory_bytes" in names
        assert "python_info" in names
        assert len(names) == len(set(names))


def test_labels_are_never_a_clients_own_words() -> None:
    assert method_label("GET") == "GET"
    assert method_label("BREW") == UNKNOWN
    stats = RequestStats()
    stats.count(200, 0.1, "GET", "/info")
    stats.count(200, 0.1, "GET", "/info")
    stats.count(404, 0.1, "GET", UNKNOWN)
    assert stats.answered == {("GET", "/info", "200"): 2, ("GET", UNKNOWN, "404"): 1}
    assert sum(stats.seconds.copy()["GET", "/info"].counts) == 2


async def test_a_scrape_waits_for_the_library_that_is_being_loaded() -> None:
    async with asyncio.TaskGroup() as tasks:
        # as `load` holds it, in the thread that a daemon which is ready begins
        with metrics_page._LOADING:
            page = tasks.create_task(MetricsPage(Fixed(single(FREE, 1.0))).text())
            await asyncio.sleep(0.05)
            assert not page.done()
    assert b"contiv_x_free" in page.result()
