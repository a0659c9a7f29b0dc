"""How many flows a change of records would add, delete and replace on this host. Pure.

In come the host's own facts (`netplugin.world.builder.WorldBuilder.twin`), all records of the
store, and the records that would be put or removed. The Worlds before and after are built as those
that the switches get, and `ofnet.desired` makes flows of both. Nothing that the agent works with is
touched. Policies of Kubernetes are left out: no object of netmaster changes them.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from core.errors import Invalid
from netplugin.world.builder import WorldBuilder
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.flows import FlowKey
from ofnet.world import Bridge
from state.intents import Fact


@dataclass(frozen=True, slots=True)
class FlowChange:
    """How many flows a bridge gains and loses, and how many it keeps with other contents."""

    added: int
    removed: int
    replaced: int


def flow_changes(
    own: WorldBuilder, records: Mapping[str, Fact], writes: Mapping[str, Fact | None]
) -> dict[Bridge, FlowChange]:
    """Return what records, by store key, would change on each bridge; None removes a record.

    `own` is a twin that has no records yet; it has them all afterwards, changed.
    """
    _put(own, records.values())
    own.set_complete()
    wanted = {bridge: Desired(bridge) for bridge in Bridge}
    for bridge, desired in wanted.items():
        desired.update(own.take(bridge)[0], EVERYTHING)
    removed = (key for key, fact in writes.items() if fact is None and key in records)
    for key in removed:
        own.remove(records[key])
    _put(own, (fact for fact in writes.values() if fact is not None))
    return {bridge: _change(own, bridge, desired) for bridge, desired in wanted.items()}


def _put(builder: WorldBuilder, facts: Iterable[Fact]) -> None:
    for fact in facts:
        with suppress(Invalid):  # such a record is not in force either
            builder.put(fact)


def _change(builder: WorldBuilder, bridge: Bridge, desired: Desired) -> FlowChange:
    before = _cookies(desired)
    desired.update(*builder.take(bridge))
    after = _cookies(desired)
    replaced = sum(after.get(key, cookie) != cookie for key, cookie in before.items())
    return FlowChange(len(after.keys() - before), len(before.keys() - after), replaced)


def _cookies(desired: Desired) -> dict[FlowKey, int]:
    return {key: flow.cookie for key, flow in desired.held.items()}
