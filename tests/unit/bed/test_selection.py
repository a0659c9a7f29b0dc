"""What `make test` tries of a test's combinations."""

from collections.abc import Sequence
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from tests.bed.selection import Combination, beyond_pairs


def combined(*sizes: int) -> list[Combination]:
    """Return all combinations of parameters that have so many values."""
    names = [f"p{number}" for number in range(len(sizes))]
    values = product(*(map(str, range(size)) for size in sizes))
    return [dict(zip(names, one, strict=True)) for one in values]


def pairs(tried: Sequence[Combination]) -> set[object]:
    return {pair for one in tried for pair in combinations(sorted(one.items()), 2)}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_every_pair_is_tried(sizes: list[int], data: st.DataObject) -> None:
    possible = combined(*sizes)
    numbers = st.sets(st.integers(0, len(possible) - 1), min_size=1)
    tried = [possible[number] for number in sorted(data.draw(numbers, "those that there are"))]
    left_out = beyond_pairs(tried)
    kept = [one for number, one in enumerate(tried) if number not in left_out]
    assert pairs(kept) == pairs(tried)
    assert kept


def test_two_parameters_are_tried_whole() -> None:
    assert beyond_pairs(combined(2, 3)) == set()
    assert beyond_pairs(combined(2, 1, 3)) == set(), "one of them has one value"


def test_half_of_three_is_enough() -> None:
    assert len(beyond_pairs(combined(2, 2, 2))) == 4
    assert len(beyond_pairs(combined(2, 3, 2))) == 6
