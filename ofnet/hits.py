"""How many packets the flows of objects have handled. Pure.

In come a switch's counters (`ofnet.channel.flow_stats`) and whose flows they are (`ofnet.desired`);
`ofnet.agent` reports the sums.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ofnet.channel.flow_stats import FlowCount
from ofnet.tables import Priority, TableId


class Hits(NamedTuple):
    """What flows have handled since they were added."""

    packets: int
    bytes: int


def guarded_by_object(owners: Mapping[int, str], counted: Iterable[FlowCount]) -> dict[str, int]:
    """Return how many packets the source guard of each endpoint has dropped, if any.

    `owners` are the endpoints' names by their flows' cookies.
    """
    found: Counter[str] = Counter()
    for flow in counted:
        name = owners.get(flow.cookie)
        if name is not None and flow.table == TableId.INPUT and flow.priority in _DROPPING:
            found[name] += flow.packets
    return dict(+found)


_DROPPING: Final = frozenset({Priority.GUARD, Priority.GUARD_NEVER})


def hits_by_object(owners: Mapping[int, str], counted: Iterable[FlowCount]) -> dict[str, Hits]:
    """Return the hits of each object that has any; `owners` are objects' names by flows' cookies.

    Flows of no owner (they are being deleted) are left out.
    """
    found: dict[str, Hits] = {}
    for flow in counted:
        name = owners.get(flow.cookie)
        if name is not None and flow.packets:
            before = found.get(name, Hits(0, 0))
            found[name] = Hits(before.packets + flow.packets, before.bytes + flow.bytes)
    return found
