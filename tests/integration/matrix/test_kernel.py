"""How many tests a portion has, as pytest finds them."""

from tests.matrix.kernel import planned


def test_what_is_run_is_counted_by_files() -> None:
    files = ["tests/unit/matrix/test_table.py", "tests/unit/matrix/test_budget.py"]
    found = planned(files)
    assert [*found] == files
    assert min(found.values()) > 1
