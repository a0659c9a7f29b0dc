"""Commits: one etcd transaction, the fence outside, one nested transaction per change.

    outer:  if CREATE(lock) == token and MOD(marker) == last
            then put(marker, id), change 1, change 2, ...
            else read lock and marker
    change: if VERSION(k) == 0 / MOD(k) == rev for each check
            then its puts and deletes
            else read what was checked

The marker makes the commit apply at most once (`objdb.writer_marker`).
"""

# Why the fence and the marker are compared in the outer transaction: both decide about the commit
# as a whole. If the lock has another holder, not one change may be applied, not even those whose
# own checks hold. And a copy that arrives late must not apply the changes that were refused before.
#
# Why each change is a nested transaction: one refused change must not refuse the others, and its
# failure branch returns what the checks saw, at the revision at which they failed.
#
# How a lost answer is resolved: the next copy is refused and shows the marker. If the marker holds
# our id, an earlier copy was applied, at the marker's revision R. All nested checks were compared
# with the state before that transaction, so their results follow from the keys at revision R - 1.

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
from aetcd import rpc

from core.errors import FenceLost, NotFound, StoreUnavailable
from objdb.api import (
    Absent,
    Change,
    Committed,
    Delete,
    Entry,
    Fence,
    Limits,
    Outcome,
    Put,
    Refused,
    admit,
    holds,
)
from objdb.etcd.channel import Channels, EtcdMember
from objdb.etcd.leases import EtcdLease
from objdb.failover import Retry
from objdb.writer_marker import Writer, Writers

LIMITS: Final = Limits(budget=127, bytes=1 << 20)
"""etcd's 128 operations per level, minus the marker; 1.5 MiB per request, minus overhead."""

_Compare = rpc.Compare


@dataclass(frozen=True, slots=True)
class _Mark:
    """The marker of one attempt: compare with `last`, put `id`."""

    key: str
    last: int
    id: bytes


class EtcdCommitter:
    """Sends commits; one at a time for each writer."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._writers = Writers()

    async def commit(
        self, changes: Sequence[Change], fence: Fence | None, marker: str | None
    ) -> list[Outcome]:
        """Apply changes as `Backend.commit` promises; `marker` is the key of the writer."""
        admit(changes, LIMITS)
        if marker is None:
            return await self._commit(changes, fence)
        async with self._writers.turn(marker) as writer:
            return await self._commit_once(changes, fence, writer)

    async def _commit(self, changes: Sequence[Change], fence: Fence | None) -> list[Outcome]:
        if not changes:
            return []
        checked = any(change.checks for change in changes)
        request = _transaction(changes, fence, None)
        answer = await self._send(request, Retry.ONCE if checked else Retry.REPEAT)
        if not answer.succeeded:
            raise FenceLost(f"lock {fence.key if fence else ''} has another holder")
        return _outcomes(changes, answer.header.revision, answer.responses)

    async def _commit_once(
        self, changes: Sequence[Change], fence: Fence | None, writer: Writer
    ) -> list[Outcome]:
        last = writer.last
        if last is None:
            last = writer.seen(await self._marker_rev(writer.marker), fence)
        # Unknown until an answer comes. If this call is cancelled or gives up, the next commit
        # reads the marker anew instead of comparing with an outdated revision.
        writer.last = None
        mark = uuid.uuid4().bytes
        while True:
            request = _transaction(changes, fence, _Mark(writer.marker, last, mark))
            answer = await self._send(request, Retry.REPEAT)
            if answer.succeeded:
                writer.last = writer.seen(answer.header.revision, None)
                return _outcomes(changes, answer.header.revision, answer.responses[1:])
            lock, marker = (_first(part.response_range) for part in answer.responses)
            # The order matters. A marker with our id means that the commit was applied, even if
            # the lock has been lost since: its true outcome is not FenceLost.
            last = writer.seen(marker.mod_revision if marker else 0, fence)
            if marker is not None and marker.value == mark:
                writer.last = last
                return await self._outcomes_at(changes, last)
            if fence is not None and (lock is None or lock.create_revision != fence.token):
                writer.last = last
                raise FenceLost(f"lock {fence.key} has another holder")
            # Another id: an earlier commit, given up by its caller, was applied late. Ours was
            # not; send it again with the new revision.

    async def _send(self, request: Any, retry: Retry) -> Any:
        try:
            return await self._channels.call(_txn, request, retry)
        except StoreUnavailable as exc:
            cause = exc.__cause__
            if (
                isinstance(cause, grpc.aio.AioRpcError)
                and cause.code() is grpc.StatusCode.NOT_FOUND
            ):
                raise NotFound(f"a put names a lease that has ended: {exc}") from exc
            raise

    async def _marker_rev(self, marker: str) -> int:
        answer = await self._channels.call(_range, rpc.RangeRequest(key=marker.encode()))
        found = _first(answer)
        return int(found.mod_revision) if found else 0

    async def _outcomes_at(self, changes: Sequence[Change], rev: int) -> list[Outcome]:
        """Return the outcomes of a commit applied at a revision, from the state before it."""
        checks = {check for change in changes for check in change.checks}
        before = dict(
            zip(
                checks,
                await asyncio.gather(*(self._at(c.key, rev - 1) for c in checks)),
                strict=True,
            )
        )
        outcomes: list[Outcome] = []
        for change in changes:
            refused = [Refused(c, before[c]) for c in change.checks if not holds(c, before[c])]
            outcomes.append(refused[0] if refused else Committed(rev))
        return outcomes

    async def _at(self, key: str, rev: int) -> Entry | None:
        try:
            answer = await self._channels.call(
                _range, rpc.RangeRequest(key=key.encode(), revision=rev)
            )
        except StoreUnavailable as exc:
            raise StoreUnavailable(
                f"the outcome of a commit cannot be read any more: {exc}", outcome_unknown=True
            ) from exc
        return entry(_first(answer))


def entry(kv: Any) -> Entry | None:
    """Return etcd's KeyValue, or None, as an entry."""
    return None if kv is None else Entry(kv.key.decode(), kv.value, kv.mod_revision)


def _txn(member: EtcdMember) -> Any:
    return member.kv.Txn


def _range(member: EtcdMember) -> Any:
    return member.kv.Range


def _first(answer: Any) -> Any:
    return answer.kvs[0] if answer.kvs else None


def _transaction(changes: Sequence[Change], fence: Fence | None, mark: _Mark | None) -> Any:
    # Messages are filled in where they are: one that is given to another's constructor is copied
    # into it, on each level again.
    request = rpc.TxnRequest()
    if fence is not None:
        request.compare.add(
            target=_Compare.CREATE,
            result=_Compare.EQUAL,
            key=fence.key.encode(),
            create_revision=fence.token,
        )
    if mark is not None:
        _compare_mod(request, mark.key, mark.last)
        _put_marker(request, mark, needs_space=any(_puts(change) for change in changes))
        _read(request.failure, fence.key if fence else mark.key)
        _read(request.failure, mark.key)
    for change in changes:
        _nest(request.success.add().request_txn, change)
    return request


def _put_marker(request: Any, mark: _Mark, *, needs_space: bool) -> None:
    """Put the marker, nested unless the commit itself needs space."""
    # A full etcd (alarm NOSPACE) refuses every transaction with a put at its top level, but does
    # not check nested ones. A commit that only deletes must succeed then: deleting frees space.
    success = request.success if needs_space else request.success.add().request_txn.success
    put = success.add().request_put
    put.key, put.value = mark.key.encode(), mark.id


def _puts(change: Change) -> bool:
    return any(isinstance(op, Put) for op in change.ops)


def _nest(request: Any, change: Change) -> None:
    """Make a nested transaction one of a change."""
    request.SetInParent()  # it is one even if the change is empty
    for check in change.checks:
        if isinstance(check, Absent):
            _compare_version_zero(request, check.key)
        else:
            _compare_mod(request, check.key, check.rev)
        _read(request.failure, check.key)
    for op in change.ops:
        _write(request.success.add(), op)


def _compare_mod(request: Any, key: str, rev: int) -> None:
    request.compare.add(
        target=_Compare.MOD, result=_Compare.EQUAL, key=key.encode(), mod_revision=rev
    )


def _compare_version_zero(request: Any, key: str) -> None:
    request.compare.add(target=_Compare.VERSION, result=_Compare.EQUAL, key=key.encode(), version=0)


def _write(request: Any, op: Put | Delete) -> None:
    if not isinstance(op, Put):
        request.request_delete_range.key = op.key.encode()
        return
    put = request.request_put
    put.key, put.value = op.key.encode(), op.value
    if op.lease is not None:
        if not isinstance(op.lease, EtcdLease):
            raise TypeError(f"{op.key}: the lease is another backend's")
        put.lease = op.lease.id


def _read(requests: Any, key: str) -> None:
    requests.add().request_range.key = key.encode()


def _outcomes(changes: Sequence[Change], rev: int, responses: Sequence[Any]) -> list[Outcome]:
    return [
        Committed(rev) if part.response_txn.succeeded else _refused(change, part.response_txn)
        for change, part in zip(changes, responses, strict=True)
    ]


def _refused(change: Change, answer: Any) -> Refused:
    for check, part in zip(change.checks, answer.responses, strict=True):
        current = entry(_first(part.response_range))
        if not holds(check, current):
            return Refused(check, current)
    raise AssertionError("a change was refused although all its checks hold")
