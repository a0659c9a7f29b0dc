"""Removal from an index of the form key -> set of names."""

from typing import TypeVar

Key = TypeVar("Key")
Name = TypeVar("Name")


def discard(index: dict[Key, set[Name]], key: Key, name: Name) -> None:
    """Remove a name from the set under a key, if it is there; an empty set is removed too."""
    names = index.get(key)
    if names is not None:
        names.discard(name)
        if not names:
            del index[key]
