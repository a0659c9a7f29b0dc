"""Several watched prefixes as one queue of typed events.

Takes the snapshots and deltas of `objdb`, one stream per prefix, and delivers the changes of
records to one reader. `state.intents` decodes the values. With a `state.watch_scope`, endpoints
that concern no pod of this host are neither decoded nor kept. Next is the agent's
`netplugin.bridges.record_events`.

Unknown keys and undecodable values are logged and counted.
"""

import asyncio
import logging
import random
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from core import keys
from core.errors import Invalid, StoreUnavailable
from core.ids import NetworkId, endpoint_key
from core.logs import fields
from core.retry import REMOTE, STORE, Loop, Pace, retry
from objdb.api import Backend, Delta, Entry, Snapshot
from state import intents
from state.intents import Fact
from state.lineage import Lineage
from state.records import EndpointRecord
from state.watch_scope import WatchScope

log = logging.getLogger(__name__)

# The queue has each key at most once: `_pending` holds the record that the reader knew when the key
# first changed, `_current` the record now. An event is the difference of the two when it is taken.
# So a slow reader costs memory for as many keys as the store has, not for each change, and a key
# that changes and changes back causes no event.
#
# A resync (a later snapshot after lost events) has no delete events. What the snapshot lacks was
# deleted, so it is compared with all keys known under its prefix, undecodable ones included.
#
# `StoreRolledBack` comes before all changes that are not taken yet, and thus before any of its
# history: an agent must not take a revision of the old history for one of the new.
#
# The lineage (`state.lineage`) is read before all else. When it has a new term, it shows which
# prefixes were read further than what this history shares with the last one known. A watch may not
# have noticed, or not yet, that the store went back: those prefixes are read anew. The revision of
# a snapshot may be beyond the last commit, so a change of leader alone may cause that as well.
#
# `SyncedTo` follows the changes that it covers: a reader that has taken SyncedTo(prefix, rev) has
# all changes under that prefix up to `rev`. It is queued anew behind each item, never left in
# place. Each prefix has its own stream and its own revision; a prefix without changes keeps an old
# one.
#
# A value that cannot be decoded leaves the last good record in force until the key is deleted. One
# bad write must not remove a network from a host while its pods use it.
#
# With a scope, an item that brings a network of interest is followed by a read of the endpoints on
# that network, before `SyncedTo` says that the item is delivered: who waits for the revision of a
# new pod's endpoint has all endpoints that the pod may meet. No item is applied meanwhile
# (`_applying`), so that no change that was read is undone by an older one for good: what the watch
# delivers after the read may be older than it, but all up to what was read is delivered in the end.
#
# A snapshot of the endpoints has those on the networks alone that were held when its reading began
# (`_read_of`); those that came to be held meanwhile are read again. So a restart reads what the
# host's pods may meet, and not the cluster. Endpoints of this host on other networks are of pods
# that no journal knows, and have no port. They have to be released, which is not urgent: they are
# looked for among all endpoints a while after each snapshot, and then their networks are held. The
# look takes seconds and may be older than what the watch has delivered meanwhile, so it only names
# keys, and each is read again.

AGENT_PREFIXES: Final = (
    keys.MASTER_CONFIG,
    keys.NETWORKS,
    keys.GROUPS,
    keys.HOSTS,
    keys.GROUP_OBJECTS,
    keys.PROFILE_OBJECTS,
    keys.ACI_LAUNCHES,
    keys.RULES,
    keys.SERVICE_LBS,
    keys.BGPS,
    keys.ENDPOINTS,
)
"""The prefixes that an agent watches."""

_SLICE: Final = 500
"""Records decoded before the event loop runs other tasks."""

LOOK_AFTER: Final = 30.0
"""Seconds from a snapshot to the look for endpoints of this host elsewhere; at most twice that.

So in a cluster of up to `_HOSTS_AT_ONCE` hosts; with more of them it grows in proportion.
"""

_HOSTS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Changed:
    """A record is new or changed; `previous` is the one that the reader knew."""

    key: str
    record: Fact
    previous: Fact | None


@dataclass(frozen=True, slots=True)
class Removed:
    """A record was deleted; `record` is the one that the reader knew."""

    key: str
    record: Fact


@dataclass(frozen=True, slots=True)
class SyncedTo:
    """All changes under a prefix up to a revision have been delivered.

    The first one of a prefix means that its snapshot has been delivered.
    """

    prefix: str
    rev: int


@dataclass(frozen=True, slots=True)
class StoreRolledBack:
    """The store has another history: revisions of a prefix that were reached mean nothing.

    The changes and `SyncedTo` of the new history follow.
    """

    prefix: str


@dataclass(frozen=True, slots=True)
class HistoryUnverified:
    """The revisions of a prefix that were reached may be of another history: they mean nothing.

    The prefix is read anew; its changes and `SyncedTo` follow.
    """

    prefix: str


@dataclass(frozen=True, slots=True)
class ScopeChanged:
    """The networks of which this host holds the endpoints; of others it has its own alone."""

    networks: frozenset[NetworkId]


Event = Changed | Removed | SyncedTo | StoreRolledBack | HistoryUnverified | ScopeChanged


def _on(nid: NetworkId) -> str:
    """Return how the keys of a network's endpoints begin, and maybe some of others."""
    return keys.endpoint(endpoint_key(nid, ""))


def _all_on(networks: Iterable[NetworkId]) -> list[str]:
    """Return the same of several networks, in order."""
    return [_on(nid) for nid in sorted(networks)]


_SLOWLY: Final = Pace(0.5, 10.0)
"""Of what reads all endpoints of the cluster."""


def _reading(what: str, pace: Pace) -> Loop:
    return Loop(
        log,
        "store unavailable",
        about=what,
        pace=pace,
        errors=StoreUnavailable,
        patience=REMOTE,
        vital=True,
    )


class RecordFeed:
    """Watches prefixes for one reader; run `run` as a supervised task, read with `take`.

    With a `scope` it holds the endpoints of the networks that concern the host, and of those that
    did until `release`; without, all.
    """

    def __init__(
        self,
        backend: Backend,
        prefixes: Sequence[str] = AGENT_PREFIXES,
        scope: WatchScope | None = None,
        *,
        look_after: float = LOOK_AFTER,
    ) -> None:
        self._backend = backend
        self._prefixes = tuple(prefixes)
        self._current: dict[str, Fact] = {}
        self._pending: dict[str, Fact | SyncedTo | None] = {}
        self._rewound: dict[str, StoreRolledBack | HistoryUnverified] = {}
        self._reached: dict[str, int] = {}
        self._lineage = Lineage()
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._scope = scope
        self._held: frozenset[NetworkId] = frozenset()
        self._told: frozenset[NetworkId] | None = None
        self._read_of: frozenset[NetworkId] = frozenset()
        self._look_after = look_after
        self._look_due = asyncio.Event()
        self._endpoints_read = False
        self._networks_read = asyncio.Event()
        self._applying = asyncio.Lock()
        self._changed = asyncio.Event()
        self._lineage_read = asyncio.Event()
        self._unread = set(prefixes)
        self.unknown = 0
        """Number of values under unknown keys."""
        self.undecodable = 0
        """Number of undecodable values."""
        self.unreadable: dict[str, str] = {}
        """The keys with an undecodable value now -> reason."""

    @property
    def complete(self) -> bool:
        """True once the snapshots of all prefixes have been taken by the reader."""
        return not self._unread

    @property
    def waiting(self) -> int:
        """How many keys and revisions were read and not taken yet."""
        return len(self._pending)

    @property
    def records(self) -> Mapping[str, Fact]:
        """The last good record of every key, including changes that are not taken yet."""
        return self._current

    async def run(self) -> None:
        """Watch all prefixes until cancelled."""
        async with asyncio.TaskGroup() as group:
            first = keys.MASTER_CONFIG if keys.MASTER_CONFIG in self._prefixes else None
            if first:
                self._watch(group, first)
                await self._lineage_read.wait()
            for prefix in self._prefixes:
                if prefix == keys.ENDPOINTS and self._scope is not None:
                    continue
                if prefix != first:
                    self._watch(group, prefix)
            if self._scope is not None:
                await self._networks_read.wait()
                self._held = self._scope.networks
                self._watch(group, keys.ENDPOINTS)
                group.create_task(self._look_elsewhere(self._scope), name="endpoints elsewhere")

    def _watch(self, group: asyncio.TaskGroup, prefix: str) -> None:
        """Watch a prefix, in place of its watch before."""
        if prefix in self._watches:
            self._watches[prefix].cancel()
        self._watches[prefix] = group.create_task(
            self._follow(group, prefix), name=f"watch {prefix}"
        )

    async def take(self, limit: int = 5000) -> list[Event]:
        """Wait for events and return at most `limit` of them, in order."""
        while True:
            await self._changed.wait()
            events: list[Event] = [*self._rewound.values()]
            self._rewound.clear()
            if self._scope is not None and self._told != self._held:
                self._told = self._held
                events.append(ScopeChanged(self._held))
            events += [event for key in self._first(limit) if (event := self._event(key))]
            if not self._pending:
                self._changed.clear()
            if events:
                return events

    def _first(self, limit: int) -> list[str]:
        return [key for key, _ in zip(self._pending, range(limit), strict=False)]

    def _event(self, key: str) -> Event | None:
        """Take a key off the queue; None if its record is as the reader knew it."""
        known = self._pending.pop(key)
        if isinstance(known, SyncedTo):
            self._unread.discard(known.prefix)
            return known
        record = self._current.get(key)
        if record is not None:
            return None if record == known else Changed(key, record, known)
        return None if known is None else Removed(key, known)

    async def _follow(self, group: asyncio.TaskGroup, prefix: str) -> None:
        parts = self._parts if self._in_parts(prefix) else None
        async for item in self._backend.watch(prefix, parts=parts):
            async with self._applying:
                await self._apply(prefix, item)
            rev = item.rev
            del item  # a snapshot would be kept, value by value, until the next change
            doubted = self._doubted() if prefix == keys.MASTER_CONFIG else ()
            for one in doubted:
                log.info("store history changed, resyncing", extra=fields(key=one))
                self._forget(one, HistoryUnverified(one))
                self._watch(group, one)
            if prefix in doubted:
                return  # its place has been taken
            self._pending.pop(prefix, None)  # requeued behind the changes of this item
            self._pending[prefix] = SyncedTo(prefix, rev)
            self._reached[prefix] = rev
            self._changed.set()
            self._lineage_read.set()
            if prefix == keys.NETWORKS:
                self._networks_read.set()

    async def _apply(self, prefix: str, item: Snapshot | Delta) -> None:
        match item:
            case Snapshot():
                if item.rewound:
                    self._on_rewound(prefix)
                await self._resync(prefix, item)
            case Delta():
                await self._put_all(item.puts)
                self._remove_all(item.deletes)
        if self._scope is None:
            return
        if prefix == keys.ENDPOINTS and isinstance(item, Snapshot):
            self._set_held(self._read_of)
            self._endpoints_read = True
            self._look_due.set()
            # A pod that came while the snapshot was read may be in it, and its network not. The
            # journal has it before the store.
            self._scope.refresh()
        if self._endpoints_read:
            await self._hold(self._scope.networks)

    def _on_rewound(self, prefix: str) -> None:
        log.warning("store was rolled back", extra=fields(key=prefix))
        self._forget(prefix, StoreRolledBack(prefix))

    def _forget(self, prefix: str, event: StoreRolledBack | HistoryUnverified) -> None:
        """Forget what was reached of a prefix, and tell the reader before all else."""
        self._reached.pop(prefix, None)
        self._pending.pop(prefix, None)
        if not isinstance(self._rewound.get(prefix), StoreRolledBack):
            self._rewound[prefix] = event
        self._changed.set()

    def _doubted(self) -> list[str]:
        """Take over the lineage; return the prefixes that were read further than is shared."""
        now = self._current.get(keys.LINEAGE)
        if not isinstance(now, Lineage):
            return []
        known, self._lineage = self._lineage.current, now
        shared = now.shared_until(known) if known else None
        if shared is None:
            return []
        return [prefix for prefix, rev in self._reached.items() if rev > shared]

    async def _resync(self, prefix: str, item: Snapshot) -> None:
        known = [*self._current, *self.unreadable]
        read = tuple(_all_on(self._read_of)) if self._in_parts(prefix) else (prefix,)
        self._remove_all(key for key in known if key.startswith(read) and key not in item.entries)
        await self._put_all(item.drain())

    async def _put_all(
        self, entries: Iterable[Entry], more: frozenset[NetworkId] = frozenset()
    ) -> None:
        """Put records; endpoints if they are held, or on one of `more` networks."""
        for number, entry in enumerate(entries, start=1):
            if not self._may_hold(entry, more):
                self._remove_all([entry.key])  # it may have been this host's
            elif (record := self._decoded(entry)) is not None:
                self._put(entry.key, record, more)
            if number % _SLICE == 0:
                await asyncio.sleep(0)

    def _put(self, key: str, record: Fact, more: frozenset[NetworkId]) -> None:
        if self._scope is not None:
            if isinstance(record, EndpointRecord) and not self._scope.holds(
                record, self._held | more
            ):
                self._remove_all([key])
                return
            self._scope.put(record)
        self._mark(key)
        self._current[key] = record

    def _remove_all(self, gone: Iterable[str]) -> None:
        for key in gone:
            self.unreadable.pop(key, None)
            if key in self._current:
                self._mark(key)
                record = self._current.pop(key)
                if self._scope is not None:
                    self._scope.remove(record)

    def _mark(self, key: str) -> None:
        """Queue a key that is about to change, with the record that the reader knows."""
        self._pending.setdefault(key, self._current.get(key))
        self._changed.set()

    # -- what concerns this host ---------------------------------------------------------------

    @property
    def held(self) -> frozenset[NetworkId]:
        """The networks whose endpoints are held; without a scope, none."""
        return self._held

    async def extend(self) -> None:
        """Read the endpoints of networks that concern this host and are not held yet."""
        if self._scope is not None and self._endpoints_read:
            async with self._applying:
                await self._hold(self._scope.networks)

    async def release(self, networks: Set[NetworkId]) -> None:
        """Drop the endpoints of networks that concern this host no more, but its own."""
        if self._scope is None:
            return
        async with self._applying:
            gone = networks - self._scope.networks
            self._set_held(self._held - gone)
            self._remove_all(
                [
                    key
                    for key, record in self._current.items()
                    if isinstance(record, EndpointRecord)
                    and record.network in gone
                    and not self._scope.holds(record, self._held)
                ]
            )

    async def _hold(self, networks: frozenset[NetworkId]) -> None:
        """Read the endpoints of networks that are not held yet, and hold these as well."""
        for nid in sorted(networks - self._held):
            more = frozenset({nid})
            entries = (await self._on_network(nid)).entries
            self._remove_all(
                [
                    key
                    for key, record in self._current.items()
                    if isinstance(record, EndpointRecord)
                    and record.network == nid
                    and key not in entries
                ]
            )
            await self._put_all(entries.values(), more)
            self._set_held(self._held | more)

    async def _on_network(self, nid: NetworkId) -> Snapshot:
        """Return all endpoints of a network, and maybe some of others."""
        return await retry(_reading(nid, STORE), lambda: self._backend.snapshot(_on(nid)))

    def _set_held(self, networks: frozenset[NetworkId]) -> None:
        self._held = networks
        self._changed.set()

    def _parts(self) -> list[str]:
        """Return what the next snapshot of the endpoints shall have, which begins to be read."""
        self._read_of = self._held
        return _all_on(self._read_of)

    def _in_parts(self, prefix: str) -> bool:
        """Return whether snapshots of a prefix have parts of it: endpoints, with a scope."""
        return prefix == keys.ENDPOINTS and self._scope is not None

    async def _look_elsewhere(self, scope: WatchScope) -> None:
        """Find endpoints of this host on networks that are not held, after each snapshot."""
        while True:
            await self._look_due.wait()
            self._look_due.clear()
            # Not all hosts at once: each reads all endpoints, which are many where hosts are many.
            hosts = sum(key.startswith(keys.HOSTS) for key in self._current)
            spread = max(1.0, hosts / _HOSTS_AT_ONCE) * random.uniform(1, 2)  # noqa: S311 - no secret
            await asyncio.sleep(self._look_after * spread)
            await retry(_reading("networks elsewhere", _SLOWLY), lambda: self._look(scope))

    async def _look(self, scope: WatchScope) -> None:
        found = await self._backend.snapshot(keys.ENDPOINTS, lambda _, value: scope.names(value))
        async with self._applying:
            for key in sorted(found.entries.keys() - self._current.keys()):
                if (entry := await self._backend.get(key)) is not None:
                    await self._put_all([entry])
            await self._hold(scope.networks)

    def _may_hold(self, entry: Entry, more: frozenset[NetworkId]) -> bool:
        if self._scope is None or not entry.key.startswith(keys.ENDPOINTS):
            return True
        return self._scope.may_hold(entry.key, entry.value, self._held | more)

    def _decoded(self, entry: Entry) -> Fact | None:
        try:
            record = intents.decode(entry.key, entry.value)
        except Invalid as exc:
            self.undecodable += 1
            self.unreadable[entry.key] = str(exc)
            log.warning("record not decodable", extra=fields(key=entry.key, error=str(exc)))
            return None
        self.unreadable.pop(entry.key, None)
        if record is None:
            self.unknown += 1
            log.warning("unknown key, ignored", extra=fields(key=entry.key))
        return record
