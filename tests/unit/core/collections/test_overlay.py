"""Copies that share what has not changed: equal to the dict of their time, whatever comes later."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.collections.overlay import SHARED, SMALL, Overlay, SharedCopies

MANY = 2 * SMALL
BASE = {"a": 1, "b": 2, "c": 3}

changes = st.dictionaries(st.sampled_from("abcdef"), st.none() | st.integers(10, 12))
steps = st.lists(
    st.tuples(
        st.dictionaries(
            st.integers(0, MANY + 5) | st.integers(0, 3), st.none() | st.integers(), max_size=90
        ),
        st.booleans(),
    ),
    max_size=6,
)


def changed(base: dict[str, int], by: Mapping[str, int | None]) -> dict[str, int]:
    """Return a dict with changed entries."""
    return {key: value for key, value in {**base, **by}.items() if value is not None}


@given(changes)
def test_an_overlay_is_the_changed_dict(by: dict[str, int | None]) -> None:
    wanted, overlay = changed(BASE, by), Overlay(BASE, by)
    assert overlay == wanted
    assert len(overlay) == len(wanted)
    assert sorted(overlay) == sorted(wanted)
    assert sorted(overlay.items()) == sorted(wanted.items())
    assert sorted(overlay.values()) == sorted(wanted.values())
    for key in "abcdefg":
        assert (key in overlay) == (key in wanted)
        assert overlay.get(key) == wanted.get(key)
        assert overlay.get(key, 7) == wanted.get(key, 7)
        if key in wanted:
            assert overlay[key] == wanted[key]
        else:
            with pytest.raises(KeyError):
                _ = overlay[key]


@given(steps)
def test_copies_stay_what_they_were(taken: list[tuple[dict[int, int | None], bool]]) -> None:
    there = {number: number for number in range(MANY)}
    copies = SharedCopies(there)
    seen = [(copies.copy(plain=False), dict(there))]
    for by, plain in taken:
        for key, value in by.items():
            if value is None:
                there.pop(key, None)
            else:
                there[key] = value
            copies.changed(key)
        copy = copies.copy(plain=plain)
        assert not plain or isinstance(copy, dict)
        seen.append((copy, dict(there)))
    assert all(copy == wanted and len(copy) == len(wanted) for copy, wanted in seen)


def test_what_changed_alone_is_copied() -> None:
    there = dict.fromkeys(range(MANY), 0)
    copies = SharedCopies(there)
    first = copies.copy(plain=False)
    assert copies.copy(plain=False) is first
    there[1] = 1
    copies.changed(1)
    assert isinstance(copies.copy(plain=False), Overlay)
    for number in range(MANY // SHARED + 1):
        there[number] = 2
        copies.changed(number)
    assert isinstance(copies.copy(plain=False), dict)


def test_a_small_dict_is_copied_whole() -> None:
    there = {1: 1}
    copies = SharedCopies(there)
    copies.copy(plain=False)
    there[2] = 2
    copies.changed(2)
    copy = copies.copy(plain=False)
    assert isinstance(copy, dict)
    assert copy == {1: 1, 2: 2}
    assert copy is not there
