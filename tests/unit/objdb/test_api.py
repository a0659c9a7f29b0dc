"""`objdb.api`: grouping of changes into commits, and the limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import TooLarge
from objdb.api import Absent, Change, Delete, Limits, Put, admit, split

LIMITS = Limits(budget=8, bytes=100)

_keys = st.sampled_from([f"/{letter}" for letter in "abcdefghij"])
_changes = st.builds(
    lambda checks, puts, deletes: Change(
        tuple(Absent(key) for key in sorted(checks)),
        tuple(Put(key, b"x" * size) for key, size in sorted(puts.items()))
        + tuple(Delete(key) for key in sorted(deletes - puts.keys())),
    ),
    st.frozensets(_keys, max_size=3),
    st.dictionaries(_keys, st.integers(0, 30), max_size=2),
    st.frozensets(_keys, max_size=2),
)


@given(st.lists(_changes))
def test_split_keeps_every_change_in_order_and_each_group_is_admitted(
    changes: list[Change],
) -> None:
    groups = split(changes, LIMITS)
    assert [change for group in groups for change in group] == changes
    for group in groups:
        admit(group, LIMITS)


@given(st.lists(_changes))
def test_split_never_lets_a_change_meet_a_key_another_of_its_group_touches(
    changes: list[Change],
) -> None:
    for group in split(changes, LIMITS):
        seen: set[str] = set()
        for change in group:
            touched = change.keys() | {check.key for check in change.checks}
            assert seen.isdisjoint(touched)
            seen |= touched


def test_split_fills_its_groups() -> None:
    changes = [Change((), (Put(f"/{number}", b""),)) for number in range(20)]
    assert [len(group) for group in split(changes, LIMITS)] == [7, 7, 6]


def test_a_change_beyond_the_limits_stands_alone_and_is_refused() -> None:
    large = Change((), (Put("/big", b"x" * 200),))
    small = Change((), (Put("/small", b""),))
    groups = split([small, large, small], LIMITS)
    assert groups == [[small], [large], [small]]
    with pytest.raises(TooLarge, match="bytes"):
        admit(groups[1], LIMITS)
    with pytest.raises(TooLarge, match="operations"):
        admit([Change(tuple(Absent(f"/{n}") for n in range(8)), ())], LIMITS)
    with pytest.raises(ValueError, match="/small twice"):
        admit([small, small], LIMITS)
