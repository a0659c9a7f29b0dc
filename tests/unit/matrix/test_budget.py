"""The time of `.ci/run`: a part that does not fit is not begun, and one that runs ends in time."""

from tests.matrix.budget import Budget


def test_what_does_not_fit_is_not_begun() -> None:
    budget = Budget(10_000.0)
    assert budget.limited
    assert budget.has_room(10_000.0 - 180 - 300, 5)
    assert not budget.has_room(10_000.0 - 180 - 299, 5)
    assert not budget.has_room(10_001.0, 0)


def test_what_has_begun_is_ended_before_the_moment() -> None:
    assert Budget(10_000.0).seconds(9_000.0) == 820
    assert Budget(10_000.0).seconds(9_999.0) == 1
    assert Budget(10_000.0).seconds(11_000.0) == 1


def test_without_a_moment_there_is_all_the_time() -> None:
    budget = Budget(None)
    assert not budget.limited
    assert budget.has_room(1e12, 1_000)
    assert budget.seconds(1e12) == 0
