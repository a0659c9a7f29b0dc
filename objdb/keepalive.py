"""Lease renewals on a thread per lease, independent of the event loop.

A lease whose validity has passed, or that the store reports as ended, is lost for good and not
renewed again. The backend renews and ends a lease (`Renewer`, `RenewedLease.end`).
"""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Final

from core.patience import patient

# Why a thread: a leader that rebuilds its view, or an agent that computes thousands of flows,
# blocks the event loop for seconds. A renewal in the loop would come too late, the store would
# drop the lease, and a healthy leader would lose its lock because it has much to do. The thread
# gets the interpreter every few milliseconds, also while the loop is busy
# (tests/integration/objdb/test_outages.py).
#
# Why the validity is counted from before the send: the store counts from the moment at which it
# handles the renewal, which lies between our send and its answer. A count from the answer would
# be too late by up to a round trip, and this client would trust a lock that another holds already.
# Counted from the send, `valid_until` is never later than the store's own deadline.

REVOKE_BUDGET: Final = patient(2.0)
"""Seconds for an attempt to revoke a lease or release a lock; both expire without it."""

LEASE_ENDED: Final = 0.0
"""What a store grants for a lease that has ended."""

LEASE_THREAD: Final = "lease"
"""The name of a lease's thread."""

_RETRY_DELAY: Final = 0.05
_SHORT: Final = 5.0
"""Seconds; a lease of no more is short, as the leader's is."""
_SHORT_PART: Final = 8
_LONG_PART: Final = 3

Renew = Callable[[float], float | None]
"""Requests a renewal within so many seconds; returns the seconds granted, None if unanswered.

An answer that comes later is never taken for that of another request.
"""

Renewer = AbstractContextManager[Renew]
"""Opens the thread's own connection; after an unanswered renewal it may use another member."""


class LeaseKeepalive(threading.Thread):
    """Renews one lease until it is stopped or the lease is lost.

    `lone`: there is no other member to try after an unanswered renewal.
    """

    # How long a renewal may take: on a busy machine, or while a disk stalls, a store answers after
    # half a second and more (docs/notes/stores.md §1.4). An attempt that is given up before
    # that fails, and so does its repetition: the lease ends although the store would have renewed
    # it. So a lone member has until the lease's end. With several members the first attempt is
    # short, since the member may be frozen and another one serve, and each one after it is twice
    # as long.

    def __init__(
        self,
        renewer: Renewer,
        *,
        until: float,
        ttl: float,
        lone: bool,
        on_lost: Callable[[], object],
        stop_requested: threading.Event | None = None,
    ) -> None:
        super().__init__(name=LEASE_THREAD, daemon=True)
        self._renewer = renewer
        self._ttl = ttl
        self._lone = lone
        self._on_lost = on_lost
        self._until = until
        self._lost = False
        self._state = threading.Lock()
        self._stop_requested = stop_requested or threading.Event()

    @property
    def valid_until(self) -> float:
        """Monotonic time until which the lease certainly holds."""
        return self._until

    def is_lost(self) -> bool:
        """Return whether the lease is lost; remains true once its validity has passed."""
        # Permanent, even if the store renewed it after all: a caller that saw the lease expire
        # has begun to give up its lock and must not find it valid again.
        with self._state:
            self._lost = self._lost or time.monotonic() >= self._until
            return self._lost

    def stop(self) -> None:
        """Request the end of the thread; the lease is no longer renewed."""
        self._stop_requested.set()

    def run(self) -> None:
        """Renew after a part of the time to live, sooner after a failure; then call `on_lost`."""
        # A third leaves time for several failed attempts, each at another member, before the end.
        # A short lease, the leader's, is renewed at an eighth: of 2 s, 1.75 s are left for a store
        # that does not answer because its disk stalls.
        between = self._ttl / (_SHORT_PART if self._ttl <= _SHORT else _LONG_PART)
        pause, failures = between, 0
        with self._renewer as renew:
            while not self._stop_requested.wait(pause) and not self.is_lost():
                sent = time.monotonic()
                granted = renew(self._patience(sent, failures))
                renewed = granted is not None and self._extend(sent, granted)
                pause, failures = _RETRY_DELAY, failures + 1
                if renewed:
                    # From the send, as the validity: a slow answer must not put off the next. That
                    # is sent at once if it is due: of two stalls in a row, it has to come in
                    # between.
                    pause, failures = max(0.0, sent + between - time.monotonic()), 0
        if not self._stop_requested.is_set():
            self._on_lost()

    def _patience(self, now: float, failures: int) -> float:
        """Return how many seconds the next renewal may take, after so many failures in a row."""
        left = max(_RETRY_DELAY, self._until - now)
        if self._lone:
            return left
        return min(left, min(1.0, max(0.3, self._ttl / 5)) * 2.0**failures)

    def _extend(self, sent: float, granted: float) -> bool:
        """Extend the validity by what the store granted; return whether the lease goes on."""
        with self._state:
            if self._lost or granted <= LEASE_ENDED or time.monotonic() >= self._until:
                self._lost = True
            else:
                self._until = sent + granted
            return not self._lost


class RenewedLease(ABC):
    """A `Lease` with renewals. `active` is the set of its backend's renewed leases.

    `lone`: its renewals can go to one member only.
    """

    def __init__(
        self,
        active: "set[RenewedLease]",
        renewer: Renewer,
        *,
        ttl: float,
        sent: float,
        lone: bool,
    ) -> None:
        self._active = active
        self._ttl = ttl
        self._ended = asyncio.Event()
        self._revoked = False
        ended = partial(asyncio.get_running_loop().call_soon_threadsafe, self._ended.set)
        self._keepalive = LeaseKeepalive(
            renewer, until=sent + ttl, ttl=ttl, lone=lone, on_lost=ended
        )
        self._keepalive.start()
        active.add(self)

    @property
    def ttl(self) -> float:
        """Seconds the store waits for a renewal before it drops the lease."""
        return self._ttl

    @property
    def valid_until(self) -> float:
        """Monotonic time until which the lease certainly holds; 0.0 once revoked."""
        return 0.0 if self._revoked else self._keepalive.valid_until

    async def lost(self) -> None:
        """Return when the lease has ended or its validity has expired."""
        # The validity is checked here too: the thread may be in a renewal when it expires.
        while not self._ended.is_set() and not self._keepalive.is_lost():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._keepalive.valid_until - time.monotonic()):
                    await self._ended.wait()

    async def revoke(self) -> None:
        """End the lease now, which deletes its keys. Idempotent; best effort during an outage."""
        if self._revoked:
            return
        self._revoked = True
        await self.stop()
        self._ended.set()
        await self.end()

    async def stop(self) -> None:
        """Stop the renewals and wait for the thread's end."""
        self._keepalive.stop()
        await asyncio.to_thread(self._keepalive.join)
        self._active.discard(self)

    @abstractmethod
    async def end(self) -> None:
        """Revoke the lease in the store; during an outage, log that it will expire."""


async def stop_all(leases: set[RenewedLease]) -> None:
    """Stop the renewals of all leases."""
    await asyncio.gather(*(lease.stop() for lease in leases))
