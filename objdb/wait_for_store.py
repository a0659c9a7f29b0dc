"""A daemon's start: waits for a store that is not up yet, fails for one that is misconfigured.

Takes the address and a client; returns one key as soon as the store answers. Wrong credentials, a
TLS mismatch or a server of another kind end the wait with an error that names the remedy; gRPC
alone would retry for ever (`objdb.examination`). The caller checks what the key holds.
"""

import asyncio
import logging
from typing import Final

from core.errors import StoreDenied, StoreUnavailable
from core.patience import patient
from core.retry import Loop, Pace, retry
from objdb.api import Backend, Entry
from objdb.connect import StoreAddress, StoreKind, tls_context
from objdb.examination import CONSUL, ETCD, examine

log = logging.getLogger(__name__)

FIRST_ANSWER: Final = patient(2.0)
"""Seconds without an answer before the store is examined."""
CERTAIN: Final = 2
"""Examinations in a row that must fail for good: a server that starts or stops can fail one."""


async def wait_for_store(store: StoreAddress, backend: Backend, key: str) -> Entry | None:
    """Return the entry of a key as soon as the store answers.

    Raises StoreDenied, with the remedy, where waiting does not help.
    """
    denials = 0

    async def attempt() -> Entry | None:
        nonlocal denials
        try:
            async with asyncio.timeout(FIRST_ANSWER):
                return await backend.get(key)
        except (StoreUnavailable, TimeoutError) as exc:
            reason: Exception = exc
        try:
            await _examine_members(store)
        except StoreDenied as exc:
            denials += 1
            if denials >= CERTAIN:
                raise
            reason = exc
        else:
            denials = 0
        raise StoreUnavailable(str(reason) or "no answer") from reason

    pace = Pace(0.2, 3.0)
    loop = Loop(log, "waiting for the store", about=str(store), pace=pace, errors=StoreUnavailable)
    return await retry(loop, attempt)


async def _examine_members(store: StoreAddress) -> None:
    """Return if one member seems usable; else raise the last member's error.

    StoreUnavailable takes precedence: a member that may come up is worth the wait, even if another
    one is misconfigured.
    """
    kind = ETCD if store.kind is StoreKind.ETCD else CONSUL
    context = tls_context(store)
    unavailable: StoreUnavailable | None = None
    denied: StoreDenied | None = None
    for member in store.members:
        try:
            await examine(kind, member, context)
        except StoreUnavailable as exc:
            unavailable = exc
        except StoreDenied as exc:
            denied = exc
        else:
            return
    raise unavailable or denied or AssertionError("a store has members")
