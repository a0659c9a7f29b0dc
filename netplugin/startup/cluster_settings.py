"""The cluster's settings, without which no agent can be (docs/original/netplugin-agent.md §2.3).

netmaster writes them when it first leads. An agent waits for them, for ever, and ends if they are
not what its own command line says. Later changes of them are records like any
(`netplugin.world.forwarding_mode`).
"""

import asyncio
import logging
import time
from typing import Final

from core import keys
from core.errors import UsageError
from core.logs import fields
from netplugin.settings import Settings
from objdb.api import Backend
from state.records import GlobalRecord
from state.watch import RecordFeed

log = logging.getLogger(__name__)

SAY_AGAIN: Final = 10.0


async def cluster_settings(store: Backend, settings: Settings) -> GlobalRecord:
    """Wait until netmaster has written the cluster's settings; they must agree with ours.

    Raises UsageError when they do not.
    """
    log.info("waiting for netmaster's settings in the store", extra=fields(path=settings.store))
    found = await _written(store)
    if settings.fwd_mode not in {None, found.fwd_mode}:
        raise UsageError(
            f"forwarding mode {settings.fwd_mode} of this agent differs from the cluster's "
            f"{found.fwd_mode}: start it with --fwdmode {found.fwd_mode}"
        )
    return found


async def _written(store: Backend) -> GlobalRecord:
    feed = RecordFeed(store, (keys.MASTER_CONFIG,))
    async with asyncio.TaskGroup() as reading:
        following = reading.create_task(feed.run())
        while True:
            await _some(feed)
            found = feed.records.get(keys.GLOBAL_CONFIG)
            if isinstance(found, GlobalRecord) and found.fwd_mode and found.pvt_subnet:
                break
        following.cancel()
    return found


async def _some(feed: RecordFeed) -> None:
    """Wait for records, and say again and again that we wait."""
    began = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(SAY_AGAIN):
                await feed.take()
                return
        except TimeoutError:
            waited = round(time.monotonic() - began)
            log.warning("no netmaster has written settings yet", extra=fields(seconds=waited))
