"""Flows that a switch refuses, and what stands in their place. Pure.

`ofnet.flow_sync` records here what the switch said and asks what can be installed. The other flows
are installed as if a refused one were not wanted.

Leaving a flow out must let nothing pass that the flow would have judged: behind a rule that denies
there may be one that allows, and behind an output another way out. So a flow that drops stands in
the place of a refused one, with its match: what it would have handled is lost, and nothing else
changes. Two kinds of flows get none. A flow that drops itself, or whose match is refused as well,
leaves a gap (`gap`): the host is not in sync, gets no new pods, and says so. Flows that answer
neighbours (tables 10 and 11) carry nothing: without one the question stays unanswered.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ofnet.diff import FlowStamp
from ofnet.flows import AnyFlow, Flow, FlowKey
from ofnet.openflow.actions import DROP
from ofnet.tables import TableId

LONGEST: Final = 64
"""Audits between two tries of flows that are refused again and again: an hour."""

_ANSWERING: Final = frozenset({TableId.NEIGHBOURS, TableId.NEIGHBOUR_REPLY})


class Refusals:
    """The refused flows of one switch by their keys, with its reasons."""

    def __init__(self) -> None:
        self.flows: dict[FlowKey, tuple[Flow, str]] = {}
        self._stand_ins: dict[FlowKey, Flow] = {}
        self._gaps: set[FlowKey] = set()
        self._pause = self._left = 1

    @property
    def gap(self) -> bool:
        """True when something may pass that a refused flow would not let pass."""
        return bool(self._gaps)

    def record(self, refused: Iterable[tuple[Flow, str]]) -> list[tuple[Flow, str]]:
        """Note what the switch refused; return what is not known yet."""
        new = []
        for flow, reason in refused:
            key = flow.key
            if self._stand_ins.get(key) == flow:
                del self._stand_ins[key]
                self._gaps.add(key)
                continue
            if self.flows.get(key) != (flow, reason):
                new.append((flow, reason))
            self.flows[key] = flow, reason
            if flow.table in _ANSWERING:
                continue
            if flow.instructions == DROP:
                self._gaps.add(key)
            else:
                self._stand_ins[key] = Flow(flow.owner, flow.table, flow.priority, flow.match, DROP)
        return new

    def possible(self, desired: Mapping[FlowKey, AnyFlow]) -> list[AnyFlow]:
        """Return the flows to be installed: the desired ones, or what stands in their place."""
        if not self.flows:
            return list(desired.values())
        flows = list[AnyFlow]()
        for key, flow in desired.items():
            refused = self.flows.get(key)
            if refused is None or refused[0].cookie != flow.cookie:
                flows.append(flow)
            elif key in self._stand_ins:
                flows.append(self._stand_ins[key])
        return flows

    def outdated(
        self, desired: Mapping[FlowKey, AnyFlow], added: Collection[FlowKey]
    ) -> list[FlowStamp]:
        """Forget refusals of flows that are no longer wanted so, or are added anew.

        Returns the stamps of what stood in their place, to be deleted.
        """
        gone = [
            key
            for key, (flow, _) in self.flows.items()
            if key in added or key not in desired or desired[key].cookie != flow.cookie
        ]
        stamps = [
            FlowStamp(stand_in.table, stand_in.cookie)
            for key in gone
            if (stand_in := self._stand_ins.get(key)) is not None
        ]
        self._forget(gone)
        return stamps

    def due(self) -> list[Flow]:
        """Return the flows to be tried again at this audit; after each try it takes longer."""
        self._left -= 1
        if not self.flows or self._left > 0:
            return []
        self._pause = self._left = min(2 * self._pause, LONGEST)
        return [flow for flow, _ in self.flows.values()]

    def accept(self, flows: Iterable[Flow]) -> None:
        """Forget refusals of flows that the switch takes by now."""
        self._forget([flow.key for flow in flows])

    def clear(self) -> None:
        """Forget everything: another switch may take what this one refused."""
        self._forget(list(self.flows))

    def _forget(self, keys: Iterable[FlowKey]) -> None:
        for key in keys:
            self.flows.pop(key, None)
            self._stand_ins.pop(key, None)
            self._gaps.discard(key)
        if not self.flows:
            self._pause = self._left = 1
