"""Leases that work in the event loop cannot starve: each is renewed by a thread of its own.

`valid_until` is counted from before the renewal was sent; once it has passed, or the store has
said that the lease is gone, the lease is lost for good and never renewed again. How a lease is
renewed and ended is the backend's business (`Renewer`, `KeptLease.end`).
"""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Final

PARTING: Final = 2.0
"""Seconds we try to take back what would end by itself."""

GONE: Final = 0.0
"""What a store grants a lease that has ended."""

_RETRY: Final = 0.05

Renew = Callable[[float], float | None]
"""Asks for a renewal, for so many seconds at most; returns what was granted, None if unanswered."""

Renewer = AbstractContextManager[Renew]
"""Opens what the thread needs; an unanswered renewal may have it ask another member next."""


class Keepalive(threading.Thread):
    """Renews one lease until it is stopped or the lease is lost."""

    def __init__(
        self, renewer: Renewer, *, until: float, ttl: float, on_lost: Callable[[], object]
    ) -> None:
        super().__init__(name="lease", daemon=True)
        self._renewer = renewer
        self._ttl = ttl
        self._on_lost = on_lost
        self._until = until
        self._lost = False
        self._state = threading.Lock()
        self._stop_asked = threading.Event()

    @property
    def valid_until(self) -> float:
        """Monotonic time until which the lease certainly holds."""
        return self._until

    def is_lost(self) -> bool:
        """Return whether the lease is lost; true for good once its time has passed."""
        with self._state:
            self._lost = self._lost or time.monotonic() >= self._until
            return self._lost

    def stop(self) -> None:
        """Ask the thread to end; the lease is no longer renewed."""
        self._stop_asked.set()

    def run(self) -> None:
        """Renew at a third of the time to live, at once again after a failure; tell of the end."""
        attempt, pause = min(1.0, max(0.3, self._ttl / 5)), self._ttl / 3
        with self._renewer as renew:
            while not self._stop_asked.wait(pause) and not self.is_lost():
                sent = time.monotonic()
                granted = renew(attempt)
                renewed = granted is not None and self._note(sent, granted)
                pause = self._ttl / 3 if renewed else _RETRY
        if not self._stop_asked.is_set():
            self._on_lost()

    def _note(self, sent: float, granted: float) -> bool:
        """Note what the store granted; return whether the lease goes on."""
        with self._state:
            if self._lost or granted <= GONE or time.monotonic() >= self._until:
                self._lost = True
            else:
                self._until = sent + granted
            return not self._lost


class KeptLease(ABC):
    """A lease that is renewed; a `Lease`. `kept` are those of its backend."""

    def __init__(
        self, kept: "set[KeptLease]", renewer: Renewer, *, ttl: float, sent: float
    ) -> None:
        self._kept = kept
        self._ttl = ttl
        self._ended = asyncio.Event()
        self._revoked = False
        ended = partial(asyncio.get_running_loop().call_soon_threadsafe, self._ended.set)
        self._renewal = Keepalive(renewer, until=sent + ttl, ttl=ttl, on_lost=ended)
        self._renewal.start()
        kept.add(self)

    @property
    def ttl(self) -> float:
        """Seconds the store waits for a renewal before it drops the lease."""
        return self._ttl

    @property
    def valid_until(self) -> float:
        """Monotonic time until which the lease certainly holds; 0.0 once revoked."""
        return 0.0 if self._revoked else self._renewal.valid_until

    async def lost(self) -> None:
        """Return when the lease has ended or can no longer be relied on."""
        while not self._ended.is_set() and not self._renewal.is_lost():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._renewal.valid_until - time.monotonic()):
                    await self._ended.wait()

    async def revoke(self) -> None:
        """End the lease now; its keys vanish. Idempotent, best effort when the store is away."""
        if self._revoked:
            return
        self._revoked = True
        await self.stop()
        self._ended.set()
        await self.end()

    async def stop(self) -> None:
        """Renew no more and wait for the thread's end."""
        self._renewal.stop()
        await asyncio.to_thread(self._renewal.join)
        self._kept.discard(self)

    @abstractmethod
    async def end(self) -> None:
        """Tell the store that the lease is over; where it is away, log that it ends by itself."""


async def stop_all(kept: set[KeptLease]) -> None:
    """Renew none of them any more."""
    await asyncio.gather(*(lease.stop() for lease in kept))
