"""Keys, values and revisions in memory, and the watches on them.

`MemoryStore` is the truth that all clients of one store share. `Reader` is one watch: what its
client has not been given yet.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.errors import NotFound
from objdb.api import (
    Absent,
    Change,
    Committed,
    Delete,
    Delta,
    Entry,
    Lease,
    Outcome,
    Put,
    Refused,
    Snapshot,
)
from objdb.memory.faults import Faults
from objdb.memory.leases import MemoryLease


@dataclass(frozen=True, slots=True)
class _Kept:
    """A value at rest."""

    entry: Entry
    created: int
    lease: MemoryLease | None


class MemoryStore:
    """One store."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._rev = 1
        self._readers: set[Reader] = set()

    def get(self, key: str) -> Entry | None:
        """Return a key's entry."""
        kept = self._kept.get(key)
        return kept.entry if kept else None

    def created(self, key: str) -> int:
        """Return the revision at which a key was created; 0 if it is absent."""
        kept = self._kept.get(key)
        return kept.created if kept else 0

    def snapshot(self, prefix: str) -> Snapshot:
        """Return everything under a prefix."""
        found = {key: kept.entry for key, kept in self._kept.items() if key.startswith(prefix)}
        return Snapshot(self._rev, found)

    def apply(self, changes: Sequence[Change], *, silent_rewrites: bool = False) -> list[Outcome]:
        """Apply the changes whose checks hold in the state before all of them."""
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
            before = self._kept.get(op.key)
            if isinstance(op, Put):
                entry = self._put(op, before)
                if not (silent_rewrites and before and before.entry.value == op.value):
                    puts.append(entry)
            elif before:
                del self._kept[op.key]
                deletes.append(op.key)
        self._tell(Delta(self._rev, tuple(puts), tuple(deletes)))
        return [refused or Committed(self._rev) for refused in refusals]

    def drop(self, lease: MemoryLease) -> None:
        """Delete every key that hangs on a lease."""
        gone = [key for key, kept in self._kept.items() if kept.lease is lease]
        self.apply([Change((), tuple(Delete(key) for key in gone))])

    def lose_continuity(self) -> None:
        """Make every watch go on with a snapshot, as after a compaction."""
        for reader in self._readers:
            reader.resync()

    def follow(self, prefix: str, faults: Faults) -> "Reader":
        """Return a new reader of what happens under a prefix."""
        reader = Reader(self, prefix, faults)
        self._readers.add(reader)
        return reader

    def leave(self, reader: "Reader") -> None:
        """Forget a reader."""
        self._readers.discard(reader)

    def _refusal(self, change: Change) -> Refused | None:
        for check in change.checks:
            current = self.get(check.key)
            holds = (
                current is None
                if isinstance(check, Absent)
                else current is not None and current.rev == check.rev
            )
            if not holds:
                return Refused(check, current)
        return None

    def _put(self, op: Put, before: _Kept | None) -> Entry:
        entry = Entry(op.key, op.value, self._rev)
        lease = None if op.lease is None else _own(op.lease)
        self._kept[op.key] = _Kept(entry, before.created if before else self._rev, lease)
        return entry

    def _tell(self, delta: Delta) -> None:
        for reader in self._readers:
            reader.tell(delta)


class Reader:
    """One watch; its first item is a snapshot."""

    def __init__(self, store: MemoryStore, prefix: str, faults: Faults) -> None:
        self._store = store
        self._prefix = prefix
        self._faults = faults
        self._pending: deque[Delta] = deque()
        self._resync = True
        self._closed = False
        self._news = asyncio.Event()
        self._news.set()

    def tell(self, delta: Delta) -> None:
        """Take note of a change, if it concerns the prefix."""
        puts = tuple(entry for entry in delta.puts if entry.key.startswith(self._prefix))
        deletes = tuple(key for key in delta.deletes if key.startswith(self._prefix))
        if puts or deletes:
            self._pending.append(Delta(delta.rev, puts, deletes))
            self._news.set()

    def resync(self) -> None:
        """Go on with a snapshot."""
        self._resync = True
        self._news.set()

    def close(self) -> None:
        """Make `next` return None."""
        self._closed = True
        self._news.set()

    async def next(self) -> Snapshot | Delta | None:
        """Wait for news and return them; None once closed."""
        await self._news.wait()
        await asyncio.sleep(self._faults.delay)
        await self._faults.reachable.wait()
        if self._closed:
            return None
        item = self._snapshot() if self._resync else self._delta()
        if not self._pending:
            self._news.clear()
        return item

    def _snapshot(self) -> Snapshot:
        self._resync = False
        self._pending.clear()
        return self._store.snapshot(self._prefix)

    def _delta(self) -> Delta:
        if not self._faults.coalesce:
            return self._pending.popleft()
        delta = merged(self._pending)
        self._pending.clear()
        return delta


def merged(deltas: Iterable[Delta]) -> Delta:
    """Return several deltas as one: each key once, with its last state."""
    last: dict[str, Entry | None] = {}
    rev = 0
    for delta in deltas:
        rev = delta.rev
        last |= {entry.key: entry for entry in delta.puts}
        last |= dict.fromkeys(delta.deletes)
    return Delta(
        rev,
        tuple(entry for entry in last.values() if entry is not None),
        tuple(key for key, entry in last.items() if entry is None),
    )


def _own(lease: Lease) -> MemoryLease:
    if not isinstance(lease, MemoryLease):
        raise TypeError("the lease is another backend's")
    return lease
