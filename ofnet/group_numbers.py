"""The numbers of a bridge's groups: one for each, also where digests are equal. Pure.

In come flows with the groups that they use; out come the same flows, whose group has a number of
its own. A number has 32 bits, so of 20 000 groups two have one digest once in 20 times; then one of
the two gets another turn (`SelectGroup.turn`). `ofnet.desired` owns the instance.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ofnet.flows import Flow
from ofnet.openflow.actions import SelectGroup

Moved = Mapping[SelectGroup, SelectGroup]
"""What stands for groups whose first number was taken."""


class GroupNumbers:
    """Which group has which number, and what stands for those that had to give way."""

    # Who comes first keeps the number, so two agents may number two such groups differently, as
    # may one after a restart. The flows that use them have other cookies then, and are written with
    # their groups in one bundle.

    def __init__(self) -> None:
        self._holders: dict[int, SelectGroup] = {}
        self._moved: dict[SelectGroup, SelectGroup] = {}

    @property
    def moved(self) -> Moved:
        """What stands for groups at this moment; it does not change any more."""
        return dict(self._moved)

    def numbered(self, flow: Flow) -> Flow:
        """Return a flow whose group has its number to itself."""
        asked = flow.group
        if asked is None:
            return flow
        group = self._moved.get(asked, asked) if self._moved else asked
        while self._holders.setdefault(group.id, group) != group:
            group = replace(group, turn=group.turn + 1)
        if group == asked:
            return flow
        self._moved[asked] = group
        return flow.with_group(group)

    def keep(self, used: Iterable[SelectGroup]) -> frozenset[int]:
        """Forget all groups but these; return their numbers."""
        self._holders = {group.id: group for group in used}
        if self._moved:
            self._moved = {
                asked: group
                for asked, group in self._moved.items()
                if self._holders.get(group.id) == group
            }
        return frozenset(self._holders)


def renumbered(flows: Iterable[Flow], moved: Moved) -> Iterator[Flow]:
    """Yield flows with what stands for their groups."""
    for flow in flows:
        group = moved.get(flow.group) if moved and flow.group is not None else None
        yield flow if group is None else flow.with_group(group)
