"""Waits for the cluster's settings in the store (docs/original/netplugin-agent.md §2.3).

netmaster writes them when it first leads. An agent waits for them without limit, and ends if they
contradict its own command line. Later changes are records like any other
(`netplugin.world.bridges.forwarding_mode`).
"""

import asyncio
import logging
import time
from typing import Final

from core import keys
from core.errors import UsageError
from core.logs import fields
from netplugin.settings import AgentSettings
from objdb.api import Backend
from state.records import GlobalRecord
from state.watch import RecordFeed

log = logging.getLogger(__name__)

REMINDER: Final = 10.0


async def cluster_settings(
    store: Backend, settings: AgentSettings, *, reminder: float = REMINDER
) -> GlobalRecord:
    """Return the cluster's settings once netmaster has written them.

    Logs a warning every `reminder` seconds until then. Raises UsageError when their forwarding
    mode differs from the command line's.
    """
    log.info("waiting for netmaster's settings in the store", extra=fields(path=settings.store))
    found = await _wait_for_record(store, reminder)
    if settings.fwd_mode not in {None, found.fwd_mode}:
        raise UsageError(
            f"forwarding mode {settings.fwd_mode} of this agent differs from the cluster's "
            f"{found.fwd_mode}: start it with --fwdmode {found.fwd_mode}"
        )
    return found


async def _wait_for_record(store: Backend, reminder: float) -> GlobalRecord:
    feed = RecordFeed(store, (keys.MASTER_CONFIG,))
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(feed.run())
        while True:
            await _wait_for_events(feed, reminder)
            found = feed.records.get(keys.GLOBAL_CONFIG)
            if isinstance(found, GlobalRecord) and found.fwd_mode and found.pvt_subnet:
                break
        following.cancel()
    return found


async def _wait_for_events(feed: RecordFeed, reminder: float) -> None:
    began = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(reminder):
                await feed.take()
                return
        except TimeoutError:
            waited = round(time.monotonic() - began)
            log.warning("no netmaster has written settings yet", extra=fields(seconds=waited))
