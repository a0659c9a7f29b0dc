"""The service registry: one key per instance of a service, under a lease.

`Registration.run` writes the instance's value to the store and keeps it there: new values are
written in order, and after the loss of the lease the instance is registered again. Values are
bytes, encoded by `state.codec`. Next: `objdb.shared_lease`.
"""

import asyncio
import logging
from typing import Final

from core.errors import NotFound, StoreUnavailable
from core.logs import fields
from core.patience import patient
from core.retry import REMOTE, Loop, Pace, retry
from core.tasks import background
from objdb.api import Absent, Backend, Change, Committed, Lease, Put, Unchanged
from objdb.shared_lease import SharedLease, holds

log = logging.getLogger(__name__)

TTL: Final = patient(10.0)
"""The original's time to live of every registration."""


class Registration:
    """One instance of a service in the store."""

    def __init__(
        self, backend: Backend, key: str, value: bytes, *, lease: SharedLease | None = None
    ) -> None:
        self._backend = backend
        self._key = key
        self.lease = lease or SharedLease(backend, TTL)
        self._wanted = value
        self._lease: Lease | None = None
        self._updated = asyncio.Event()
        self._synced = asyncio.Event()

    @property
    def registered(self) -> bool:
        """True while the store has the last value, under a lease that holds."""
        return self._synced.is_set() and self._lease is not None and holds(self._lease)

    def update(self, value: bytes) -> None:
        """Register another value, such as a new role; `synced` returns once it is written."""
        self._wanted = value
        self._synced.clear()
        self._updated.set()

    async def synced(self) -> None:
        """Wait until the store has the last value."""
        await self._synced.wait()

    async def run(self) -> None:
        """Keep the instance registered until cancelled, then deregister it."""
        async with self.lease.used():
            await self._keep()

    async def _keep(self) -> None:
        loop = Loop(
            log,
            "service registration failed",
            about=self._key,
            pace=Pace(0.05, 1.0),
            errors=(StoreUnavailable, NotFound),
            patience=REMOTE,
        )
        while True:
            await retry(loop, self._sync)
            await self._wait_for_change()

    async def _sync(self) -> None:
        """Write the value that is wanted. Raises StoreUnavailable, and NotFound without a lease."""
        # Cleared before the value is read: an update during the write wakes the next wait.
        self._updated.clear()
        wanted = self._wanted
        try:
            while not await self._write(wanted):
                log.info("service key changed by another writer", extra=fields(key=self._key))
        except (StoreUnavailable, NotFound) as exc:
            # NotFound: the lease has ended in the store before we noticed.
            if self._lease is not None and (isinstance(exc, NotFound) or not holds(self._lease)):
                await self._lose(self._lease)
            raise
        if wanted == self._wanted:
            self._synced.set()

    async def _write(self, value: bytes) -> bool:
        """Replace the key's value; False if another writer changed it in between."""
        lease = self._lease = await self.lease.held()
        current = await self._backend.get(self._key)
        # Checked, although this client owns the key: an earlier put whose answer was lost may
        # still arrive, and without a check it would overwrite a newer value.
        check = Absent(self._key) if current is None else Unchanged(self._key, current.rev)
        change = Change((check,), (Put(self._key, value, lease),))
        (outcome,) = await self._backend.commit([change])
        return isinstance(outcome, Committed)

    async def _wait_for_change(self) -> None:
        """Wait for an update or for the loss of the lease."""
        if self._lease is None:
            return
        async with (
            background("service lease", self._lease.lost()) as lost,
            background("service update", self._updated.wait()) as updated,
        ):
            await asyncio.wait((lost, updated), return_when=asyncio.FIRST_COMPLETED)
        if not holds(self._lease):
            log.warning("service lease lost, registering again", extra=fields(key=self._key))
            await self._lose(self._lease)

    async def _lose(self, lease: Lease) -> None:
        self._synced.clear()
        self._lease = None
        await self.lease.lost(lease)
