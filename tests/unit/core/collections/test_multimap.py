"""Sets of names under keys."""

from hypothesis import given
from hypothesis import strategies as st

from core.collections.multimap import Multimap, discard

KEYS, NAMES = "ab", "xyz"


def test_the_last_name_takes_its_key_along() -> None:
    index = {"a": {"x", "y"}, "b": {"x"}}
    discard(index, "a", "x")
    discard(index, "a", "z")
    discard(index, "b", "x")
    discard(index, "c", "x")
    assert index == {"a": {"y"}}


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(KEYS), st.sampled_from(NAMES))))
def test_a_multimap_has_what_was_added_and_not_removed(steps: list[tuple[bool, str, str]]) -> None:
    index, wanted = Multimap[str, str](), {key: set[str]() for key in KEYS}
    for added, key, name in steps:
        (index.add if added else index.discard)(key, name)
        (wanted[key].add if added else wanted[key].discard)(name)
        assert {key: set(index.names(key)) for key in KEYS} == wanted
