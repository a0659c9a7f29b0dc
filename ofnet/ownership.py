"""A map in which several owners may claim one key, and the smallest owner id wins.

`ofnet.desired` (flows by key) and `ofnet.packets.directory` (endpoints by address and by port) are
such maps. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from ofnet.changes import ObjectId

K = TypeVar("K")
V = TypeVar("V")


class Ownership(Generic[K, V]):
    """`values` has each claimed key with the winner's value."""

    # Invariant: `values` is a function of the current claims alone, never of the order in which
    # they came. This makes an incremental update equal a computation from scratch, which the agent
    # relies on after a restart: it must want the same flows as the agent before it, or every
    # restart would rewrite flows. So the rule is a total order on owners (smallest id wins; kinds
    # are ordered by precedence in `ofnet.changes.ObjectKind`), not "the last one wins".
    #
    # Nearly every key has one owner. `_rivals` therefore has an entry for contested keys alone,
    # with all of their claims, the winner's too; `_winners` and `values` have every key.

    def __init__(self) -> None:
        self.values: dict[K, V] = {}
        self._winners: dict[K, ObjectId] = {}
        self._claimed: dict[ObjectId, tuple[K, ...]] = {}
        self._rivals: dict[K, dict[ObjectId, V]] = {}

    def owners(self) -> Iterable[ObjectId]:
        """Return the owners that claim at least one key."""
        return self._claimed.keys()

    def claimed(self, owner: ObjectId) -> Iterable[K]:
        """Return the keys an owner claims, whether it wins them or not."""
        return self._claimed.get(owner, ())

    def owner(self, key: K) -> ObjectId | None:
        """Return the owner that wins a key; None for a key that nobody claims."""
        return self._winners.get(key)

    def contested(self) -> Iterator[V]:
        """Yield the values of all claims to keys that have several, the winners' too."""
        return (value for rivals in self._rivals.values() for value in rivals.values())

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
