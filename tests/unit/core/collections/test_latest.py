"""A value that is kept for the latest arguments."""

import pytest

from core.collections.latest import Latest


def test_it_is_computed_again_for_other_arguments_only() -> None:
    asked = []

    def total(numbers: list[int], factor: int = 1) -> list[int]:
        asked.append((numbers, factor))
        return [sum(numbers) * factor]

    latest = Latest(total)
    first = latest([1, 2])
    assert first == [3]
    assert latest([1, 2]) is first
    assert latest([1, 2], factor=2) == [6]
    assert latest([4], factor=2) == [8]
    assert latest([1, 2]) == first
    assert asked == [([1, 2], 1), ([1, 2], 2), ([4], 2), ([1, 2], 1)]


def test_a_failure_is_not_kept() -> None:
    latest = Latest(int)
    assert latest("1") == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="one"):
            latest("one")
    assert latest("1") == 1
