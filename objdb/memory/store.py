"""Keys, values and revisions in memory, and the watches on them.

`MemoryStore` is shared by all clients of one store. `Reader` is one watch with the items that its
client has not taken yet.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from core.errors import NotFound
from objdb.api import (
    Change,
    Committed,
    Delete,
    Delta,
    Entry,
    Lease,
    Outcome,
    Parts,
    Put,
    Refused,
    Snapshot,
    delta_of,
    holds,
    under,
)
from objdb.memory.faults import Faults
from objdb.memory.leases import MemoryLease


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored entry with its create revision and lease."""

    entry: Entry
    created: int
    lease: MemoryLease | None


@dataclass(frozen=True, slots=True)
class SavedState:
    """What a store held at a revision."""

    stored: Mapping[str, _Stored]
    rev: int


class MemoryStore:
    """One store."""

    def __init__(self) -> None:
        self._stored: dict[str, _Stored] = {}
        self._rev = 1
        self.restores = 0
        """How often the store went back."""
        self._readers: set[Reader] = set()

    def get(self, key: str) -> Entry | None:
        """Return a key's entry."""
        stored = self._stored.get(key)
        return stored.entry if stored else None

    def created(self, key: str) -> int:
        """Return the revision at which a key was created; 0 if it is absent."""
        stored = self._stored.get(key)
        return stored.created if stored else 0

    def snapshot(self, prefix: str) -> Snapshot:
        """Return everything under a prefix."""
        found = {
            key: stored.entry for key, stored in self._stored.items() if key.startswith(prefix)
        }
        return Snapshot(self._rev, found)

    def apply(self, changes: Sequence[Change], *, silent_rewrites: bool = False) -> list[Outcome]:
        """Apply the changes whose checks hold in the state before all of them."""
        # All checks first, as in etcd and consul: a check never sees another change of the commit.
        refusals = [self._refusal(change) for change in changes]
        ops = [
            op
            for change, refused in zip(changes, refusals, strict=True)
            if refused is None
            for op in change.ops
        ]
        for op in ops:
            if isinstance(op, Put) and op.lease is not None and _own(op.lease).ended:
                raise NotFound(f"{op.key}: the lease has ended")
        self._rev += 1
        puts: list[Entry] = []
        deletes: list[str] = []
        for op in ops:
            before = self._stored.get(op.key)
            if isinstance(op, Put):
                entry = self._put(op, before)
                if not (silent_rewrites and before and before.entry.value == op.value):
                    puts.append(entry)
            elif before:
                del self._stored[op.key]
                deletes.append(op.key)
        self._notify(Delta(self._rev, tuple(puts), tuple(deletes)))
        return [refused or Committed(self._rev) for refused in refusals]

    def drop(self, lease: MemoryLease) -> None:
        """Delete every key of a lease."""
        gone = [key for key, stored in self._stored.items() if stored.lease is lease]
        self.apply([Change((), tuple(Delete(key) for key in gone))])

    def lose_continuity(self) -> None:
        """Make every watch continue with a snapshot, as after a compaction."""
        for reader in self._readers:
            reader.resync()

    def save(self) -> SavedState:
        """Return what the store holds, for `restore`."""
        return SavedState(dict(self._stored), self._rev)

    def restore(self, saved: SavedState, *, further: int = 0) -> None:
        """Go back to a saved state, `further` commits on when clients see it."""
        self.restores += 1
        self._stored = dict(saved.stored)
        self._rev = saved.rev + further
        for reader in self._readers:
            reader.resync(rewound=True)

    def subscribe(self, prefix: str, faults: Faults, parts: Parts | None = None) -> "Reader":
        """Return a new reader of the changes under a prefix; its snapshots have these parts."""
        reader = Reader(self, prefix, faults, parts)
        self._readers.add(reader)
        return reader

    def unsubscribe(self, reader: "Reader") -> None:
        """Remove a reader."""
        self._readers.discard(reader)

    def _refusal(self, change: Change) -> Refused | None:
        for check in change.checks:
            current = self.get(check.key)
            if not holds(check, current):
                return Refused(check, current)
        return None

    def _put(self, op: Put, before: _Stored | None) -> Entry:
        entry = Entry(op.key, op.value, self._rev)
        lease = None if op.lease is None else _own(op.lease)
        self._stored[op.key] = _Stored(entry, before.created if before else self._rev, lease)
        return entry

    def _notify(self, delta: Delta) -> None:
        for reader in self._readers:
            reader.on_delta(delta)


class Reader:
    """One watch; its first item is a snapshot."""

    def __init__(
        self, store: MemoryStore, prefix: str, faults: Faults, parts: Parts | None
    ) -> None:
        self._parts = parts
        self._store = store
        self._prefix = prefix
        self._faults = faults
        self._pending: deque[Delta] = deque()
        self._resync = True
        self._rewound = False
        self._started = False
        self._closed = False
        self._ready = asyncio.Event()
        self._ready.set()

    def on_delta(self, delta: Delta) -> None:
        """Queue the part of a delta that is under the prefix."""
        puts = tuple(entry for entry in delta.puts if entry.key.startswith(self._prefix))
        deletes = tuple(key for key in delta.deletes if key.startswith(self._prefix))
        if puts or deletes:
            self._pending.append(Delta(delta.rev, puts, deletes))
            self._ready.set()

    def resync(self, *, rewound: bool = False) -> None:
        """Continue with a snapshot."""
        self._rewound = self._rewound or (rewound and self._started)
        self._resync = True
        self._ready.set()

    def close(self) -> None:
        """Make `next` return None."""
        self._closed = True
        self._ready.set()

    async def next(self) -> Snapshot | Delta | None:
        """Wait for the next item and return it; None once closed."""
        await self._ready.wait()
        await asyncio.sleep(self._faults.delay)
        await self._faults.reachable.wait()
        if self._closed:
            return None
        item = self._snapshot() if self._resync else self._delta()
        if not self._pending:
            self._ready.clear()
        return item

    def _snapshot(self) -> Snapshot:
        # The snapshot contains the queued deltas; delivered after it they would go back in time.
        self._resync, rewound = False, self._rewound
        self._rewound, self._started = False, True
        self._pending.clear()
        found = self._store.snapshot(self._prefix)
        return replace(under(found, self._parts), rewound=rewound)

    def _delta(self) -> Delta:
        if not self._faults.coalesce:
            return self._pending.popleft()
        delta = merged(self._pending)
        self._pending.clear()
        return delta


def merged(deltas: Iterable[Delta]) -> Delta:
    """Merge deltas into one: each key once, with its last state."""
    last: dict[str, Entry | None] = {}
    rev = 0
    for delta in deltas:
        rev = delta.rev
        last |= {entry.key: entry for entry in delta.puts}
        last |= dict.fromkeys(delta.deletes)
    return delta_of(rev, last)


def _own(lease: Lease) -> MemoryLease:
    if not isinstance(lease, MemoryLease):
        raise TypeError("the lease is another backend's")
    return lease
