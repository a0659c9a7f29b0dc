"""Commits: one transaction of consul's, all or nothing; refused changes are taken out of it.

    check-session lock (fence), cas marker, the checks of all changes, then their writes

Consul says which operations were refused, all of them at once. Their changes are refused if their
checks still do not hold when they are read, and the transaction is sent again without them.

Applied at most once, by the writer's marker, as in `objdb.etcd.commit`: every copy of a transaction
that is ever sent names the marker's last revision and moves it on, so once one copy has been
applied all others are refused. Each content that is sent has an id of its own; the id the marker
holds says which content was applied. (A marker key must never be deleted.)
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.errors import FenceLost, NotFound, StoreUnavailable
from objdb.api import (
    Absent,
    Change,
    Committed,
    Entry,
    Fence,
    Outcome,
    Refused,
    admit,
)
from objdb.consul.agents import ConsulAgents, transaction
from objdb.consul.operations import LIMITS, Check, Operation, ordered
from objdb.consul.reading import Reading
from objdb.failover import Retry

Judged = dict[int, Refused]
"""The changes, by number, that are refused."""


@dataclass(slots=True)
class _Writer:
    """What we know of a writer's marker: the key and its revision, None before it is read."""

    marker: str
    last: int | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class ConsulCommitter:
    """Sends commits; serial for each writer."""

    def __init__(self, agents: ConsulAgents, reading: Reading) -> None:
        self._agents = agents
        self._reading = reading
        self._writers: dict[str, _Writer] = {}

    async def commit(
        self, changes: Sequence[Change], fence: Fence | None, marker: str | None
    ) -> list[Outcome]:
        """Apply changes as `Backend.commit` promises; `marker` is the key of the writer."""
        admit(changes, LIMITS)
        if marker is None:
            return await self._commit(changes, fence)
        writer = self._writers.setdefault(marker, _Writer(marker))
        async with writer.turn:
            return await self._commit_once(changes, fence, writer)

    async def _commit(self, changes: Sequence[Change], fence: Fence | None) -> list[Outcome]:
        checked = any(change.checks for change in changes)
        retry = Retry.ONCE if checked else Retry.REPEAT
        refused: Judged = {}
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
        self, changes: Sequence[Change], fence: Fence | None, writer: _Writer
    ) -> list[Outcome]:
        last = writer.last if writer.last is not None else await self._marker_rev(writer.marker)
        writer.last = None  # not known again before an answer has come
        sent: dict[bytes, Judged] = {}
        refused: Judged = {}
        while True:
            mark = uuid.uuid4().hex.encode()
            sent[mark] = refused
            marking = Operation("cas", writer.marker, mark, last)
            writes = _remaining(changes, refused)
            answer = await self._send([*_fenced(fence), marking, *writes], Retry.REPEAT)
            if not answer.refused:
                writer.last = answer.rev
                return _outcomes(changes, refused, answer.rev)
            try:
                if marking in answer.refused:
                    marker = await self._reading.get(writer.marker)
                    last = marker.rev if marker else 0
                    if marker is not None and marker.value in sent:
                        writer.last = last
                        return _outcomes(changes, sent[marker.value], last)
                    # an earlier commit, given up by its caller, arrived late: ours was not applied
                self._raise_for_fence(answer, fence)
                if marking not in answer.refused:
                    refused = refused | await self._refusals(answer)
            except StoreUnavailable as exc:
                # a copy that was not answered may still be on its way
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
        found = await self._reading.get(marker)
        return found.rev if found else 0

    async def _refusals(self, answer: "_Answer") -> Judged:
        """Return the changes of which a refused check does not hold now either."""
        checks = [(op.change, op.check) for op in answer.refused if op.check is not None]
        found = await asyncio.gather(*(self._reading.get(check.key) for _, check in checks))
        judged: Judged = {}
        for (change, check), current in zip(checks, found, strict=True):
            if not _holds(check, current):
                judged.setdefault(change, Refused(check, current))
        return judged

    def _raise_for_fence(self, answer: "_Answer", fence: Fence | None) -> None:
        if fence is not None and any(op.verb == "check-session" for op in answer.refused):
            raise FenceLost(f"lock {fence.key} has another holder")


@dataclass(frozen=True, slots=True)
class _Answer:
    """The operations a transaction was refused for; none: it was applied, at a revision."""

    refused: Sequence[Operation]
    rev: int


def _fenced(fence: Fence | None) -> list[Operation]:
    if fence is None:
        return []
    return [Operation("check-session", fence.key, session=str(fence.token))]


def _remaining(changes: Sequence[Change], refused: Judged) -> list[Operation]:
    return ordered((n, change) for n, change in enumerate(changes) if n not in refused)


def _outcomes(changes: Sequence[Change], refused: Judged, rev: int) -> list[Outcome]:
    return [refused.get(number) or Committed(rev) for number in range(len(changes))]


def _holds(check: Check, current: Entry | None) -> bool:
    if isinstance(check, Absent):
        return current is None
    return current is not None and current.rev == check.rev
