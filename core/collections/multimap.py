"""Indexes of the form key -> set of names."""

from collections.abc import Set
from typing import Generic, TypeVar

Key = TypeVar("Key")
Name = TypeVar("Name", bound=str)


def discard(index: dict[Key, set[Name]], key: Key, name: Name) -> None:
    """Remove a name from the set under a key, if it is there; an empty set is removed too."""
    names = index.get(key)
    if names is not None:
        names.discard(name)
        if not names:
            del index[key]


class Multimap(Generic[Key, Name]):
    """Names by key, for where most keys have one name: that takes no set, which has 216 bytes."""

    def __init__(self) -> None:
        self._names: dict[Key, Name | set[Name]] = {}

    def names(self, key: Key) -> Set[Name]:
        """Return the names of a key, for a look at them as they are."""
        names = self._names.get(key)
        if names is None:
            return frozenset()
        return names if isinstance(names, set) else frozenset((names,))

    def add(self, key: Key, name: Name) -> None:
        """Give a key a name more."""
        names = self._names.setdefault(key, name)
        if isinstance(names, set):
            names.add(name)
        elif names != name:
            self._names[key] = {names, name}

    def discard(self, key: Key, name: Name) -> None:
        """Remove a name of a key, if it is there."""
        names = self._names.get(key)
        if isinstance(names, set):
            names.discard(name)
            if len(names) == 1:
                self._names[key] = names.pop()
        elif names == name:
            del self._names[key]
