"""How many tests a portion has, as pytest finds them."""

from tests.matrix.kernel import planned


def test_what_is_run_is_counted() -> None:
    one, other = "tests/unit/matrix/test_table.py", "tests/unit/matrix/test_budget.py"
    assert planned([one, other]) == planned([one]) + planned([other]) > planned([one]) > 1
