"""Intervals: who overlaps whom, also where intervals lie within each other."""

from netmaster.ipam.intervals import Interval, Intervals


def overlapping(intervals: Intervals, *interval: Interval) -> list[list[str]]:
    """Return the owners found for each interval, sorted."""
    return [sorted(intervals.overlapping(one)) for one in interval]


def test_ends_belong_to_an_interval() -> None:
    intervals = Intervals()
    intervals.add((10, 20), "a")
    intervals.add((21, 30), "b")
    found = overlapping(intervals, (0, 9), (0, 10), (20, 20), (20, 21), (30, 40), (31, 40))
    assert found == [[], ["a"], ["a"], ["a", "b"], ["b"], []]


def test_a_wide_one_is_found_behind_narrow_ones() -> None:
    intervals = Intervals()
    for first in (20, 30, 40):
        intervals.add((first, first), f"narrow {first}")
    intervals.add((10, 90), "wide")
    assert overlapping(intervals, (80, 85), (40, 41)) == [["wide"], ["narrow 40", "wide"]]
    intervals.remove((10, 90), "wide")
    assert overlapping(intervals, (80, 85), (40, 41)) == [[], ["narrow 40"]]


def test_one_interval_may_have_two_owners() -> None:
    intervals = Intervals()
    intervals.add((1, 2), "a")
    intervals.add((1, 2), "b")
    intervals.remove((1, 2), "a")
    assert overlapping(intervals, (2, 3)) == [["b"]]


def test_ends_in_the_wrong_order_are_asked_for_as_they_are() -> None:
    intervals = Intervals()
    intervals.add((5, 30), "a")
    intervals.add((12, 14), "b")
    assert overlapping(intervals, (20, 10)) == [["a"]]
