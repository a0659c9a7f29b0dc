"""Commits: one consul transaction, all or nothing; refused changes are removed from it.

    check-session lock (fence), cas marker, the checks of all changes, then their writes

The answer to a refused transaction lists all refused operations. The transaction is then sent again
without their changes. The marker makes the commit apply at most once (`objdb.writer_marker`).
"""

# Why a refused change is checked again by a read: consul's answer names the refused operations, but
# `Refused` must also return what the key holds. The key may have changed back in between; then its
# change stays in the transaction, and the next answer decides.
#
# Why each content has an id of its own: here, unlike in etcd, one commit is sent with different
# contents, as changes are removed from it. If the marker turns out to have been moved by an earlier
# copy, the id in it says which content was applied, and thus which changes were refused.
#
# The fence comes first in the transaction, but the order of operations does not matter for safety:
# consul applies all of them or none.

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import FenceLost, NotFound, StoreUnavailable
from objdb.api import (
    Change,
    Committed,
    Fence,
    Outcome,
    Refused,
    admit,
    holds,
)
from objdb.consul.agents import ConsulAgents, transaction
from objdb.consul.operations import LIMITS, Operation, ordered
from objdb.consul.reading import ConsulReader
from objdb.failover import Retry
from objdb.writer_marker import Writer, Writers

Refusals = dict[int, Refused]
"""The refused changes by their number in the commit."""


class ConsulCommitter:
    """Sends commits; one at a time for each writer."""

    def __init__(self, agents: ConsulAgents, reader: ConsulReader) -> None:
        self._agents = agents
        self._reader = reader
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
        checked = any(change.checks for change in changes)
        retry = Retry.ONCE if checked else Retry.REPEAT
        refused: Refusals = {}
        while len(refused) < len(changes):
            guards = _fenced(fence)
            answer = await self._send([*guards, *_remaining(changes, refused)], retry)
            if answer.refused:
                self._raise_for_fence(answer, fence)
                refused |= await self._refusals(answer)
            else:
                return _outcomes(changes, refused, answer.rev)
        return _outcomes(changes, refused, 0)

    async def _commit_once(
        self, changes: Sequence[Change], fence: Fence | None, writer: Writer
    ) -> list[Outcome]:
        last = writer.last
        if last is None:
            last = writer.seen(await self._marker_rev(writer.marker), fence)
        writer.last = None  # unknown until an answer comes, as in objdb.etcd.commit
        sent: dict[bytes, Refusals] = {}
        refused: Refusals = {}
        while True:
            mark = uuid.uuid4().hex.encode()
            sent[mark] = refused
            marking = Operation("cas", writer.marker, mark, last)
            writes = _remaining(changes, refused)
            answer = await self._send([*_fenced(fence), marking, *writes], Retry.REPEAT)
            if not answer.refused:
                writer.last = writer.seen(answer.rev, None)
                return _outcomes(changes, refused, answer.rev)
            try:
                if marking in answer.refused:
                    marker = await self._reader.get(writer.marker)
                    last = writer.seen(marker.rev if marker else 0, fence)
                    if marker is not None and marker.value in sent:
                        writer.last = last
                        return _outcomes(changes, sent[marker.value], last)
                    # Another id: an earlier commit, given up by its caller, was applied late.
                    # Ours was not; send it again with the new revision.
                self._raise_for_fence(answer, fence)
                if marking not in answer.refused:
                    refused = refused | await self._refusals(answer)
            except StoreUnavailable as exc:
                # A copy without an answer may still arrive, so the outcome stays unknown even
                # though only a read failed.
                raise StoreUnavailable(str(exc), outcome_unknown=True) from exc

    async def _send(self, operations: Sequence[Operation], retry: Retry) -> "_Answer":
        sent = [operation.json() for operation in operations]
        answer = await self._agents.call(lambda client: transaction(client, sent), retry)
        refused = [operations[error["OpIndex"]] for error in answer["Errors"] or ()]
        revs = [part["KV"]["ModifyIndex"] for part in answer["Results"] or ()]
        if any(operation.verb == "lock" for operation in refused):
            raise NotFound(f"a put names a lease that has ended: {answer['Errors']}")
        return _Answer(refused, max(revs, default=0))

    async def _marker_rev(self, marker: str) -> int:
        found = await self._reader.get(marker)
        return found.rev if found else 0

    async def _refusals(self, answer: "_Answer") -> Refusals:
        """Return the changes with a refused check that still does not hold."""
        checks = [(op.change, op.check) for op in answer.refused if op.check is not None]
        found = await asyncio.gather(*(self._reader.get(check.key) for _, check in checks))
        refusals: Refusals = {}
        for (change, check), current in zip(checks, found, strict=True):
            if not holds(check, current):
                refusals.setdefault(change, Refused(check, current))
        return refusals

    def _raise_for_fence(self, answer: "_Answer", fence: Fence | None) -> None:
        if fence is not None and any(op.verb == "check-session" for op in answer.refused):
            raise FenceLost(f"lock {fence.key} has another holder")


@dataclass(frozen=True, slots=True)
class _Answer:
    """The refused operations of a transaction; if none, it was applied at `rev`."""

    refused: Sequence[Operation]
    rev: int


def _fenced(fence: Fence | None) -> list[Operation]:
    if fence is None:
        return []
    return [Operation("check-session", fence.key, session=str(fence.token))]


def _remaining(changes: Sequence[Change], refused: Refusals) -> list[Operation]:
    return ordered((n, change) for n, change in enumerate(changes) if n not in refused)


def _outcomes(changes: Sequence[Change], refused: Refusals, rev: int) -> list[Outcome]:
    return [refused.get(number) or Committed(rev) for number in range(len(changes))]
