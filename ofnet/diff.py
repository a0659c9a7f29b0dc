"""Compares the desired flows with those a switch reports, and orders changes safely. Pure.

A flow's cookie is a digest of its content (`ofnet.flows`), so (table, cookie) is all that is
compared. Bridges belong to the agent alone: a reported flow that is not desired is deleted, also
one that the agent did not add. Only flows that the switch learned itself are left to it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from ofnet.changes import ObjectKind
from ofnet.flows import AnyFlow, owner_of, priority_of, table_of
from ofnet.tables import TableId

F = TypeVar("F", bound=AnyFlow)


class FlowStamp(NamedTuple):
    """What identifies a flow in a dump and in a deletion: its table and its cookie."""

    table: int
    cookie: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What to add and then to delete, in this order, so that a replaced flow leaves no gap."""

    add: tuple[AnyFlow, ...]
    delete: tuple[FlowStamp, ...]

    def __bool__(self) -> bool:
        return bool(self.add or self.delete)

    def sparing(
        self, kinds: Collection[ObjectKind], gone: Collection[FlowStamp] = ()
    ) -> "Difference":
        """Return the same without the deletions of flows of these kinds of objects.

        Those that are known to be `gone` are deleted all the same.
        """
        # A flow that is missing from incomplete knowledge may carry traffic, so it stays until its
        # absence is certain. Additions are made in any case.
        delete = (one for one in self.delete if owner_of(one.cookie) not in kinds or one in gone)
        return Difference(add=self.add, delete=tuple(delete))


_POLICY_TABLES: Final = (TableId.POLICY_LOG, TableId.POLICY, TableId.DST_GRP)
_ENTRY_TABLES: Final = (TableId.INPUT, TableId.VLAN)
_OTHER_TABLES: Final = sorted(set(TableId) - {*_POLICY_TABLES, *_ENTRY_TABLES}, reverse=True)
_PLACE: Final[Mapping[int, int]] = {
    table: place for place, table in enumerate((*_POLICY_TABLES, *_OTHER_TABLES, *_ENTRY_TABLES))
}
"""The order of additions: policy rules, destination groups, forwarding, then packet input."""

_HIGHEST: Final = 0xFFFF
"""The highest priority."""


def additions_in_order(flows: Iterable[F]) -> list[F]:
    """Return flows in an order in which no packet passes that the final flows deny."""
    # Packets arrive between any two additions. A pod's packets enter the tables by its flows in
    # tables 0 and 1, so these come last: until then every rule, group and output is in place. Of
    # two flows in one table the higher priority goes first: a broad "allow" must not be effective
    # before the narrower "deny" above it.
    return sorted(flows, key=_turn)


def _turn(flow: AnyFlow) -> int:
    key = flow.key
    return _PLACE[table_of(key)] << 16 | _HIGHEST - priority_of(key)


def deletions_in_order(stamps: Iterable[FlowStamp]) -> list[FlowStamp]:
    """Return deletions in the opposite order; flows in tables that no pipeline uses come first.

    A stamp has no priority, so within a table the order is undefined (`is_whole`).
    """
    return sorted(stamps, key=lambda stamp: -_PLACE.get(stamp.table, len(_PLACE)))


def is_whole(add: Collection[AnyFlow], delete: Collection[FlowStamp]) -> bool:
    """Return whether a change has states in between that no known order of its parts makes safe."""
    # What replaces something stays out alone if the switch refuses it: were the two apart, the old
    # flow would be gone and the new one not there (`ofnet.refusals`).
    if add and delete:
        return True
    # Of two rules that go, the upper one may deny what the lower one allows: were it deleted first,
    # packets would pass that both the old and the new rules deny.
    if sum(stamp.table == TableId.POLICY for stamp in delete) > 1:
        return True
    # A group that changes its class meets other rules from then on, while some of these may still
    # be the ones that the class had before.
    owners = chain((flow.owner for flow in add), (owner_of(stamp.cookie) for stamp in delete))
    return ObjectKind.POLICY_CLASS in owners


def difference(desired: Collection[AnyFlow], reported: Collection[FlowStamp]) -> Difference:
    """Return the changes that turn the reported flows into the desired ones."""
    # What is reported more often than it is desired was added by hand with a copied cookie. A
    # deletion by stamp removes all of them; the comparison that follows every correction adds the
    # desired one again. Two flows of a table have the same cookie hardly ever by chance, but who
    # chooses what flows match finds two among 2^24: so stamps are counted.
    seen: set[FlowStamp] = set()
    more: Counter[FlowStamp] = Counter()
    for stamp in reported:
        if owner_of(stamp.cookie) == ObjectKind.AFFINITY:
            continue
        if stamp in seen:
            more[stamp] += 1
        else:
            seen.add(stamp)
    left, add, short = set(seen), list[AnyFlow](), set[FlowStamp]()
    for flow in desired:
        stamp = FlowStamp(flow.table, flow.cookie)
        if stamp in left:
            left.discard(stamp)
        elif more and more[stamp]:
            more[stamp] -= 1
        else:
            add.append(flow)
            if stamp in seen:
                short.add(stamp)
    if short:  # which of several is missing is not told
        known = (flow for flow in desired if FlowStamp(flow.table, flow.cookie) in short)
        add = list({flow.key: flow for flow in (*add, *known)}.values())
    return Difference(add=tuple(add), delete=tuple(sorted(left | (+more).keys())))
