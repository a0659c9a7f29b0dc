"""The store protocol: what every backend guarantees (ADR 9 and ADR 11).

A backend is etcd (`objdb.etcd`), consul (`objdb.consul`) or memory (`objdb.memory`); one contract
suite (`tests/contract`) tests all of them against this page. The guarantees are those that both
etcd and consul can give (docs/notes/stores.md §3): callers rely on states, never on seeing
every event.

* Keys are text that starts with "/"; prefixes of watches end with "/". Values are bytes, ""
  allowed.
* `rev` is an opaque whole number: equal means unchanged, it grows per key. Revisions of
  different keys may be compared for equality only: all writes of one commit share one. The `rev`
  of a watch's last item may be compared with that of a commit: it is at least that high if and
  only if the watch has delivered all that the commit changed under its prefix.
* A commit applies each `Change` wholly or not at all; the refusal of one does not touch the
  others. Checks see the state before the commit. A commit puts or deletes a key at most once; the
  caller ensures that and the `Limits` (`split` helps, `admit` refuses violations).
* A fenced commit fails with `FenceLost` once the lock's holder has changed, and from then on
  always; it writes nothing. It fails with `StoreRewound`, a `FenceLost`, if the writer's last
  commit shows that the store went back.
* Every call either answers or raises within its time budget: `StoreUnavailable`, `StoreDenied`,
  `FenceLost`, `TooLarge` of `core.errors`, never a client library's error. A put under a lease
  that has ended raises `NotFound` and writes nothing.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """Everything under a prefix at one revision; the first item of a watch, repeated after a gap.

    A later snapshot means that events were lost: keys it lacks have been deleted meanwhile, or are
    under none of the parts that the watch reads. If it is `rewound`, the store has another history
    than before, as after a restore from a backup: revisions known earlier mean nothing.
    """

    rev: int
    entries: dict[str, Entry]
    rewound: bool = False

    def drain(self) -> Iterator[Entry]:
        """Yield the entries in their order, and let go of each: for the last who reads them.

        While an entry is decoded those before it are gone, so that the values of a large store and
        what is made of them are not there at once.
        """
        left = [*self.entries.values()]
        self.entries.clear()
        left.reverse()
        while left:
            yield left.pop()


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes of one or more whole revisions under a prefix, each key with its last state.

    Per key, never older than what the watch delivered before.
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


Check = Absent | Unchanged


@dataclass(frozen=True, slots=True)
class Put:
    """Operation: set a key. With a lease, the store deletes the key when the lease ends."""

    key: str
    value: bytes
    lease: "Lease | None" = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Operation: delete a key; an absent key is no error."""

    key: str


@dataclass(frozen=True, slots=True)
class Change:
    """Operations that are applied together if all checks hold, else not at all."""

    checks: tuple[Check, ...]
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
    """A check of the change failed: which one, and the store's current entry."""

    culprit: Check
    current: Entry | None


Outcome = Committed | Refused


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof of having held a lock: commits made with it fail once the holder has changed."""

    key: str
    token: int | str


def nested(change: Change) -> tuple[int, int]:
    """Return the cost of a change that is a nested transaction of the commit (etcd)."""
    return 1, max(len(change.ops), len(change.checks))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one commit.

    `cost` returns what a change adds to the commit's operations, and the operations of its own
    nested transaction. The sum of the former plus the largest of the latter must not exceed
    `budget`; keys and values together must not exceed `bytes`.
    """

    budget: int
    bytes: int
    cost: Callable[[Change], tuple[int, int]] = nested


Keep = Callable[[str, bytes], bool]
"""Whether a snapshot shall have the entry of a key and a value."""

Parts = Callable[[], Sequence[str]]
"""The beginnings of the keys that the next snapshot of a watch shall have."""


def keep_all(_key: str, _value: bytes) -> bool:
    """Return True: a snapshot shall have every entry."""
    return True


class Lease(Protocol):
    """A lease with automatic renewals, which a busy event loop cannot delay."""

    @property
    def ttl(self) -> float:
        """Seconds the store waits for a renewal before it drops the lease."""

    @property
    def valid_until(self) -> float:
        """Monotonic time until which the lease certainly holds.

        Counted from before the last successful renewal was *sent*. Once `time.monotonic()` is
        past it, the store may have dropped the lease and another client may act.
        """

    async def lost(self) -> None:
        """Return when the lease has ended or its validity has expired."""

    async def revoke(self) -> None:
        """End the lease now, which deletes its keys. Idempotent; best effort during an outage."""


class Lock(Protocol):
    """Mutual exclusion by name; every client can read the holder's text (an address)."""

    async def acquire(self) -> Fence:
        """Wait until this client holds the lock; return the fence for commits.

        Waits by a watch and through outages. May be called again after `lost` or `release`; each
        term has its own fence. Raises StoreDenied when refused.
        """

    @property
    def valid_until(self) -> float:
        """As `Lease.valid_until`; 0.0 while the lock is not held."""

    async def lost(self) -> None:
        """Return when this client has lost the lock (not for `release`)."""

    async def release(self) -> None:
        """Release the lock; a waiting client gets it without waiting for the lease to expire.

        Idempotent; best effort during an outage, when the lease expires instead.
        """

    async def holder(self) -> str | None:
        """Return the current holder's text from the store; None if the lock is free."""


class Backend(Protocol):
    """One store.

    `incremental` tells whether a change costs a watch as much as what changed, or as much as all
    that is under its prefix.
    """

    limits: Limits
    incremental: bool

    async def get(self, key: str) -> Entry | None:
        """Return the key as of now (linearizable); None if absent."""

    async def snapshot(self, prefix: str, keep: "Keep" = keep_all) -> Snapshot:
        """Return everything under the prefix that passes `keep`, at one revision.

        The prefix may end anywhere.
        """

    async def commit(
        self, changes: Sequence[Change], *, fence: Fence | None = None, writer: str | None = None
    ) -> "list[Outcome]":
        """Apply changes and return one outcome for each, in order.

        With a `writer` (a name that one process at a time uses, with one commit in flight) the
        commit is applied at most once and its true outcome is returned, if the store answers
        within the budget. Otherwise it raises StoreUnavailable(outcome_unknown=True), and the
        commit may still be applied later. The writer's next commit rules that out; an empty one
        does so without any change.

        Without a writer, a commit whose outcome is unknown raises
        StoreUnavailable(outcome_unknown=True) if it has checks, and is sent again if it has none.
        A late copy of the latter may overwrite a later write: use checks where that matters.
        """

    def watch(
        self, prefix: str, *, every_revision: bool = False, parts: "Parts | None" = None
    ) -> AsyncIterator[Snapshot | Delta]:
        """Yield a Snapshot, then Deltas, and another Snapshot whenever events were lost.

        Snapshots have the entries alone whose keys start with one of `parts`, which is asked anew
        when the reading of one begins; without it, all. Deltas have all changes.

        With `every_revision` each delta is of one revision, from a store that has a history (etcd).

        A store that went back yields a rewound snapshot, also if it has passed the last revision
        again meanwhile. Consul has no history: there it is certain only if the keys under the
        prefix show it.

        Ends only when closed; continues after outages. Raises StoreDenied when refused.
        """

    async def lease(self, ttl: float) -> Lease:
        """Return a new lease, renewed until revoked or lost."""

    def lock(self, name: str, holder: str, ttl: float) -> Lock:
        """Return the lock whose key is `name` (from `core.keys`); `holder` is its value."""

    async def compact_history(self, older_than: float, now: Callable[[], float]) -> None:
        """Delete revisions older than so many seconds, repeatedly, until cancelled.

        `now` is the wall clock in Unix seconds: what is due next is stored, so that any process may
        continue, however briefly each one runs. A store without history only waits. Watches that
        are further behind resume with a snapshot.
        """

    def trouble(self) -> str:
        """Return why the last call that was sent has no answer yet; "" if it has one."""

    async def check_room(self) -> None:
        """Return if the store takes puts, as far as it says so. Raises StoreFull."""

    async def condition(self) -> "StoreCondition":
        """Return what the member that answers says of itself; nothing for a store without."""

    async def close(self) -> None:
        """Stop renewals and watches and close connections. Leases then expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCondition:
    """What a member of a store says of itself; None and nothing where it says nothing."""

    size: int | None = None
    """Bytes of its file, which the store limits."""
    used: int | None = None
    """Bytes of them that hold something; a defragmentation gives back the others."""
    alarms: Mapping[str, bool] = field(default_factory=dict)
    """Alarms that it knows, and whether a member of the store has raised them."""


def holds(check: Check, current: Entry | None) -> bool:
    """Return whether a check holds, given the current entry of its key."""
    if isinstance(check, Absent):
        return current is None
    return current is not None and current.rev == check.rev


def delta_of(rev: int, last: Mapping[str, Entry | None]) -> Delta:
    """Return the last state of each changed key, None if deleted, as a delta."""
    return Delta(
        rev,
        tuple(entry for entry in last.values() if entry is not None),
        tuple(key for key, entry in last.items() if entry is None),
    )


def kept(snapshot: Snapshot, keep: Keep) -> Snapshot:
    """Return what of a snapshot passes."""
    entries = {key: one for key, one in snapshot.entries.items() if keep(key, one.value)}
    return replace(snapshot, entries=entries)


def under(snapshot: Snapshot, parts: "Parts | None") -> Snapshot:
    """Return what a snapshot of a watch has of these parts."""
    if parts is None:
        return snapshot
    beginnings = tuple(parts())
    entries = {key: one for key, one in snapshot.entries.items() if key.startswith(beginnings)}
    return replace(snapshot, entries=entries)


def split(changes: Iterable[Change], limits: Limits) -> list[list[Change]]:
    """Group changes, in order, into commits without duplicate keys and within the limits.

    A single change beyond the limits is a group of its own; the backend refuses it as TooLarge.
    """
    groups: list[list[Change]] = []
    keys: set[str] = set()
    used = width = size = 0
    for change in changes:
        # All checks of a commit see the state before it. So a change that checks a key which an
        # earlier change writes belongs into the next commit: checked keys count as well.
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
    """Raise TooLarge for changes beyond the limits, ValueError for a duplicate key."""
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
