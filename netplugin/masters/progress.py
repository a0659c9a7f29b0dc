"""How far this host has come, and what is wrong on it: what masters are told (ADR 12).

In come the revisions up to which the store has told of each prefix, what rounds carried to the
bridges, and faults as they are found; out comes what `netplugin.masters.control` reports. A
revision is realised when both switches have acknowledged the flows of all changes up to it; while a
flow is refused nothing new is. Nothing here waits or sends.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from core import keys
from core.change_notifier import ChangeNotifier
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge

MAX_ERRORS: Final = 20
MAX_LENGTH: Final = 300
"""A report stays small whatever is wrong."""


@dataclass(frozen=True, slots=True)
class HostProgress:
    """The realised revision of each prefix, and what is wrong."""

    revisions: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


class Progress:
    """Updated by `netplugin.bridges.reconciler`; `unreadable`: keys that cannot be decoded now."""

    def __init__(self, agents: Mapping[Bridge, BridgeAgent], unreadable: Mapping[str, str]) -> None:
        self._agents = agents
        self._unreadable = unreadable
        self._told: dict[str, int] = {}
        self._handed: Mapping[str, int] = {}
        self._realised: Mapping[str, int] = {}
        self._misunderstood: dict[str, str] = {}
        self._shown: dict[str, tuple[str, ...]] = {}
        self._changed = ChangeNotifier()
        for agent in agents.values():
            agent.on_sync_change(self._look)

    @property
    def standing(self) -> HostProgress:
        """What is to be reported now."""
        errors = islice(self._errors(), MAX_ERRORS)
        return HostProgress(self._realised, tuple(error[:MAX_LENGTH] for error in errors))

    def late(self, revisions: Mapping[str, int]) -> str:
        """Return the first prefix that has not been realised up to its revision; "" if all are.

        Of endpoints it is enough to be told: they go to the switches before whatever is put next,
        and a flow of theirs that is refused is in nobody else's way.
        """
        there = {**self._realised, keys.ENDPOINTS: self._told.get(keys.ENDPOINTS, 0)}
        behind = (
            f"{prefix} at {reached} of {rev}"
            for prefix, rev in revisions.items()
            if (reached := there.get(prefix, 0)) < rev
        )
        return next(behind, "")

    def changed(self) -> asyncio.Event:
        """Return the event that the next change may set: take it, look, then wait."""
        return self._changed.next

    def told(self, prefix: str, rev: int) -> None:
        """Note that the store has told all that happened under a prefix up to a revision."""
        self._told[prefix] = rev

    def handed_over(self, revisions: Mapping[str, int]) -> None:
        """Note that the bridges were given all up to these revisions; they may yet lack some."""
        self._handed = revisions
        self._look()

    def understood(self, key: str) -> None:
        """Note that a record makes sense, or is gone."""
        self._misunderstood.pop(key, None)

    def misunderstood(self, key: str, reason: str) -> None:
        """Note that a record makes no sense."""
        self._misunderstood[key] = reason

    def show(self, subject: str, faults: Iterable[str]) -> None:
        """Note all that is wrong with one subject, tunnels say, in place of what was."""
        found = tuple(faults)
        if found != self._shown.get(subject, ()):
            self._shown[subject] = found
            self._look()

    def _look(self) -> None:
        if all(agent.fully_synced for agent in self._agents.values()):
            self._realised = self._handed
        self._changed.notify()

    def _errors(self) -> Iterator[str]:
        for bridge, agent in self._agents.items():
            for flow, reason in agent.refused.values():
                yield f"bridge {bridge}: flow refused: {reason}: {flow}"
            for oid, reason in agent.faults.items():
                yield f"bridge {bridge}: {oid.name} has no flows: {reason}"
        yield from chain.from_iterable(self._shown.values())
        for key, reason in {**self._unreadable, **self._misunderstood}.items():
            yield f"{key}: {reason}"
