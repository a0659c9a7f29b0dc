"""The lineage of a store: which positions are of its history, and which were lost."""

import pytest

from core.errors import Invalid
from state.lineage import KEPT, Lineage, Position, Term, decode, encode

FIRST = Lineage().begin(Term("a", 0))
SECOND = FIRST.begin(Term("b", 50))


@pytest.mark.parametrize(
    ("lineage", "position", "known"),
    [
        (FIRST, Position("a", 80), True),
        (SECOND, Position("a", 50), True),
        # restored at 50, where the next leader found the last commit
        (SECOND, Position("a", 51), False),
        (SECOND, Position("b", 60), True),
        (FIRST, Position("b", 60), False),
        (Lineage(), Position("a", 1), False),
        (SECOND, Position(), False),
        (SECOND, Position("a", 0), False),
    ],
)
def test_a_position_is_of_this_history_or_was_lost(
    lineage: Lineage, position: Position, known: bool
) -> None:
    assert lineage.has(position) is known


def test_the_last_term_names_the_history() -> None:
    assert [one.current for one in (Lineage(), FIRST, SECOND)] == ["", "a", "b"]


def test_a_loaded_store_is_one_until_a_leader_begins() -> None:
    loaded = Lineage((Term("l", 0, loaded=True),))
    assert loaded.was_loaded
    assert not loaded.begin(Term("a", 9)).was_loaded
    assert not Lineage().was_loaded


def test_only_the_last_terms_are_kept() -> None:
    lineage = Lineage()
    for number in range(KEPT + 1):
        lineage = lineage.begin(Term(f"t{number}", number))
    assert len(lineage.terms) == KEPT
    assert lineage.shared_until("t0") == 0
    assert lineage.shared_until("t1") == 2


def test_what_is_stored_is_read() -> None:
    lineage = Lineage((Term("l", 0, loaded=True), Term("a", 7)))
    assert decode(encode(lineage)) == lineage


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"terms": 1}',
        b'{"terms": [{"id": "", "after": 1}]}',
        b'{"terms": [{"id": "a", "after": -1}]}',
        b'{"terms": [{"id": "a"}]}',
    ],
)
def test_anything_else_is_refused(value: bytes) -> None:
    with pytest.raises(Invalid, match="lineage"):
        decode(value)
