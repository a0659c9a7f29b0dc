"""Sets of names under keys."""

from core.collections.multimap import discard


def test_the_last_name_takes_its_key_along() -> None:
    index = {"a": {1, 2}, "b": {1}}
    discard(index, "a", 1)
    discard(index, "a", 3)
    discard(index, "b", 1)
    discard(index, "c", 1)
    assert index == {"a": {2}}
