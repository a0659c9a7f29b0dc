"""Leases that work in the event loop cannot starve: each is renewed by a thread of its own.

A renewal goes to one member after the other until one answers, on channels that nothing else
uses. `valid_until` is counted from before the renewal was sent; once it has passed, or the store
has said that the lease is gone, the lease is lost for good and never renewed again.
"""

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final

import grpc
from aetcd import rpc

from core.errors import StoreUnavailable
from core.logs import fields
from objdb.etcd.channel import OPTIONS, Access, Channels, Retry

log = logging.getLogger(__name__)

SHORTEST: Final = 2
"""Seconds; etcd grants no shorter lease."""

PARTING: Final = 2.0
"""Seconds we try to take back what would end by itself."""

_RETRY: Final = 0.05


class Renewal(threading.Thread):
    """Renews one lease until it is stopped or the lease is lost."""

    def __init__(
        self,
        channels: Channels,
        lease_id: int,
        until: float,
        ttl: float,
        on_lost: Callable[[], object],
    ) -> None:
        super().__init__(name=f"lease-{lease_id:x}", daemon=True)
        self._channels = channels
        self._request = rpc.LeaseKeepAliveRequest(ID=lease_id)
        self._ttl = ttl
        self._attempt = min(1.0, max(0.3, ttl / 5))
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
        """Renew at a third of the time to live, at once again after a failure."""
        with ExitStack() as opened:
            access = self._channels.access
            stubs = itertools.cycle(
                rpc.LeaseStub(opened.enter_context(_channel(address, access)))
                for address in access.endpoints
            )
            stub, pause = next(stubs), self._ttl / 3
            while not self._stop_asked.wait(pause) and not self.is_lost():
                pause = self._ttl / 3
                if not self._renew(stub):
                    stub, pause = next(stubs), _RETRY
        if not self._stop_asked.is_set():
            self._on_lost()

    def _renew(self, stub: Any) -> bool:
        sent = time.monotonic()
        try:
            answers = stub.LeaseKeepAlive(
                iter((self._request,)),
                timeout=self._attempt,
                metadata=self._channels.last_metadata,
            )
            answer = next(answers, None)
            answers.cancel()
        except grpc.RpcError as exc:
            log.debug("lease not renewed", extra=fields(error=str(exc)))
            return False
        if answer is None:
            return False
        with self._state:
            if self._lost or answer.TTL <= 0 or time.monotonic() >= self._until:
                self._lost = True
            else:
                self._until = sent + answer.TTL
            return not self._lost


class EtcdLease:
    """A lease of etcd; a `Lease`."""

    def __init__(self, leases: "Leases", lease_id: int, ttl: float, sent: float) -> None:
        self.id = lease_id
        self._leases = leases
        self._ttl = ttl
        self._ended = asyncio.Event()
        self._revoked = False
        ended = partial(asyncio.get_running_loop().call_soon_threadsafe, self._ended.set)
        self._renewal = Renewal(leases.channels, lease_id, sent + ttl, ttl, ended)
        self._renewal.start()

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
        try:
            await self._leases.channels.call(
                lambda member: member.lease.LeaseRevoke,
                rpc.LeaseRevokeRequest(ID=self.id),
                Retry.REPEAT,
                budget=PARTING,
            )
        except StoreUnavailable as exc:
            # NOT_FOUND comes here too: ended already
            log.info("lease not revoked", extra=fields(error=str(exc)))

    async def stop(self) -> None:
        """Renew no more and wait for the thread's end."""
        self._renewal.stop()
        await asyncio.to_thread(self._renewal.join)
        self._leases.renewed.discard(self)


class Leases:
    """All leases of one backend that are being renewed."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.renewed: set[EtcdLease] = set()

    async def grant(self, ttl: float) -> EtcdLease:
        """Return a new lease that keeps itself alive."""
        sent = time.monotonic()
        answer = await self.channels.call(
            lambda member: member.lease.LeaseGrant,
            rpc.LeaseGrantRequest(TTL=max(SHORTEST, round(ttl))),
            Retry.READ,  # a lease whose id got lost ends by itself
        )
        lease = EtcdLease(self, answer.ID, float(answer.TTL), sent)
        self.renewed.add(lease)
        return lease

    async def stop(self) -> None:
        """Renew none of them any more."""
        await asyncio.gather(*(lease.stop() for lease in self.renewed))


def _channel(address: str, access: Access) -> grpc.Channel:
    if access.tls is None:
        return grpc.insecure_channel(address, options=OPTIONS)
    return grpc.secure_channel(address, access.tls.credentials(), options=OPTIONS)
