"""Histograms count what they are told."""

from core.metrics import Histogram, HistogramMap


def test_a_value_is_counted_in_the_first_interval_that_holds_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 7.0):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.sum == 12.0


def test_a_copy_stays_as_it_was() -> None:
    seconds = HistogramMap((1.0,))
    seconds.observe(0.5, "a")
    before = seconds.copy()
    seconds.observe(0.5, "a")
    seconds.observe(0.5, "b")
    assert {labels: one.counts for labels, one in before.items()} == {("a",): [1, 0]}
    assert {labels: one.counts for labels, one in seconds.copy().items()} == {
        ("a",): [2, 0],
        ("b",): [1, 0],
    }
