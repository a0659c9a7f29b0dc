"""Sets of free numbers kept as spans."""

from netmaster.ipam.spans import FreeSpans


def test_all_numbers_are_free_at_first() -> None:
    free = FreeSpans(3, 7)
    assert list(free) == [(3, 7)]
    assert 3 in free
    assert 7 in free
    assert 2 not in free
    assert 8 not in free


def test_bounds_in_the_wrong_order_hold_nothing() -> None:
    free = FreeSpans(5, 4)
    assert free.lowest() is None
    assert free.first_taken(5, 4) == 5
    free.release(4)
    free.release_span(1, 9)
    assert list(free) == []


def test_taking_splits_and_giving_joins() -> None:
    free = FreeSpans(1, 9)
    for number in (5, 1, 9):
        free.take(number)
    assert list(free) == [(2, 4), (6, 8)]
    free.release(5)
    assert list(free) == [(2, 8)]
    free.release(1)
    free.release(9)
    assert list(free) == [(1, 9)]


def test_a_lonely_number_that_is_given_stands_alone() -> None:
    free = FreeSpans(1, 5)
    free.take_span(1, 5)
    free.release(3)
    assert list(free) == [(3, 3)]
    free.take(3)
    assert list(free) == []


def test_taking_and_giving_twice_or_out_of_bounds_changes_nothing() -> None:
    free = FreeSpans(1, 5)
    free.take(3)
    free.take(3)
    free.take(99)
    free.release(1)
    free.release(99)
    assert list(free) == [(1, 2), (4, 5)]


def test_lowest_and_lowest_from() -> None:
    free = FreeSpans(1, 9)
    free.take_span(1, 3)
    free.take(6)
    assert free.lowest() == 4
    assert free.lowest_from(5) == 5
    assert free.lowest_from(6) == 7
    assert free.lowest_from(10) is None


def test_first_taken() -> None:
    free = FreeSpans(1, 9)
    free.take(5)
    assert free.first_taken(1, 4) is None
    assert free.first_taken(1, 6) == 5
    assert free.first_taken(5, 5) == 5
    assert free.first_taken(0, 1) == 0
    assert free.first_taken(9, 10) == 10


def test_spans_are_taken_and_released_free_or_not() -> None:
    free = FreeSpans(1, 20)
    free.take(4)
    free.take_span(3, 10)
    assert list(free) == [(1, 2), (11, 20)]
    free.release_span(5, 12)
    assert list(free) == [(1, 2), (5, 20)]
    free.release_span(0, 99)
    assert list(free) == [(1, 20)]
