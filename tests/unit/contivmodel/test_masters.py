"""Whom a client asks first: who answered last, and last who did not."""

import pytest

from contivmodel.masters import Masters

A, B, C = "http://a:9999", "http://b:9999", "http://c:9999"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (A, (A,)),
        (f"{A}/, {B} ,,", (A, B)),
        ([A, f"{B}/"], (A, B)),
        ("", ("",)),
        ([], ("",)),
    ],
)
def test_they_are_named_by_a_list_or_a_text(given: str | list[str], wanted: tuple[str]) -> None:
    assert Masters(given).in_turn() == wanted
    assert len(Masters(given)) == len(wanted)


def test_who_answered_last_is_asked_first_and_who_failed_last() -> None:
    masters = Masters([A, B, C])
    masters.answered(B)
    assert masters.in_turn() == (B, A, C)
    masters.failed(B)
    assert masters.in_turn() == (A, C, B)
    masters.answered(C)
    assert masters.in_turn() == (C, A, B)
