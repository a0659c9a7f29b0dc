"""Portions, as pytest finds their tests: which are there, and how many."""

from itertools import chain

from tests.matrix.kernel import PORTIONS, planned


def test_what_is_run_is_counted() -> None:
    one, other = "tests/unit/matrix/test_table.py", "tests/unit/matrix/test_budget.py"
    assert planned([one, other]) == planned([one]) + planned([other]) > planned([one]) > 1


def test_portions_name_tests_that_are_there() -> None:
    words = list(chain.from_iterable(PORTIONS.values()))
    assert planned(words) >= len(words)  # a name that pytest does not find ends the collection
