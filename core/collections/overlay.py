"""Copies of a large dict that changes little between them: they share what has not changed. Pure.

To copy a hundred thousand entries for each that changes, and to free the copy before, takes five
milliseconds.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

SMALL: Final = 1_000
"""Entries up to which a dict is copied whole: in some ten microseconds."""

SHARED: Final = 32
"""At most one entry in so many may differ from the shared dict; beyond that it is copied anew."""


class Overlay(Mapping[K, V]):
    """A dict with some entries replaced; None marks a removed one. The dict must not change."""

    __slots__ = ("_base", "_changes")

    def __init__(self, base: dict[K, V], changes: dict[K, V | None]) -> None:
        self._base = base
        self._changes = changes

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: V | D) -> V | D: ...
    def get(self, key: K, default: V | D | None = None) -> V | D | None:
        """Return the entry of a key, or a default."""
        if key in self._changes:
            value = self._changes[key]
            return default if value is None else value
        return self._base.get(key, default)

    def __getitem__(self, key: K) -> V:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[K]:
        for key in self._base:
            if self._changes.get(key, self) is not None:
                yield key
        for key, value in self._changes.items():
            if value is not None and key not in self._base:
                yield key

    def __len__(self) -> int:
        gone = sum(value is None and key in self._base for key, value in self._changes.items())
        new = sum(
            value is not None and key not in self._base for key, value in self._changes.items()
        )
        return len(self._base) + new - gone


class SharedCopies(Generic[K, V]):
    """Copies of a dict whose values are not None. `changed` is called after each change of it."""

    def __init__(self, of: dict[K, V]) -> None:
        self._of = of
        self._base: dict[K, V] = {}
        self._changes: dict[K, V | None] | None = None
        """What changed since `_base` was copied; None before the first copy."""

    def changed(self, key: K) -> None:
        """Take note that an entry was set or deleted."""
        if self._changes is not None:
            self._changes[key] = self._of.get(key)

    def copy(self, *, plain: bool) -> Mapping[K, V]:
        """Return a copy of this moment; a `plain` one is a dict, which is walked through faster."""
        if self._changes is None or (self._changes and (plain or self._are_many(self._changes))):
            self._base, self._changes = dict(self._of), {}
        return Overlay(self._base, dict(self._changes)) if self._changes else self._base

    def _are_many(self, changes: dict[K, V | None]) -> bool:
        return len(self._of) <= SMALL or len(changes) * SHARED > len(self._of)
