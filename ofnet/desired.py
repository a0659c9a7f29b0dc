"""The desired state of one bridge: which flows must exist, kept up to date object by object. Pure.

In come Worlds with their changes; out go the flows to add and to delete. The desired flows are the
sum of what the pipeline (`ofnet.pipelines`) yields for each object of the World. `ofnet.agent` owns
the instance.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Final

from ofnet.changes import Changes, ObjectId, ObjectKind, affected
from ofnet.flows import AnyFlow, Flow, FlowKey, table_of
from ofnet.group_numbers import GroupNumbers, renumbered
from ofnet.openflow.actions import METERED, Conntrack, Report, SelectGroup
from ofnet.openflow.meters import Meter
from ofnet.ownership import Ownership
from ofnet.pipelines import PIPELINES
from ofnet.pipelines.features import service_nat
from ofnet.pipelines.pipeline import Pipeline  # noqa: TC001 - for the type of an attribute
from ofnet.tables import Mode, TableId, mode_of
from ofnet.translations import Translated, begun
from ofnet.world import Bridge, FwdMode, World

LARGE: Final = 1_000
"""Objects that change at once from which on a change is found by a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDelta:
    """The effect of a change: flows to add (or to replace others with) and flows to delete.

    `touched` has every flow key of the recomputed objects, changed or not; `faults` has those of
    them that cannot be turned into flows, with the reason. `ended` are the connections that the
    flows began before, or providers kept, and no more; `lasting` are those that are begun or kept
    now. A `large` change names no flows to add: a comparison with the switch finds them.
    """

    add: tuple[Flow, ...] = ()
    delete: tuple[AnyFlow, ...] = ()
    large: bool = False
    touched: frozenset[FlowKey] = frozenset()
    faults: Mapping[ObjectId, str] = field(default_factory=dict)
    ended: frozenset[Translated] = frozenset()
    lasting: frozenset[Translated] = frozenset()


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
    #
    # Most flows are kept as their bytes, which is all that a switch and a comparison need: with the
    # objects that they are made of they take twice as much memory. Who wants to see what a flow
    # says has the pipeline make it again, of the same World.

    def __init__(self, bridge: Bridge, *, large: int = LARGE) -> None:
        self.faults: dict[ObjectId, str] = {}
        self.bridge = bridge
        self._large = large
        self._world = World(fwd_mode=FwdMode.BRIDGE)
        self._pipeline: Pipeline = PIPELINES[mode_of(bridge, FwdMode.BRIDGE)]
        self._ownership: Ownership[FlowKey, AnyFlow] = Ownership()
        self._groups = GroupNumbers()
        self._kept: dict[str, frozenset[Translated]] = {}
        """By service: the connections that providers keep although they get no new ones."""

    @property
    def held(self) -> Mapping[FlowKey, AnyFlow]:
        """All flows, as they are kept."""
        return MappingProxyType(self._ownership.values)

    @property
    def flows(self) -> dict[FlowKey, Flow]:
        """All flows, made anew: of ten thousand endpoints in half a second (`reader`)."""
        return self.reader()()

    def reader(self) -> Callable[[], dict[FlowKey, Flow]]:
        """Return what makes all flows of this moment anew; it may be called in a thread.

        That raises RuntimeError if they are not those that are kept.
        """
        pipeline, world, kept = self._pipeline, self._world, dict(self.held)
        owners, moved = tuple(self._ownership.owners()), self._groups.moved

        def read() -> dict[FlowKey, Flow]:
            flows_of = partial(pipeline.flows, world=world)
            made = [*renumbered(chain.from_iterable(map(flows_of, owners)), moved)]
            # of several objects that claim a flow one has it
            flows = {flow.key: flow for flow in made if _same(kept.get(flow.key), flow)}
            if {flow.key for flow in made} != kept.keys() or len(flows) != len(kept):
                raise RuntimeError(f"flows of {self.bridge} do not follow from its World")
            return flows

        return read

    def made(self, keys: Collection[FlowKey]) -> Iterator[Flow]:
        """Make the flows with these keys anew; those that are not wanted are left out."""
        wanted: dict[ObjectId, set[FlowKey]] = {}
        for key in keys:
            owner = self._ownership.owner(key)
            if owner is not None:
                wanted.setdefault(owner, set()).add(key)
        moved = self._groups.moved
        for owner, its in wanted.items():
            made = renumbered(self._pipeline.flows(owner, self._world), moved)
            yield from {flow.key: flow for flow in made if flow.key in its}.values()

    def whole(self) -> Iterator[Flow]:
        """Yield the flows that are kept whole (`_is_asked_about`)."""
        return (flow for flow in self._ownership.values.values() if isinstance(flow, Flow))

    def groups(self) -> frozenset[int]:
        """Return the numbers of the groups that flows use, and forget all others.

        With those of flows that another object's stand in place of, for they may win later.
        """
        flows = chain(self._ownership.values.values(), self._ownership.contested())
        used = (flow.group for flow in flows if isinstance(flow, Flow))
        return self._groups.keep(group for group in used if group is not None)

    def meters(self) -> frozenset[Meter]:
        """Return the meters that the flows use."""
        return frozenset(meter for flow in self.whole() for meter in flow.meters)

    def keys_of(self, oid: ObjectId) -> frozenset[FlowKey]:
        """Return the keys of an object's flows."""
        return frozenset(self._ownership.claimed(oid))

    def named(self, name: str) -> frozenset[Flow]:
        """Return the flows of all objects of a name: an endpoint's, as another host's too."""
        claimed = (self._ownership.claimed(ObjectId(kind, name)) for kind in ObjectKind)
        return frozenset(self.made([*chain.from_iterable(claimed)]))

    def cookies(self, kind: ObjectKind) -> dict[int, str]:
        """Return the names of the objects of a kind by the cookies of the flows they have.

        A flow that several objects yield is that of the smallest. Those of `POLICY_LOG`, which
        packets meet after a rule's own, are left out.
        """
        return {
            self.held[key].cookie: oid.name
            for oid in self._ownership.owners()
            if oid.kind is kind
            for key in self._ownership.claimed(oid)
            if self._ownership.owner(key) == oid and table_of(key) != TableId.POLICY_LOG
        }

    def owner(self, key: FlowKey) -> ObjectId | None:
        """Return the object that a flow is made for, None for a flow that is not wanted."""
        return self._ownership.owner(key)

    def update(self, world: World, changes: Changes) -> FlowDelta:
        """Take over a changed World and return how the flows differ from before."""
        self._world = world
        self._pipeline = PIPELINES[mode_of(self.bridge, world.fwd_mode)]
        known = chain(self._ownership.owners(), tuple(self.faults))
        changed = affected(world, changes, known)
        delta = self._renew(changed, large=len(changed) >= self._large)
        faults = {oid: self.faults[oid] for oid in changed & self.faults.keys()}
        released, kept = self._keep(self._pipeline.mode, changed, world)
        ended, lasting = (delta.ended | released) - kept, delta.lasting | kept
        return replace(delta, faults=faults, ended=ended, lasting=lasting)

    def _renew(self, changed: Iterable[ObjectId], *, large: bool) -> FlowDelta:
        # One object's flows at a time, and of a large change none are kept beyond that: tens of
        # thousands of flows with all that they are made of would leave the process as large as they
        # were.
        before: dict[FlowKey, AnyFlow | None] = {}
        fresh: dict[ObjectId, Mapping[FlowKey, Flow]] = {}
        for oid in changed:
            flows = self._flows(oid)
            for key in (*self._ownership.claimed(oid), *flows):
                before.setdefault(key, self._ownership.values.get(key))
            self._claim(oid, flows)
            if not large:
                fresh[oid] = flows
        return self._delta(before, None if large else fresh)

    def _claim(self, oid: ObjectId, flows: Mapping[FlowKey, Flow]) -> None:
        kept, known = dict[FlowKey, AnyFlow](), self._ownership.values
        for key, flow in flows.items():
            # what is there already, if it is the same
            old = known.get(key)
            if old is not None and old.cookie == flow.cookie:
                kept[old.key] = old
            else:
                kept[key] = flow if _is_asked_about(flow) else flow.packed
        self._ownership.claim(oid, kept)

    def _delta(
        self,
        before: Mapping[FlowKey, AnyFlow | None],
        fresh: Mapping[ObjectId, Mapping[FlowKey, Flow]] | None,
    ) -> FlowDelta:
        """Return the change of the flows that were so before, to those of objects just computed.

        Without these it is a large one.
        """
        after = self._ownership.values
        add, delete = list[Flow](), list[AnyFlow]()
        for key, old in before.items():
            new = after.get(key)
            if new is None:
                if old is not None:
                    delete.append(old)
            elif fresh is not None and (old is None or old.cookie != new.cookie):
                owner = self._ownership.owner(key)
                # of several who claim a flow, one may win that was not computed now
                if owner and owner in fresh:
                    add.append(fresh[owner][key])
                else:
                    add += [new] if isinstance(new, Flow) else self.made([key])
        began = frozenset(begun(old for old in before.values() if isinstance(old, Flow)))
        now = (after.get(key) for key in before)
        begins = frozenset(begun(one for one in now if isinstance(one, Flow)))
        return FlowDelta(
            add=tuple(add),
            delete=tuple(delete),
            large=fresh is None,
            touched=frozenset(before),
            ended=began - begins,
            lasting=begins,
        )

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
                began = frozenset(begun(self._whole_of(oid)))
                released |= before - now - began
                kept |= now
        return frozenset(released), frozenset(kept)

    def _whole_of(self, oid: ObjectId) -> Iterator[Flow]:
        flows = (self._ownership.values[key] for key in self._ownership.claimed(oid))
        return (flow for flow in flows if isinstance(flow, Flow))

    def _flows(self, oid: ObjectId) -> dict[FlowKey, Flow]:
        try:
            made = self._pipeline.flows(oid, self._world)
            flows = {flow.key: self._groups.numbered(flow) for flow in made}
        except (ValueError, struct.error) as exc:
            self.faults[oid] = str(exc)
            return {}
        self.faults.pop(oid, None)
        return flows


_ASKED: Final = frozenset({Conntrack.name, SelectGroup.name, Report.name, METERED})


def _is_asked_about(flow: Flow) -> bool:
    """Return whether the agent asks what a flow says, with each change or comparison.

    Which groups and meters are used, which connections flows begin or answer, and what comes to the
    agent because it is dropped (`ofnet.pipelines.features.flow_records`).
    """
    return flow.table is TableId.SRV_PROXY_DNAT or not flow.instructions.names.isdisjoint(_ASKED)


def _same(one: AnyFlow | None, other: AnyFlow) -> bool:
    return one is not None and one.cookie == other.cookie
