"""Compaction: deletes old revisions of etcd, which keeps all of them otherwise.

A watch that is behind the compacted revision resumes with a snapshot (`objdb.etcd.watching`).
"""

# Why the leader compacts: etcd's own automatic compaction is off by default. Without compaction the
# database grows with every write until it reaches its quota, and then etcd refuses all writes. Some
# history is kept so that a watch can resume with deltas after a short outage.

import asyncio
import logging
from typing import Final

from aetcd import rpc

from core import keys
from core.errors import ContivError, StoreUnavailable
from core.logs import fields
from objdb.etcd.channel import Channels
from objdb.etcd.errors import is_out_of_range

log = logging.getLogger(__name__)

_ATTEMPT: Final = 10.0
"""Seconds a member may take to compact; a long history takes longer than a usual call."""


async def compact_history(channels: Channels, older_than: float) -> None:
    """Compact repeatedly so that about `older_than` seconds are kept; runs until cancelled.

    A failure, even a missing permission, is logged and retried: it must not stop the leader.
    """
    # etcd has no times of revisions: compact to the revision that was current one period ago.
    previous: int | None = None
    while True:
        try:
            if previous is not None:
                await _compact(channels, previous)
            previous = await _revision(channels)
        except ContivError as exc:
            log.warning("compaction failed, retrying", extra=fields(error=exc))
        await asyncio.sleep(older_than)


async def _revision(channels: Channels) -> int:
    answer = await channels.call(
        lambda member: member.kv.Range, rpc.RangeRequest(key=keys.SCHEMA.encode(), count_only=True)
    )
    return int(answer.header.revision)


async def _compact(channels: Channels, revision: int) -> None:
    request = rpc.CompactionRequest(revision=revision)
    try:
        await channels.call(lambda member: member.kv.Compact, request, attempt=_ATTEMPT)
    except StoreUnavailable as exc:
        if is_out_of_range(exc.__cause__):
            return  # already compacted, by etcd itself or by an operator
        raise
    log.info("history compacted", extra=fields(revision=revision))
