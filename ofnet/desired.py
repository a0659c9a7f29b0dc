"""The desired state of one bridge: which flows must exist, kept up to date object by object.

Flows(World) is the sum of what the pipeline says for each object. A change recomputes its own
objects (`ofnet.changes.affected`) and yields the difference. A flow claimed by several objects (a
moved pod is known on two hosts for a moment) is decided by `ofnet.ownership`. `ofnet.agent` owns
the instance; nothing here does I/O.
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
    """What a change did: flows to add (or to put in another's place) and flows that are gone.

    `touched` has every flow key of the objects concerned, changed or not; `faults` says which of
    these objects cannot be turned into flows, and why.
    """

    add: tuple[Flow, ...] = ()
    delete: tuple[Flow, ...] = ()
    touched: frozenset[FlowKey] = frozenset()
    faults: Mapping[ObjectId, str] = field(default_factory=dict)


class Desired:
    """All flows one bridge must have.

    An object with impossible values (a MAC that is none, a group beyond its bits) has no flows and
    is in `faults`; it does no harm to the others.
    """

    def __init__(self, bridge: Bridge) -> None:
        self.faults: dict[ObjectId, str] = {}
        self._bridge = bridge
        self._claims: Ownership[FlowKey, Flow] = Ownership()

    @property
    def flows(self) -> Mapping[FlowKey, Flow]:
        """The current state."""
        return self._claims.values

    def update(self, world: World, changes: Changes) -> FlowDelta:
        """Take over a changed World and return how the flows differ from before."""
        pipeline = PIPELINES[mode_of(self._bridge, world.fwd_mode)]
        known = chain(self._claims.owners(), tuple(self.faults))
        fresh = {oid: self._flows(pipeline, oid, world) for oid in affected(world, changes, known)}
        before: dict[FlowKey, Flow | None] = {}
        for oid, flows in fresh.items():
            old = self._claims.claimed(oid)
            for key in (*old, *flows):
                before.setdefault(key, self._claims.values.get(key))
            self._claims.claim(oid, flows)
        faults = {oid: self.faults[oid] for oid in fresh.keys() & self.faults.keys()}
        return _delta(before, self._claims.values, faults)

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
