"""Applies the store's events to the World, and notifies those who depend on records.

In come typed events (`state.watch`), in the order in which the store has them; out go calls of
`netplugin.world.builder`, and events to wait on: for any record, for those of one kind, for a
network, or for revisions to be in force. Flows follow by themselves
(`netplugin.bridges.reconciler` observes the World). Nothing here knows a switch.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from core import keys
from core.change_notifier import ChangeNotifier
from core.errors import Exhausted, Invalid, NotFound, SwitchUnavailable
from core.ids import NetworkId
from core.logs import fields
from netplugin.masters.progress import Progress
from netplugin.world.bridges.vrfs import MAX_VRF
from netplugin.world.builder import WorldBuilder
from state.lineage import Lineage, Position
from state.records import GlobalRecord, GroupRecord, HostRecord, NetworkRecord
from state.watch import (
    Changed,
    Event,
    HistoryUnverified,
    RecordFeed,
    Removed,
    ScopeChanged,
    StoreRolledBack,
    SyncedTo,
)

log = logging.getLogger(__name__)

EVENTS_AT_ONCE: Final = 500
"""Events that are applied before anything else on the event loop gets its turn."""


class RecordEvents:
    """The store's events. One per agent.

    The methods `..._changed` return an event that the next change sets. Take it before reading the
    World and wait on it afterwards: then no change is missed.
    """

    def __init__(self, world: WorldBuilder, progress: Progress) -> None:
        self._world = world
        self._progress = progress
        self._records = ChangeNotifier()
        self._groups = ChangeNotifier()
        self._networks = ChangeNotifier()
        self._settings = ChangeNotifier()
        self._hosts = ChangeNotifier()
        self._management = ChangeNotifier()
        world.management.observe(self._management.notify)
        self._histories = ChangeNotifier()
        self._in_doubt: set[str] = set()
        self.rewinds = 0
        """How often the store itself showed that the endpoints' history is another one."""
        self.lineage = Lineage()
        self._by_type = {
            GroupRecord: self._groups,
            NetworkRecord: self._networks,
            GlobalRecord: self._settings,
            HostRecord: self._hosts,
        }

    async def follow(self, feed: RecordFeed, complete: asyncio.Event) -> None:
        """Apply the store's events for ever; set `complete` once all that it has is applied."""
        while True:
            for event in await feed.take(EVENTS_AT_ONCE):
                self.apply(event)
            # It turns true when `take` returns the last event: it is read once that is applied.
            if feed.complete:
                complete.set()

    def apply(self, event: Event) -> None:
        """Apply a change of the store to the World.

        A record that cannot be read is reported; the last good one stays in force.
        """
        if isinstance(event, SyncedTo):
            # The revision is set after the records it covers: a round that takes the World with
            # this revision has their flows. Masters rely on it (ADR 12).
            self._progress.observed(event.prefix, event.rev)
            self._world.set_revision(event.prefix, event.rev)
            if event.prefix in self._in_doubt:
                self._in_doubt.discard(event.prefix)
                self._histories.notify()
        elif isinstance(event, ScopeChanged):
            self._world.networks.hold(event.networks)
        elif isinstance(event, StoreRolledBack | HistoryUnverified):
            self._progress.rewound(event.prefix)
            self._world.forget_revision(event.prefix)
            self._in_doubt.add(event.prefix)
            if isinstance(event, StoreRolledBack) and event.prefix == keys.ENDPOINTS:
                self.rewinds += 1
        else:
            if isinstance(event, Changed) and isinstance(event.record, Lineage):
                self.lineage = event.record
                self._progress.follow(event.record)
                self._histories.notify()
            self._apply_record(event)
        self._records.notify()

    def _apply_record(self, event: Changed | Removed) -> None:
        try:
            if isinstance(event, Changed):
                self._world.put(event.record)
            else:
                self._world.remove(event.record)
        except Invalid as exc:
            log.warning("invalid record, the last valid one stays", extra=fields(error=exc))
            self._progress.mark_invalid(event.key, str(exc))
            return
        self._progress.clear_invalid(event.key)
        notifier = self._by_type.get(type(event.record))
        if notifier is not None:
            notifier.notify()

    def records_changed(self) -> asyncio.Event:
        """Return the event that the next change of any record sets."""
        return self._records.next

    def history_changed(self) -> asyncio.Event:
        """Return the event that the next term sets, or that a store sets that was read anew."""
        return self._histories.next

    @property
    def endpoints_position(self) -> Position | None:
        """How far endpoints have been read, and in which term; None while that is in doubt."""
        rev = self._world.revisions.get(keys.ENDPOINTS, 0)
        if not rev or keys.ENDPOINTS in self._in_doubt:
            return None
        return Position(self.lineage.current, rev)

    def groups_changed(self) -> asyncio.Event:
        """Return the event that the next change of a group sets."""
        return self._groups.next

    def networks_changed(self) -> asyncio.Event:
        """Return the event that the next change of a network sets."""
        return self._networks.next

    def settings_changed(self) -> asyncio.Event:
        """Return the event that the next change of the cluster's settings sets."""
        return self._settings.next

    def management_changed(self) -> asyncio.Event:
        """Return the event that the next change of the management's addresses or ports sets."""
        return self._management.next

    def hosts_changed(self) -> asyncio.Event:
        """Return the event that the next change of a host sets."""
        return self._hosts.next

    async def network(self, nid: NetworkId, patience: float) -> NetworkRecord:
        """Return a network's record; wait for it up to `patience` seconds.

        Raises NotFound, or Exhausted for a network this host has no VRF id for.
        """
        try:
            async with asyncio.timeout(patience):
                while (record := self._world.networks.get(nid)) is None:
                    await self._records.next.wait()
        except TimeoutError as exc:
            raise NotFound(f"network {nid} is not known on this host") from exc
        if not self._world.networks.on_bridge(nid):
            raise Exhausted(f"no VRF id left on this host for network {nid}: {MAX_VRF} in use")
        return record

    async def caught_up(self, revisions: Mapping[str, int], history: str, patience: float) -> None:
        """Return when all records up to these revisions, by prefix, are in force on this host.

        `history` is the term in whose history the revisions are, "" if that is not known.

        Both switches have the flows of policies then. Those of endpoints they get before the flows
        of any port that is put later. Raises SwitchUnavailable after `patience` seconds.
        """
        late = ""
        try:
            async with asyncio.timeout(patience):
                while late := self._progress.late(revisions, history):
                    await self._progress.changed().wait()
        except TimeoutError as exc:
            raise SwitchUnavailable(f"policies are not in force on this host yet: {late}") from exc
