"""Progress of this host: the store revisions it has realised, and its faults (ADR 12).

In come the revision of each prefix up to which the store has been read, the revisions that were
handed to the bridges, and faults; out comes what `netplugin.masters.control` reports. A revision is
realised when both switches have acknowledged the flows of all changes up to it, and the datapath
forwards by them (`netplugin.bridges.megaflow_purge`); while a flow is refused, no later revision is
realised. When the store went back, what was realised is forgotten.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Final

from core import keys
from core.change_notifier import ChangeNotifier
from core.metrics import Histogram
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge
from state.lineage import Lineage

MAX_ERRORS: Final = 20
MAX_LENGTH: Final = 300
"""Limits of a report, which stays small however many faults there are."""


def at_once(done: Callable[[], None]) -> None:
    """Take acknowledged flows to be in force: `settle` of a datapath that needs no purge."""
    done()


@dataclass(frozen=True, slots=True)
class HostProgress:
    """The realised revision of each prefix, the faults, and the history of the revisions.

    The history is the id of a term (`state.lineage`): the last one in which this host has claimed
    its pods, where needed; "" for none.
    """

    revisions: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    history: str = ""


class Progress:
    """Updated by `netplugin.bridges.reconciler`; `unreadable`: keys that cannot be decoded now.

    `settle` is given a function after each acknowledged change, and calls it once the datapath
    forwards by the change. `clock` is monotonic.
    """

    def __init__(
        self,
        agents: Mapping[Bridge, BridgeAgent],
        unreadable: Mapping[str, str],
        settle: Callable[[Callable[[], None]], None] = at_once,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.realise_seconds = Histogram()
        """From the reading of a revision to its realisation, one revision at a time."""
        self._clock = clock
        self._sample: tuple[str, int, float] | None = None
        self._settle = settle
        self._unsettled = False
        self._agents = agents
        self._unreadable = unreadable
        self._observed: dict[str, int] = {}
        self._handed: Mapping[str, int] = {}
        self._realised: Mapping[str, int] = {}
        self._invalid: dict[str, str] = {}
        self._faults: dict[str, tuple[str, ...]] = {}
        self._changed = ChangeNotifier()
        self.histories = 0
        """How often a prefix of the store went back."""
        self._lineage = Lineage()
        self._claimed_in = ""
        for agent in agents.values():
            agent.on_sync_change(self._update)

    @property
    def standing(self) -> HostProgress:
        """The report of this moment."""
        errors = islice(self._errors(), MAX_ERRORS)
        return HostProgress(
            self._realised,
            tuple(error[:MAX_LENGTH] for error in errors),
            self._claimed_in if self._claimed_in == self._lineage.current else "",
        )

    @property
    def realised(self) -> Mapping[str, int]:
        """The revision of each prefix up to which all is in force."""
        return self._realised

    @property
    def behind(self) -> float:
        """For how many seconds a revision that was read has not been realised; 0 for none."""
        return 0.0 if self._sample is None else self._clock() - self._sample[2]

    def faults(self, *subjects: str) -> list[str]:
        """Return the faults of this moment that are about some subjects."""
        return [fault for subject in subjects for fault in self._faults.get(subject, ())]

    def fault_counts(self) -> dict[str, int]:
        """Return the number of faults of this moment by subject."""
        counts = {subject: len(faults) for subject, faults in self._faults.items()}
        counts["flows refused"] = sum(len(agent.sync.refused) for agent in self._agents.values())
        counts["objects"] = sum(len(agent.desired.faults) for agent in self._agents.values())
        counts["records"] = len(self._unreadable) + len(self._invalid)
        return counts

    def summary(self) -> list[str]:
        """Return how many faults there are of each subject, in words that anybody may read."""
        counts = self.fault_counts().items()
        return [
            f"{subject}: {count}, see `netctl host inspect`" for subject, count in counts if count
        ]

    def late(self, revisions: Mapping[str, int], history: str = "") -> str:
        """Return the first prefix that is not realised up to its revision; "" if all are.

        `history` is the term in whose history the revisions are, "" if that is not known.
        """
        if history and not any(term.id == history for term in self._lineage.terms):
            return f"the leader's term {history} is not known here"
        # Endpoints need only have been read from the store: the World hands them to the switches
        # before any port that is put later, and a refused flow of one endpoint does not affect
        # another.
        there = {**self._realised, keys.ENDPOINTS: self._observed.get(keys.ENDPOINTS, 0)}
        behind = (
            f"{prefix} at {reached} of {rev}"
            for prefix, rev in revisions.items()
            if (reached := there.get(prefix, 0)) < rev
        )
        return next(behind, "")

    def changed(self) -> asyncio.Event:
        """Return the event of the next change: take it, read the state, then wait for it."""
        return self._changed.next

    def follow(self, lineage: Lineage) -> None:
        """Note the store's lineage: revisions from now on are of this history."""
        self._lineage = lineage
        self._changed.notify()

    def claimed(self, history: str) -> None:
        """Note that this host has claimed its pods in a term, where needed."""
        self._claimed_in = history
        self._changed.notify()

    def observed(self, prefix: str, rev: int) -> None:
        """Note that all events of a prefix up to a revision have been read."""
        self._observed[prefix] = rev
        if self._sample is None and rev > self._realised.get(prefix, 0):
            self._sample = prefix, rev, self._clock()

    def rewound(self, prefix: str) -> None:
        """Forget the revisions of a prefix, which are those of another history."""
        self.histories += 1
        if self._sample is not None and self._sample[0] == prefix:
            self._sample = None
        self._observed.pop(prefix, None)
        self._handed = _without(self._handed, prefix)
        self._realised = _without(self._realised, prefix)
        self._changed.notify()

    def mark_sent(self, revisions: Mapping[str, int], histories: int) -> None:
        """Note that the bridges were given all changes up to these revisions.

        `histories` is what it was when the revisions were read: they may be of the past by now.
        """
        if histories == self.histories:
            self._handed = revisions
            self._unsettled = True
        self._update()

    def clear_invalid(self, key: str) -> None:
        """Note that a record was applied or removed."""
        self._invalid.pop(key, None)

    def mark_invalid(self, key: str, reason: str) -> None:
        """Note that a record is invalid, with the reason."""
        self._invalid[key] = reason

    def set_faults(self, subject: str, faults: Iterable[str]) -> None:
        """Replace the faults of one subject, such as tunnels."""
        found = tuple(faults)
        if found != self._faults.get(subject, ()):
            self._faults[subject] = found
            self._update()

    def _update(self) -> None:
        # A revision is realised for the whole host or not at all: netmaster takes it as "policies
        # up to here are in force", so one outstanding flow holds the revision back, and a refused
        # one if something may pass for want of it (`ofnet.refusals`).
        if not all(agent.sync.fully_synced for agent in self._agents.values()):
            self._unsettled = True
        elif self._unsettled:
            self._unsettled = False
            self._settle(partial(self._realise, self._handed, self.histories))
        self._changed.notify()

    def _realise(self, revisions: Mapping[str, int], histories: int) -> None:
        # The datapath may settle after the store went back; the next round has its revisions.
        if histories == self.histories:
            self._realised = revisions
            self._measure()
        self._changed.notify()

    def _measure(self) -> None:
        if self._sample is not None:
            prefix, rev, read = self._sample
            if self._realised.get(prefix, 0) >= rev:
                self.realise_seconds.observe(self._clock() - read)
                self._sample = None

    def _errors(self) -> Iterator[str]:
        for bridge, agent in self._agents.items():
            for flow, reason in agent.sync.refused.values():
                oid = agent.desired.owner(flow.key)
                of = f" of {oid.kind.name.lower()} {oid.name}".rstrip() if oid is not None else ""
                yield f"bridge {bridge}: flow{of} refused: {reason}: {flow}"
            for oid, reason in agent.desired.faults.items():
                yield f"bridge {bridge}: {oid.name} has no flows: {reason}"
        yield from chain.from_iterable(self._faults.values())
        for key, reason in {**self._unreadable, **self._invalid}.items():
            yield f"{key}: {reason}"


def _without(revisions: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {known: rev for known, rev in revisions.items() if known != prefix}
