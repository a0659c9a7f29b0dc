"""A daemon's first word with its store: waits for one that is late, gives up one that is no use.

In come the address and a client; out comes one key once the store has answered. A store that
refuses us, that speaks another language or is of another kind, ends the wait with what to do; gRPC
alone would wait for ever (`objdb.diagnosis`). Whether the content is ours is the caller's.
"""

import asyncio
import logging
import time
from typing import Final

from core.errors import StoreDenied, StoreUnavailable
from core.logs import fields
from core.tasks import backoff
from objdb.api import Backend, Entry
from objdb.connect import StoreAddress, StoreKind, tls_context
from objdb.diagnosis import CONSUL, ETCD, examine

log = logging.getLogger(__name__)

FIRST_ANSWER: Final = 2.0
"""Seconds before we look why there is no answer."""
CERTAIN: Final = 2
"""Looks in a row that must find the store of no use: one that starts or ends may look so."""


async def arrival(store: StoreAddress, backend: Backend, key: str) -> Entry | None:
    """Return what a key holds as soon as the store answers.

    Raises StoreDenied, saying what to do, where waiting does not help.
    """
    began, denials = time.monotonic(), 0
    pauses = backoff(0.2, 3.0)
    while True:
        try:
            async with asyncio.timeout(FIRST_ANSWER):
                return await backend.get(key)
        except (StoreUnavailable, TimeoutError) as exc:
            reason: Exception = exc
        try:
            await _examined(store)
            denials = 0
        except StoreUnavailable as exc:
            reason, denials = exc, 0
        except StoreDenied as exc:
            reason, denials = exc, denials + 1
            if denials >= CERTAIN:
                raise
        waited = round(time.monotonic() - began, 1)
        log.warning("waiting for the store", extra=fields(path=store, seconds=waited, error=reason))
        await asyncio.sleep(next(pauses))


async def _examined(store: StoreAddress) -> None:
    """Return if a member seems to be all right; else raise what is wrong with the last of them.

    One that may come is worth waiting for, whatever is wrong with the others.
    """
    kind = ETCD if store.kind is StoreKind.ETCD else CONSUL
    context = tls_context(store)
    late: StoreUnavailable | None = None
    denied: StoreDenied | None = None
    for member in store.members:
        try:
            await examine(kind, member, context)
        except StoreUnavailable as exc:
            late = exc
        except StoreDenied as exc:
            denied = exc
        else:
            return
    raise late or denied or AssertionError("a store has members")
