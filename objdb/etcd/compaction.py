"""Compaction: deletes old revisions of etcd, which keeps all of them otherwise.

The key `core.keys.COMPACTION` tells to which revision to compact next, and when that revision was
current, so that a new leader continues where the last one was. Nothing is kept in memory. A watch
that is behind the compacted revision resumes with a snapshot (`objdb.etcd.watching`).
"""

# Why the leader compacts: etcd's own automatic compaction is off by default. Without compaction the
# database grows with every write until it reaches its quota, and then etcd refuses all writes. Some
# history is kept so that a watch can resume with deltas after a short outage.
#
# Why a stored time, by the wall clock: etcd has no times of revisions. kube-apiserver's processes
# each wait for a period since they last saw its key change, which needs no clock; but of processes
# that all restart more often than that, none ever compacts. Clocks of two leaders may differ, and
# jump. One that is ahead compacts early: the cost is a snapshot for watches that were behind. One
# that is behind finds a time to come and puts its own in its place, so that it, and its successors
# with the same clock, wait for one period and not for as long as the clocks differ.

import asyncio
import json
import logging
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from aetcd import rpc

from core import keys
from core.errors import StoreUnavailable
from core.logs import fields
from core.outside_json import read_json
from core.patience import patient
from core.retry import Loop, Pace, retry
from objdb.api import Absent, Change, Check, Put, Unchanged
from objdb.etcd.channel import Channels
from objdb.etcd.commit import EtcdCommitter
from objdb.etcd.grpc_errors import is_out_of_range

log = logging.getLogger(__name__)

_ATTEMPT: Final = patient(10.0)
"""Seconds a member may take to compact; a long history takes longer than a usual call."""
_LONGEST_PAUSE: Final = 60.0
"""Seconds between two attempts while compaction fails, at most."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A revision, and the wall-clock time in Unix seconds at which it was current."""

    revision: int
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStep:
    """What to do next: compact to a revision, store a checkpoint, wait so many seconds."""

    compact: int | None = None
    store: Checkpoint | None = None
    wait: float = 0.0


def next_step(stored: Checkpoint | None, current: Checkpoint, older_than: float) -> CompactionStep:
    """Return what to do with the stored checkpoint, None if there is none that can be read. Pure.

    `current` is the store's revision and this process's time. Compactions are at least `older_than`
    seconds after their revision was current, so that so much of the history is kept.
    """
    if stored is None or stored.revision > current.revision:  # the latter: of another history
        return CompactionStep(store=current)
    age = current.time - stored.time
    if age < 0:
        return CompactionStep(store=Checkpoint(stored.revision, current.time))
    if age < older_than:
        return CompactionStep(wait=older_than - age)
    return CompactionStep(compact=stored.revision, store=current)


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the stored form: JSON with `revision` and `time`."""
    return json.dumps(asdict(checkpoint)).encode()


def decode(value: bytes) -> Checkpoint | None:
    """Return a stored checkpoint; None for what is none."""
    try:
        stored = read_json(value)
        found = Checkpoint(int(stored["revision"]), float(stored["time"]))
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    return found if found.revision > 0 and math.isfinite(found.time) else None


async def compact_history(
    channels: Channels, committer: EtcdCommitter, older_than: float, now: Callable[[], float]
) -> None:
    """Compact repeatedly so that about `older_than` seconds are kept; runs until cancelled.

    A failure, even a missing permission, is logged and retried: it must not stop the leader. `now`
    is the wall clock in Unix seconds.
    """
    loop = Loop(log, "compaction failed", pace=Pace(1.0, _LONGEST_PAUSE))
    while True:
        pause = await retry(loop, lambda: _advance(channels, committer, older_than, now))
        await asyncio.sleep(pause)


async def _advance(
    channels: Channels, committer: EtcdCommitter, older_than: float, now: Callable[[], float]
) -> float:
    """Do the next step and return the seconds until the one after it."""
    key = keys.COMPACTION
    time = now()  # before the revision is read: what came later is not taken for older than it is
    answer = await channels.call(lambda member: member.kv.Range, rpc.RangeRequest(key=key.encode()))
    current = Checkpoint(int(answer.header.revision), time)
    kv: Any = answer.kvs[0] if answer.kvs else None
    step = next_step(decode(kv.value) if kv else None, current, older_than)
    # Compacted first and noted afterwards: what fails or is interrupted in between is done again,
    # and a second compaction to one revision does nothing. Of several processes that note the next
    # revision one succeeds; the others find it at their next step.
    if step.compact is not None:
        await _compact(channels, step.compact)
    if step.store is not None:
        unchanged: Check = Unchanged(key, kv.mod_revision) if kv else Absent(key)
        # Without a marker the put is in a nested transaction, which a full etcd does not refuse
        # (`objdb.etcd.commit`): it must compact all the more.
        await committer.commit([Change((unchanged,), (Put(key, encode(step.store)),))], None, None)
    return step.wait


async def _compact(channels: Channels, revision: int) -> None:
    request = rpc.CompactionRequest(revision=revision)
    try:
        await channels.call(lambda member: member.kv.Compact, request, attempt=_ATTEMPT)
    except StoreUnavailable as exc:
        if is_out_of_range(exc.__cause__):
            return  # already compacted, by another leader, etcd itself or an operator
        raise
    log.info("history compacted", extra=fields(revision=revision))
