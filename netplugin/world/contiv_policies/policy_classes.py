"""Which groups have the same policies, and may share the flows of their rules. Pure: no I/O.

`netplugin.world.contiv_policies.policies` feeds it the groups' ids and policies. Groups with the
same ones are a class if they are two or more; its representative is the group with the smallest id.
So the classes follow from the groups alone, in whichever order these became known.
"""

# A group whose id another group has as well is in no class: packets carry ids, and would be of both
# groups' classes. That is so for a moment, while a removed group's id is given out anew.

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from core.collections.multimap import discard
from core.ids import GroupKey
from ofnet.world import PolicyClass

Holding = frozenset[tuple[str, str]]
"""The policies of a group, by tenant and name."""

_Member = tuple[int, GroupKey]


class PolicyClasses:
    """The groups with their policies; each change returns the groups that changed their class."""

    def __init__(self) -> None:
        self._ids: dict[GroupKey, int] = {}
        self._bearers: dict[int, set[GroupKey]] = {}
        self._held: dict[GroupKey, Holding] = {}
        self._entered: dict[GroupKey, tuple[Holding, _Member]] = {}
        self._alike: dict[Holding, list[_Member]] = {}
        """The groups of each holding in the order of their ids, also where there is but one."""
        self._classes: dict[GroupKey, PolicyClass] = {}
        self._copy: Mapping[GroupKey, PolicyClass] | None = None

    @property
    def classes(self) -> Mapping[GroupKey, PolicyClass]:
        """The class of each group that is in one; what is returned stays as it is."""
        if self._copy is None:
            self._copy = dict(self._classes)
        return self._copy

    def of(self, key: GroupKey) -> PolicyClass | None:
        """Return the class of a group; None for a group that is in none."""
        return self._classes.get(key)

    def put_group(self, key: GroupKey, group_id: int | None) -> set[GroupKey]:
        """Set a group's id, None for a group that is gone."""
        before = self._ids.pop(key, None)
        if before is not None:
            discard(self._bearers, before, key)
        if group_id is not None:
            self._ids[key] = group_id
            self._bearers.setdefault(group_id, set()).add(key)
        numbers = [one for one in (before, group_id) if one is not None]
        return self._settle({key, *(same for one in numbers for same in self._bearing(one))})

    def put_policies(self, key: GroupKey, policies: Holding) -> set[GroupKey]:
        """Set the policies of a group; none if it has no policies."""
        if policies:
            self._held[key] = policies
        else:
            self._held.pop(key, None)
        return self._settle({key})

    def _bearing(self, group_id: int) -> Iterable[GroupKey]:
        return self._bearers.get(group_id, ())

    def _settle(self, keys: Iterable[GroupKey]) -> set[GroupKey]:
        """Put groups where they belong; return those that changed their class."""
        moves = [(key, self._entered.get(key), self._place(key)) for key in keys]
        moves = [(key, old, new) for key, old, new in moves if old != new]
        holdings = {place[0] for _, *places in moves for place in places if place is not None}
        firsts = {holding: self._first(holding) for holding in holdings}
        touched = {key for key, *_ in moves}
        for key, old, new in moves:
            self._move(key, old, new)
        for holding, first in firsts.items():
            if self._first(holding) != first:
                touched |= {key for _, key in self._alike.get(holding, ())}
        return {key for key in touched if self._renew(key)}

    def _place(self, key: GroupKey) -> tuple[Holding, _Member] | None:
        """Return the holding that a group belongs to; None for a group that shares nothing."""
        group_id, held = self._ids.get(key), self._held.get(key)
        if not group_id or held is None or len(self._bearers[group_id]) > 1:
            return None
        return held, (group_id, key)

    def _move(
        self,
        key: GroupKey,
        old: tuple[Holding, _Member] | None,
        new: tuple[Holding, _Member] | None,
    ) -> None:
        if old is not None:
            members = self._alike[old[0]]
            del members[bisect_left(members, old[1])]
            if not members:
                del self._alike[old[0]]
            del self._entered[key]
        if new is not None:
            insort(self._alike.setdefault(new[0], []), new[1])
            self._entered[key] = new

    def _first(self, holding: Holding) -> _Member | None:
        """Return the representative of a holding's groups; None unless they are several."""
        members = self._alike.get(holding, [])
        return members[0] if len(members) > 1 else None

    def _renew(self, key: GroupKey) -> bool:
        """Take over a group's class; return whether it is another one."""
        entered = self._entered.get(key)
        first = self._first(entered[0]) if entered is not None else None
        wanted = None
        if entered is not None and first is not None:
            wanted = PolicyClass(group_id=entered[1][0], number=first[0])
        if self._classes.get(key) == wanted:
            return False
        self._copy = None
        if wanted is None:
            del self._classes[key]
        else:
            self._classes[key] = wanted
        return True
