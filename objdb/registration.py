"""The service registry: instances of a service, each under a lease, and who watches them.

A `Registration` says what is to be registered; its `run` makes the store say so and keeps it that
way: new values are written in order, and an instance whose lease was lost is registered anew.
Values are bytes; what they say is `state.codec`'s business.
"""

import asyncio
import logging
import time
from typing import Final

from core.errors import NotFound, StoreUnavailable
from core.logs import fields
from core.tasks import background, backoff
from objdb.api import Absent, Backend, Change, Committed, Lease, Put, Unchanged

log = logging.getLogger(__name__)

TTL: Final = 10.0
"""The original's time to live of every registration."""


class Registration:
    """One instance of a service in the store."""

    def __init__(self, backend: Backend, key: str, value: bytes, *, ttl: float = TTL) -> None:
        self._backend = backend
        self._key = key
        self._ttl = ttl
        self._wanted = value
        self._lease: Lease | None = None
        self._asked = asyncio.Event()
        self._settled = asyncio.Event()

    def update(self, value: bytes) -> None:
        """Have another value registered (a role, say); `settled` tells when it is."""
        self._wanted = value
        self._settled.clear()
        self._asked.set()

    async def settled(self) -> None:
        """Wait until the store has what was asked for last."""
        await self._settled.wait()

    async def run(self) -> None:
        """Keep the store as asked, for ever; cancelled, the instance is taken out."""
        delays = backoff(0.05, 1.0)
        try:
            while True:
                self._asked.clear()
                wanted = self._wanted
                try:
                    await self._realise(wanted)
                except (StoreUnavailable, NotFound) as exc:
                    log.warning("service not written", extra=fields(key=self._key, error=str(exc)))
                    if isinstance(exc, NotFound) or not self._lease_holds():
                        await self._drop_lease()
                    await asyncio.sleep(next(delays))
                    continue
                delays = backoff(0.05, 1.0)
                if wanted == self._wanted:
                    self._settled.set()
                await self._disturbed()
        finally:
            await self._drop_lease()

    async def _realise(self, wanted: bytes) -> None:
        while not await self._write(wanted):
            log.info("service key written by another", extra=fields(key=self._key))

    async def _write(self, value: bytes) -> bool:
        """Put the value over what is there; False if somebody else wrote meanwhile.

        The check keeps a late copy of an older value from overwriting a newer one.
        """
        if self._lease is None:
            self._lease = await self._backend.lease(self._ttl)
        current = await self._backend.get(self._key)
        check = Absent(self._key) if current is None else Unchanged(self._key, current.rev)
        change = Change((check,), (Put(self._key, value, self._lease),))
        (outcome,) = await self._backend.commit([change])
        return isinstance(outcome, Committed)

    async def _disturbed(self) -> None:
        """Wait until something else is wanted or the lease is lost."""
        if self._lease is None:
            return
        async with (
            background("service lease", self._lease.lost()) as lost,
            background("service asked", self._until_asked()) as asked,
        ):
            await asyncio.wait((lost, asked), return_when=asyncio.FIRST_COMPLETED)
        if not self._lease_holds():
            log.warning("service lease lost, registering anew", extra=fields(key=self._key))
            self._settled.clear()
            await self._drop_lease()

    async def _until_asked(self) -> None:
        await self._asked.wait()

    def _lease_holds(self) -> bool:
        return self._lease is not None and time.monotonic() < self._lease.valid_until

    async def _drop_lease(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.revoke()
