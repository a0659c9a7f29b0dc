"""The desired state of one bridge: which flows must exist, kept up to date object by object. Pure.

In come Worlds with their changes; out go the flows to add and to delete. The desired flows are the
sum of what the pipeline (`ofnet.pipelines`) yields for each object of the World. `ofnet.agent` owns
the instance.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from ofnet.changes import Changes, ObjectId, ObjectKind, affected
from ofnet.flows import Flow, FlowKey
from ofnet.openflow.actions import SelectGroup  # noqa: TC001 - for the type of an attribute
from ofnet.openflow.meters import Meter
from ofnet.ownership import Ownership
from ofnet.pipelines import PIPELINES
from ofnet.pipelines.features import service_nat
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode, TableId, mode_of
from ofnet.translations import Translated, begun
from ofnet.world import Bridge, World


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDelta:
    """The effect of a change: flows to add (or to replace others with) and flows to delete.

    `touched` has every flow key of the recomputed objects, changed or not; `faults` has those of
    them that cannot be turned into flows, with the reason. `ended` are the connections that the
    flows began before, or providers kept, and no more.
    """

    add: tuple[Flow, ...] = ()
    delete: tuple[Flow, ...] = ()
    touched: frozenset[FlowKey] = frozenset()
    faults: Mapping[ObjectId, str] = field(default_factory=dict)
    ended: frozenset[Translated] = frozenset()


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
        self._groups: dict[int, SelectGroup] = {}
        self._kept: dict[str, frozenset[Translated]] = {}
        """By service: the connections that providers keep although they get no new ones."""

    @property
    def flows(self) -> Mapping[FlowKey, Flow]:
        """The current state."""
        return self._ownership.values

    def groups(self) -> frozenset[int]:
        """Return the numbers of the groups that the flows use, and forget all others."""
        used = (flow.instructions.group for flow in self.flows.values())
        self._groups = {group.id: group for group in used if group is not None}
        return frozenset(self._groups)

    def meters(self) -> frozenset[Meter]:
        """Return the meters that the flows use."""
        return frozenset(
            meter for flow in self.flows.values() for meter in flow.instructions.meters
        )

    def keys_of(self, oid: ObjectId) -> frozenset[FlowKey]:
        """Return the keys of an object's flows."""
        return frozenset(self._ownership.claimed(oid))

    def named(self, name: str) -> frozenset[Flow]:
        """Return the flows of all objects of a name: an endpoint's, as another host's too."""
        return frozenset(
            self.flows[key]
            for kind in ObjectKind
            for key in self._ownership.claimed(ObjectId(kind, name))
        )

    def cookies(self, kind: ObjectKind) -> dict[int, str]:
        """Return the names of the objects of a kind by the cookies of the flows they have.

        A flow that several objects yield is that of the smallest. Those of `POLICY_LOG`, which
        packets meet after a rule's own, are left out.
        """
        return {
            self.flows[key].cookie: oid.name
            for oid in self._ownership.owners()
            if oid.kind is kind
            for key in self._ownership.claimed(oid)
            if self._ownership.owner(key) == oid and key.table != TableId.POLICY_LOG
        }

    def owner(self, key: FlowKey) -> ObjectId | None:
        """Return the object that a flow is made for, None for a flow that is not wanted."""
        return self._ownership.owner(key)

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
        delta = _delta(before, self._ownership.values, faults)
        released, kept = self._keep(pipeline.mode, fresh, world)
        return replace(delta, ended=(delta.ended | released) - kept)

    def _keep(
        self, mode: Mode, changed: Iterable[ObjectId], world: World
    ) -> tuple[frozenset[Translated], frozenset[Translated]]:
        """Note what the providers of changed services keep; return what they do no more, and do."""
        released, kept = set[Translated](), set[Translated]()
        for oid in changed:
            if oid.kind is ObjectKind.SERVICE:
                before = self._kept.pop(oid.name, frozenset[Translated]())
                service = world.services.get(oid.name)
                now = frozenset(service_nat.kept(mode, service, world)) if service else frozenset()
                if now:
                    self._kept[oid.name] = now
                began = frozenset(begun(self._of(oid)))
                released |= before - now - began
                kept |= now
        return frozenset(released), frozenset(kept)

    def _of(self, oid: ObjectId) -> Iterator[Flow]:
        return (self._ownership.values[key] for key in self._ownership.claimed(oid))

    def _flows(self, pipeline: Pipeline, oid: ObjectId, world: World) -> dict[FlowKey, Flow]:
        try:
            flows = {flow.key: flow for flow in pipeline.flows(oid, world)}
            self._number(flows.values())
        except (ValueError, struct.error) as exc:
            self.faults[oid] = str(exc)
            return {}
        self.faults.pop(oid, None)
        return flows

    def _number(self, flows: Iterable[Flow]) -> None:
        """Note the groups that flows use.

        Raises ValueError for one whose number another group has: it would send connections to the
        providers of another service. Of 1 000 groups two have one number once in 8 000 times.
        """
        for flow in flows:
            group = flow.instructions.group
            if group is not None and self._groups.setdefault(group.id, group) != group:
                raise ValueError(f"group {group.id} has the number of another")


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
    gone = set(begun(old for old in before.values() if old is not None))
    if gone:
        gone.difference_update(begun(after[key] for key in before if key in after))
    return FlowDelta(
        add=tuple(add),
        delete=tuple(delete),
        touched=frozenset(before),
        faults=faults,
        ended=frozenset(gone),
    )
