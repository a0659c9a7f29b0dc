"""The desired state of one bridge: which flows must exist, kept up to date object by object. Pure.

In come Worlds with their changes; out go the flows to add and to delete. The desired flows are the
sum of what the pipeline (`ofnet.pipelines`) yields for each object of the World. `ofnet.agent` owns
the instance.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from ofnet.changes import Changes, ObjectId, affected
from ofnet.flows import Flow, FlowKey
from ofnet.ownership import Ownership
from ofnet.pipelines import PIPELINES
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import mode_of
from ofnet.world import Bridge, World


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDelta:
    """The effect of a change: flows to add (or to replace others with) and flows to delete.

    `touched` has every flow key of the recomputed objects, changed or not; `faults` has those of
    them that cannot be turned into flows, with the reason.
    """

    add: tuple[Flow, ...] = ()
    delete: tuple[Flow, ...] = ()
    touched: frozenset[FlowKey] = frozenset()
    faults: Mapping[ObjectId, str] = field(default_factory=dict)


class Desired:
    """All flows one bridge must have.

    An object with impossible values (text that is no MAC, a group id of more than 15 bits) has no
    flows and is in `faults`; the others are not affected.
    """

    # Invariant: `flows` equals what a new instance computes from the same World, however many
    # updates led here. Three things hold it up. A pipeline function depends on its object and the
    # World alone. `ofnet.changes.affected` names every object whose function reads something that
    # changed; a new dependency in a pipeline needs a line there. A flow that several objects yield
    # (a moved pod has a record on two hosts for a moment) goes to the smallest object id
    # (`ofnet.ownership`), not to the last one.

    def __init__(self, bridge: Bridge) -> None:
        self.faults: dict[ObjectId, str] = {}
        self.bridge = bridge
        self._ownership: Ownership[FlowKey, Flow] = Ownership()

    @property
    def flows(self) -> Mapping[FlowKey, Flow]:
        """The current state."""
        return self._ownership.values

    def update(self, world: World, changes: Changes) -> FlowDelta:
        """Take over a changed World and return how the flows differ from before."""
        pipeline = PIPELINES[mode_of(self.bridge, world.fwd_mode)]
        known = chain(self._ownership.owners(), tuple(self.faults))
        fresh = {oid: self._flows(pipeline, oid, world) for oid in affected(world, changes, known)}
        before: dict[FlowKey, Flow | None] = {}
        for oid, flows in fresh.items():
            old = self._ownership.claimed(oid)
            for key in (*old, *flows):
                before.setdefault(key, self._ownership.values.get(key))
            self._ownership.claim(oid, flows)
        faults = {oid: self.faults[oid] for oid in fresh.keys() & self.faults.keys()}
        return _delta(before, self._ownership.values, faults)

    def _flows(self, pipeline: Pipeline, oid: ObjectId, world: World) -> dict[FlowKey, Flow]:
        try:
            flows = {flow.key: flow for flow in pipeline.flows(oid, world)}
        except (ValueError, struct.error) as exc:
            self.faults[oid] = str(exc)
            return {}
        self.faults.pop(oid, None)
        return flows


def _delta(
    before: Mapping[FlowKey, Flow | None],
    after: Mapping[FlowKey, Flow],
    faults: Mapping[ObjectId, str],
) -> FlowDelta:
    add, delete = [], []
    for key, old in before.items():
        new = after.get(key)
        if new is None:
            if old is not None:
                delete.append(old)
        elif old is None or old.cookie != new.cookie:
            add.append(new)
    return FlowDelta(add=tuple(add), delete=tuple(delete), touched=frozenset(before), faults=faults)
