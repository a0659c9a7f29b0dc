"""Sets of names under keys: what an index of who concerns whom is made of."""

from typing import TypeVar

Key = TypeVar("Key")
Name = TypeVar("Name")


def discard(index: dict[Key, set[Name]], key: Key, name: Name) -> None:
    """Take a name out from under a key, if it is there, and the key with its last name."""
    names = index.get(key)
    if names is not None:
        names.discard(name)
        if not names:
            del index[key]
