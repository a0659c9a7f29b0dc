"""The time in which hosts claim the endpoints of their running pods, before others are granted.

A restored store does not know the pods that started after the backup was made, so their addresses
look free. Until their hosts have claimed them (`netplugin.pods.claims`), the leader grants no
others. `netmaster.leadership` tells of the store, of the lock and of its terms; the API asks
`is_open`.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from core.errors import StoreUnavailable
from ofnet.rpc.control import AgentReport, Node

CLAIM_WINDOW: Final = 3.0
"""Seconds. Agents notice a restore about when masters do, and claim as soon as one leads; an ADD
waits longer than this for a leader."""

# Who knows that a store went back? Masters that watched it, and the agents. A master that has just
# started knows nothing: the store may have been restored before, while no master ran. So it waits
# for the word of each registered agent that it has compared its pods with this very term. A master
# that has seen another lead for a while need not: that one has waited. After a restore that is
# certain the registrations are not, as they may be missing in the backup, and all the time passes.


class ClaimWindow:
    """Exists on followers too: its state must survive a failover.

    `reports` is what agents report over the control channel.
    """

    def __init__(
        self,
        reports: Mapping[Node, AgentReport],
        seconds: float = CLAIM_WINDOW,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reports = reports
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0
        self._restored = False
        self._history = ""
        self._awaited: frozenset[Node] = frozenset()
        self._claimed = False
        self._holder: int | None = None
        self._held_since = 0.0

    def store_went_back(self) -> None:
        """Open the window now, and once more when the next term begins."""
        self._open(frozenset())
        self._restored, self._claimed = True, False
        self._held_since = self._clock()

    def lock_held(self, holding: int | None) -> None:
        """Note which holding of the leader lock there is, by its revision; None if it is free."""
        self._note_tenure()
        if holding != self._holder:
            self._holder, self._held_since = holding, self._clock()

    def term_begins(self, history: str, *, restored: bool, agents: Collection[Node]) -> None:
        """Open the window of a term, unless all claims have been made already.

        `history` is the term's id; `restored` says that the store itself shows a restore.
        """
        self._note_tenure()
        self._history = history
        if restored or self._restored:
            self._open(frozenset())
        elif agents and not self._claimed:
            self._open(frozenset(agents))
        self._restored = False

    def is_open(self) -> bool:
        """Return whether only claims are granted."""
        if self._clock() >= self._until:
            return False
        if self._awaited and all(map(self._has_claimed, self._awaited)):
            self._until = 0.0
        return self._clock() < self._until

    def _open(self, awaited: frozenset[Node]) -> None:
        self._awaited = awaited
        self._until = self._clock() + self._seconds

    def _note_tenure(self) -> None:
        """Note that all claims were made, if the lock was held by one for long enough."""
        held = self._clock() - self._held_since
        # Twice: a leader loads the view before its own window begins.
        if self._holder is not None and held >= 2 * self._seconds:
            self._claimed = True

    def _has_claimed(self, agent: Node) -> bool:
        report = self._reports.get(agent)
        return report is not None and report.history == self._history


def refusal() -> StoreUnavailable:
    """Return the refusal of an address during the window; nothing was done, and it passes."""
    return StoreUnavailable("hosts are claiming the endpoints of their running pods, retry")
