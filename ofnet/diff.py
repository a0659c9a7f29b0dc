"""Compares what a switch must have with what it reports.

A cookie identifies a flow's content, so (table, cookie) is all that is looked at. All flows on our
bridges are ours: what is reported and not wanted is deleted, whoever made it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ofnet.changes import ObjectKind
from ofnet.flows import Flow, owner_of
from ofnet.tables import TableId


class FlowStamp(NamedTuple):
    """How a flow is named to a switch when it is to be deleted: all of that table and cookie."""

    table: int
    cookie: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What to add and what to delete, in this order, so that no packet meets a gap."""

    add: tuple[Flow, ...]
    delete: tuple[FlowStamp, ...]

    def __bool__(self) -> bool:
        return bool(self.add or self.delete)

    def sparing(self, owner: ObjectKind) -> "Difference":
        """Return the same, without deletions of what objects of a kind own."""
        kept = tuple(stamp for stamp in self.delete if owner_of(stamp.cookie) != owner)
        return Difference(add=self.add, delete=kept)


_JUDGES: Final = (TableId.POLICY, TableId.DST_GRP)
_DOORS: Final = (TableId.INPUT, TableId.VLAN)
_BETWEEN: Final = sorted(set(TableId) - {*_JUDGES, *_DOORS}, reverse=True)
_PLACE: Final[Mapping[int, int]] = {
    table: place for place, table in enumerate((*_JUDGES, *_BETWEEN, *_DOORS))
}
"""Rules first, then whom they are about, then where packets leave; last where they come in."""


def additions_in_order(flows: Iterable[Flow]) -> list[Flow]:
    """Return flows in an order in which no packet passes that is denied in the end.

    Packets come in between any two additions. Of two flows in a table the stronger goes first.
    """
    return sorted(flows, key=lambda flow: (_PLACE[flow.table], -flow.priority))


def deletions_in_order(stamps: Iterable[FlowStamp]) -> list[FlowStamp]:
    """Return what is deleted in the contrary order; what is foreign, if in no table of ours, first.

    The stamps do not say priorities: within a table nothing is promised.
    """
    return sorted(stamps, key=lambda stamp: -_PLACE.get(stamp.table, len(_PLACE)))


def difference(desired: Iterable[Flow], reported: Iterable[FlowStamp]) -> Difference:
    """Return what turns the reported flows into the desired ones.

    A cookie of ours that is reported twice in a table was put on a flow that is not ours; both go,
    and the next comparison brings ours back.
    """
    seen: set[FlowStamp] = set()
    twice: set[FlowStamp] = set()
    for stamp in reported:
        (twice if stamp in seen else seen).add(stamp)
    add = []
    for flow in desired:
        stamp = FlowStamp(flow.table, flow.cookie)
        if stamp in seen:
            seen.discard(stamp)
        else:
            add.append(flow)
    return Difference(add=tuple(add), delete=tuple(sorted(seen | twice)))
