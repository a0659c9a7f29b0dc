"""Forgetting: etcd keeps every revision there ever was until somebody compacts it.

Nobody does so by default, and a store that only grows ends full, with every write refused. Watches
that hang further behind than what is kept resume with a snapshot (`objdb.etcd.watching`).
"""

import asyncio
import logging
from typing import Final

import grpc
import grpc.aio
from aetcd import rpc

from core import keys
from core.errors import ContivError, StoreUnavailable
from core.logs import fields
from objdb.etcd.channel import Channels

log = logging.getLogger(__name__)

_ATTEMPT: Final = 10.0
"""Seconds a member may take to compact: a long history takes long."""


async def forget(channels: Channels, older_than: float) -> None:
    """Compact again and again, so that about `older_than` seconds are kept, for ever.

    It must not stop a daemon: what fails, even for want of permission, is tried again.
    """
    known: int | None = None
    while True:
        try:
            if known is not None:
                await _compact(channels, known)
            known = await _revision(channels)
        except ContivError as exc:
            log.warning("history not compacted", extra=fields(error=exc))
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
        cause = exc.__cause__
        # etcd itself, or somebody else, compacts too
        if isinstance(cause, grpc.aio.AioRpcError) and cause.code() is grpc.StatusCode.OUT_OF_RANGE:
            return
        raise
    log.info("history compacted", extra=fields(revision=revision))
