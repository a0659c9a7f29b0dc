"""What the project asks of a store, and what every backend promises (ADR 9 and ADR 11).

A backend is etcd (`objdb.etcd`), consul (`objdb.consul`) or memory (`objdb.memory`); one contract
suite (`tests/contract`) holds all of them to this page. The promises are the weaker of what etcd
and consul can give (docs/notes/stores.md §3), so code above relies on states, never on
seeing every event.

* Keys are text that starts with "/"; prefixes end with "/". Values are bytes, "" allowed.
* `rev` is an opaque whole number: equal means unchanged, it grows per key. Revisions of
  different keys may be compared for equality only: all writes of one commit share one. The `rev`
  of a watch's last news may be compared with that of a commit: it has reached it if and only if
  all that the commit changed under the watch's prefix has been told.
* A commit applies each `Change` wholly or not at all; the refusal of one does not touch the
  others. Checks see the state before the commit. A commit puts or deletes a key at most once; the
  caller keeps to that and to `Limits` (`split` helps, `admit` refuses the rest).
* A fenced commit fails with `FenceLost` once the lock's holder has changed, for ever, and then
  writes nothing.
* Every call either answers or raises within its time budget: `StoreUnavailable`, `StoreDenied`,
  `FenceLost`, `TooLarge` of `core.errors`, never a client library's error. A put under a lease
  that has ended raises `NotFound` and writes nothing.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.errors import TooLarge


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value and revision."""

    key: str
    value: bytes
    rev: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything under a prefix at one moment; the first item of a watch, and again after a gap.

    A later snapshot means continuity was lost: what it lacks has been deleted meanwhile.
    """

    rev: int
    entries: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed under a prefix, of one or more whole revisions, each key with its last state.

    Never older, per key, than what was seen before.
    """

    rev: int
    puts: tuple[Entry, ...]
    deletes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """Check: the key does not exist."""

    key: str


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Check: the key exists and still has this revision."""

    key: str
    rev: int


@dataclass(frozen=True, slots=True)
class Put:
    """Operation: set a key. With a lease the key vanishes when the lease ends."""

    key: str
    value: bytes
    lease: "Lease | None" = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Operation: remove a key; removing an absent key is fine."""

    key: str


@dataclass(frozen=True, slots=True)
class Change:
    """Operations that are applied together if all checks hold, else not at all."""

    checks: tuple[Absent | Unchanged, ...]
    ops: tuple[Put | Delete, ...]

    def keys(self) -> set[str]:
        """Return every key the change puts or deletes."""
        return {op.key for op in self.ops}


@dataclass(frozen=True, slots=True)
class Committed:
    """A change was applied; `rev` is the revision of all keys it put."""

    rev: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A check of the change did not hold: which one, and what the store has instead."""

    culprit: Absent | Unchanged
    current: Entry | None


Outcome = Committed | Refused


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof of holding a lock at a moment: commits made with it fail once the holder changed."""

    key: str
    token: int | str


def nested(change: Change) -> tuple[int, int]:
    """Return the cost of a change that is a transaction of its own inside the commit (etcd)."""
    return 1, max(len(change.ops), len(change.checks))


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one commit may hold.

    `cost` tells of a change what it adds to the commit, and how wide it is by itself; the sum of
    the former and the widest of the latter are within `budget`, keys and values within `bytes`.
    """

    budget: int
    bytes: int
    cost: Callable[[Change], tuple[int, int]] = nested


class Lease(Protocol):
    """A promise to be alive, kept by renewals that heavy work in the event loop cannot starve."""

    @property
    def ttl(self) -> float:
        """Seconds the store waits for a renewal before it drops the lease."""

    @property
    def valid_until(self) -> float:
        """Monotonic time until which the lease certainly holds.

        Counted from before the last successful renewal was *sent*; `time.monotonic()` past this
        means that somebody else may act already.
        """

    async def lost(self) -> None:
        """Return when the lease has ended or can no longer be relied on."""

    async def revoke(self) -> None:
        """End the lease now; its keys vanish. Idempotent, best effort when the store is away."""


class Lock(Protocol):
    """Mutual exclusion by name; the holder's text (an address) can be read by everybody."""

    async def acquire(self) -> Fence:
        """Wait until the lock is ours and return the fence for commits.

        Waiting is by watch, outages are waited out. May be called again after `lost` or `release`:
        each term has its own fence. Raises StoreDenied when refused.
        """

    @property
    def valid_until(self) -> float:
        """As `Lease.valid_until`; 0.0 while the lock is not held."""

    async def lost(self) -> None:
        """Return when the lock is no longer ours (not for `release`)."""

    async def release(self) -> None:
        """Give the lock up at once; a waiter gets it without waiting for the lease to end.

        Idempotent; best effort when the store is away, where the lease ends by itself.
        """

    async def holder(self) -> str | None:
        """Return the holder's text as the store has it now; None if nobody holds the lock."""


class Backend(Protocol):
    """One store."""

    limits: Limits

    async def get(self, key: str) -> Entry | None:
        """Return the key as of now (linearizable); None if absent."""

    async def snapshot(self, prefix: str) -> Snapshot:
        """Return everything under the prefix at one revision, however much it is."""

    async def commit(
        self, changes: Sequence[Change], *, fence: Fence | None = None, writer: str | None = None
    ) -> "list[Outcome]":
        """Apply changes and return one outcome for each, in order.

        With a `writer` (a name no other process uses at the same time, one commit in flight) an
        unknown outcome is resolved inside: the commit is applied at most once and its true
        outcome returned, for as long as the store answers within the budget; else it raises
        StoreUnavailable(outcome_unknown=True). Then the commit may still arrive late; the writer's
        next commit ends that, and an empty one does so without changing anything.

        Without a writer, a commit whose outcome is unknown raises
        StoreUnavailable(outcome_unknown=True) if it has checks, and is sent again if it has none.
        A late copy of the latter may overwrite what was written after it: use checks where that
        matters.
        """

    def watch(self, prefix: str) -> AsyncIterator[Snapshot | Delta]:
        """Yield a Snapshot, then Deltas, and another Snapshot whenever continuity was lost.

        Ends only when closed; outages are waited out. Raises StoreDenied when refused.
        """

    async def lease(self, ttl: float) -> Lease:
        """Return a new lease that keeps itself alive until revoked or lost."""

    def lock(self, name: str, holder: str, ttl: float) -> Lock:
        """Return the lock whose key is `name` (from `core.keys`); `holder` is its value."""

    async def forget(self, older_than: float) -> None:
        """Drop the history older than so many seconds, for ever; a store without one waits.

        To be run by one process at a time. Watches that hang behind resume with a snapshot.
        """

    async def close(self) -> None:
        """Stop renewals and watches and close connections. Leases end by themselves."""


def split(changes: Iterable[Change], limits: Limits) -> list[list[Change]]:
    """Cut changes, in order, into commits that hold no key twice and stay within the limits.

    A single change beyond the limits is returned alone; the backend refuses it as TooLarge.
    """
    groups: list[list[Change]] = []
    keys: set[str] = set()
    used = width = size = 0
    for change in changes:
        touched = change.keys() | {check.key for check in change.checks}
        added, wide = limits.cost(change)
        weight = _weight(change)
        full = (
            not groups
            or not keys.isdisjoint(touched)
            or used + added + max(width, wide) > limits.budget
            or size + weight > limits.bytes
        )
        if full:
            groups.append([])
            keys, used, width, size = set(), 0, 0, 0
        groups[-1].append(change)
        keys |= touched
        used, width, size = used + added, max(width, wide), size + weight
    return groups


def admit(changes: Sequence[Change], limits: Limits) -> None:
    """Refuse what no backend takes: TooLarge beyond the limits, ValueError for a key twice."""
    costs = [limits.cost(change) for change in changes]
    needed = sum(added for added, _ in costs) + max((wide for _, wide in costs), default=0)
    if needed > limits.budget:
        raise TooLarge(
            f"{len(changes)} changes need {needed} operations, the store takes {limits.budget}"
        )
    size = sum(_weight(change) for change in changes)
    if size > limits.bytes:
        raise TooLarge(f"a commit of {size} bytes exceeds the store's {limits.bytes}")
    seen: set[str] = set()
    for change in changes:
        for op in change.ops:
            if op.key in seen:
                raise ValueError(f"a commit holds {op.key} twice")
            seen.add(op.key)


def _weight(change: Change) -> int:
    return sum(len(op.key) + (len(op.value) if isinstance(op, Put) else 0) for op in change.ops)
