"""Turns changes into operations of a consul transaction (pure)."""

# Why a put is `delete` and `set`: a put must detach the key from its former lease, and must raise
# its revision even if the value is the same, since revisions tell whether a key changed. Consul's
# `set` does neither. If the change requires an absent key, one `cas` with index 0 is check and put.
# A put under a lease is a `lock` by the lease's session, which deletes the key when it ends.
#
# Why checks come first: in consul an operation sees the effect of those before it, but the checks
# of `objdb.api` see the state before the commit.

from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from objdb.api import Absent, Change, Check, Limits, Put
from objdb.consul.leases import ConsulLease


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; its refusal means that `check` of the change with this number failed."""

    verb: str
    key: str
    value: bytes | None = None
    index: int | None = None
    session: str | None = None
    check: Check | None = None
    change: int = -1

    def json(self) -> dict[str, dict[str, object]]:
        """Return the operation in the JSON form of the API."""
        fields: dict[str, object] = {"Verb": self.verb, "Key": bare(self.key)}
        if self.value is not None:
            fields["Value"] = b64encode(self.value).decode()
        if self.index is not None:
            fields["Index"] = self.index
        if self.session is not None:
            fields["Session"] = self.session
        return {"KV": fields}


def bare(key: str) -> str:
    """Return a key in consul's form, without the leading slash."""
    return key.removeprefix("/")


def ordered(changes: Iterable[tuple[int, Change]]) -> list[Operation]:
    """Return the operations of numbered changes, checks first."""
    found = [op for number, change in changes for op in _operations(number, change)]
    return sorted(found, key=lambda op: not op.verb.startswith("check-"))


def flat(change: Change) -> tuple[int, int]:
    """Return the cost of a change: all operations of a commit are on one level."""
    return sum(1 for _ in _operations(0, change)), 0


LIMITS: Final = Limits(budget=62, bytes=360_000, cost=flat)
"""Consul's 64 operations, minus fence and marker; 512 KiB per request, in base64 and JSON."""


def _operations(number: int, change: Change) -> Iterator[Operation]:
    created = _created(change)
    for check in change.checks:
        if check.key not in created:
            yield _check(number, check)
    for op in change.ops:
        if op.key in created:
            yield Operation(
                "cas", op.key, created[op.key].value, 0, check=Absent(op.key), change=number
            )
        else:
            yield Operation("delete", op.key, change=number)
            if isinstance(op, Put):
                yield _put(number, op)


def _created(change: Change) -> dict[str, Put]:
    """Return the puts without a lease of keys that must be absent."""
    absent = {check.key for check in change.checks if isinstance(check, Absent)}
    puts = (op for op in change.ops if isinstance(op, Put) and op.lease is None)
    return {op.key: op for op in puts if op.key in absent}


def _check(number: int, check: Check) -> Operation:
    if isinstance(check, Absent):
        return Operation("check-not-exists", check.key, check=check, change=number)
    return Operation("check-index", check.key, index=check.rev, check=check, change=number)


def _put(number: int, op: Put) -> Operation:
    if op.lease is None:
        return Operation("set", op.key, op.value, change=number)
    if not isinstance(op.lease, ConsulLease):
        raise TypeError(f"{op.key}: the lease is another backend's")
    return Operation("lock", op.key, op.value, session=op.lease.id, change=number)
