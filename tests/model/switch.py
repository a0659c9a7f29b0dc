"""A switch for tests: what its flows do with a packet, and connections and time that end.

The model is the product's (`ofnet.trace.evaluator`, `ofnet.trace.tracking`). Here is what no trace
asks of it: the verdict of the flows alone, without connection tracking; connections that are
flushed, and learned flows that expire.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ofnet.flows import Flow
from ofnet.openflow.actions import Conntrack, Deal, Instructions, Lookup
from ofnet.tables import TableId
from ofnet.trace.evaluator import (
    LOOP,
    EndlessLookup,
    PacketFields,
    Sent,
    Tables,
    acted,
    marked,
    winners,
)
from ofnet.trace.tracking import Connection, TrackingSwitch
from ofnet.translations import Translated


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a packet.

    `path` are the flows it met. `ambiguous` has the flows of a table that all match with the
    greatest priority and do different things: OpenFlow does not say which one counts.
    """

    sent: tuple[Sent, ...] = ()
    final: PacketFields = field(default_factory=lambda: PacketFields({}))
    path: tuple[Flow, ...] = ()
    ambiguous: tuple[tuple[Flow, ...], ...] = ()


def evaluate(tables: Tables, packet: PacketFields, *, broken: Collection[int] = ()) -> Verdict:
    """Return what becomes of a packet that comes in on its `in_port`; `broken` ports do not work.

    Raises EndlessLookup for a packet that is looked up for ever.
    """
    verdict = Verdict(final=packet)
    following: int | None = TableId.INPUT
    while following is not None:
        found = winners(tables[TableId(following)], verdict.final)
        if not found:
            return verdict
        verdict = _entered(verdict, found, broken)
        if len(verdict.path) >= LOOP:
            raise EndlessLookup(f"no end: {verdict.path}")
        following = _following(found[0].instructions)
    return verdict


def _following(instructions: Instructions) -> int | None:
    """Return the table that comes next; of actions, the one that leads on is the last."""
    acts = instructions.actions
    if any(isinstance(action, Deal) for action in acts):
        return None
    resumed = [action.table for action in acts if isinstance(action, Conntrack | Lookup)]
    return resumed[0] if resumed else instructions.goto


def _entered(before: Verdict, found: tuple[Flow, ...], broken: Collection[int] = ()) -> Verdict:
    instructions = found[0].instructions
    sent, packet = list(before.sent), before.final
    for action in instructions.actions:
        packet = acted(action, packet, sent, broken)
    conflict = any(flow.instructions != instructions for flow in found)
    return Verdict(
        sent=tuple(sent),
        final=marked(instructions, packet),
        path=(*before.path, found[0]),
        ambiguous=(*before.ambiguous, found) if conflict else before.ambiguous,
    )


class LastingSwitch(TrackingSwitch):
    """A switch whose connections are flushed and whose learned flows expire."""

    def forget(self, ended: Iterable[Translated]) -> None:
        """Forget connections, as NXT_CT_FLUSH does."""
        for one in ended:
            for key, connection in list(self.connections.items()):
                if key[0] == one.zone and _is_of(connection, one):
                    self.connections.pop(key)

    def expire(self) -> None:
        """Forget what was learned: nobody has asked for long."""
        self.learned.clear()


def _is_of(connection: Connection, one: Translated) -> bool:
    provider = connection.answered
    return (
        (provider.protocol, provider.source, provider.source_port)
        == (one.protocol, one.provider, one.port)
        and one.address in {None, connection.asked.destination}
        and one.service_port in {0, connection.asked.destination_port}
    )
