"""Flow changes that wait to be sent to a switch, and the updates that wait for their outcome.

`ofnet.flow_sync` fills and empties the outbox. A `PendingUpdate` is what a caller awaits.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from core.errors import ContivError, SwitchRefused, SwitchUnavailable
from ofnet.diff import FlowStamp
from ofnet.flows import AnyFlow, Flow, FlowKey
from ofnet.translations import Translated


@dataclass(slots=True)
class PendingUpdate:
    """An update that waits for the switch's acknowledgement.

    `touched` has every flow key of the changed objects; a refusal of one of them fails the update.
    """

    done: asyncio.Future[None]
    touched: frozenset[FlowKey]


@dataclass(slots=True)
class Outbox:
    """Unsent changes of any number of updates, merged into one set of additions and deletions."""

    add: dict[FlowKey, Flow] = field(default_factory=dict)
    delete: dict[FlowStamp, None] = field(default_factory=dict)
    pending: list[PendingUpdate] = field(default_factory=list)
    ended: set[Translated] = field(default_factory=set)
    """Connections to be forgotten, once the flows are in place that begin no more of them."""

    # Invariant: sending all of `add`, then all of `delete`, has the effect of the merged updates in
    # their order. A delete names a (table, cookie) stamp, so it never hits the flow that replaced
    # the deleted one: that flow has other content and therefore another cookie. The single conflict
    # left is a flow that went and came back; `put` cancels its delete.

    def put(self, add: Iterable[Flow], delete: Iterable[AnyFlow]) -> None:
        """Merge one update's changes into the unsent ones."""
        for flow in add:
            self.add[flow.key] = flow
            self.delete.pop(FlowStamp(flow.table, flow.cookie), None)
        # A flow that still waits in `add` is not taken out when it is deleted. The switch may hold
        # an older flow under the same key, which only this addition replaces.
        self.delete.update(dict.fromkeys(FlowStamp(flow.table, flow.cookie) for flow in delete))


def fail(pending: Iterable[PendingUpdate], exc: ContivError) -> None:
    """Fail the updates that have no outcome yet."""
    for update in pending:
        if not update.done.done():
            update.done.set_exception(exc)


@contextmanager
def failing(pending: list[PendingUpdate]) -> Iterator[None]:
    """Fail the updates with the error that ends the body; the error is raised on."""
    try:
        yield
    except (SwitchUnavailable, SwitchRefused) as exc:
        fail(pending, exc)
        raise
    except asyncio.CancelledError:
        fail(pending, SwitchUnavailable("the agent stops"))
        raise
