"""A map in which several owners may claim one key, and the smallest owner id wins.

The outcome depends on who claims what, never on the order of events, which is what makes an
incremental computation equal one from scratch. `ofnet.desired` (flows) and `ofnet.directory`
(addresses, ports) are made of it.
"""

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from ofnet.changes import ObjectId

K = TypeVar("K")
V = TypeVar("V")


class Ownership(Generic[K, V]):
    """`values` holds each claimed key with the winner's value."""

    def __init__(self) -> None:
        self.values: dict[K, V] = {}
        self._winners: dict[K, ObjectId] = {}
        self._claimed: dict[ObjectId, tuple[K, ...]] = {}
        self._rivals: dict[K, dict[ObjectId, V]] = {}

    def owners(self) -> Iterable[ObjectId]:
        """Return everybody who claims something."""
        return self._claimed.keys()

    def claimed(self, owner: ObjectId) -> Iterable[K]:
        """Return the keys an owner claims, whether it wins them or not."""
        return self._claimed.get(owner, ())

    def claim(self, owner: ObjectId, items: Mapping[K, V]) -> None:
        """Replace all claims of an owner."""
        for key in self._claimed.pop(owner, ()):
            if key not in items:
                self._withdraw(key, owner)
        for key, value in items.items():
            self._put(key, owner, value)
        if items:
            self._claimed[owner] = tuple(items)

    def _put(self, key: K, owner: ObjectId, value: V) -> None:
        winner = self._winners.get(key)
        if winner is None or (winner == owner and key not in self._rivals):
            self._winners[key], self.values[key] = owner, value
            return
        rivals = self._rivals.setdefault(key, {winner: self.values[key]})
        rivals[owner] = value
        self._elect(key, rivals)

    def _withdraw(self, key: K, owner: ObjectId) -> None:
        rivals = self._rivals.get(key)
        if rivals is None:
            del self._winners[key], self.values[key]
            return
        del rivals[owner]
        self._elect(key, rivals)
        if len(rivals) == 1:
            del self._rivals[key]

    def _elect(self, key: K, rivals: Mapping[ObjectId, V]) -> None:
        winner = min(rivals)
        self._winners[key], self.values[key] = winner, rivals[winner]
