"""The demo's tables."""

from tests.bed.demo import table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(["POD", "IP"], [["a", "10.0.0.1"], ["long", "::1"]]) == (
        "POD   IP\n"  # a line ends with its last letter
        "a     10.0.0.1\n"
        "long  ::1"
    )
