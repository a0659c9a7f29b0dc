"""Leases of etcd: granted, renewed by a thread each (`objdb.keepalive`), revoked.

A renewal goes to one member after the other until one answers.
"""

# The threads have synchronous channels of their own: the asyncio channels belong to the event loop,
# and a renewal through them would wait for that loop, which is what the thread avoids.
#
# Why a stream for each renewal, called like a method of one request and one answer: gRPC's
# synchronous client starts a thread for every stream of requests, which a busy process has to run
# before the renewal goes out, and another that reads the answers. A call with one request runs in
# the calling thread alone, and is the same to etcd: a stream that its client half-closes after the
# first request, which etcd answers and then ends. And an answer is certainly that of its request:
# on a stream that stays open, a late one would be taken for that of the next request, and the
# validity counted from too late a send.

import itertools
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import grpc
from aetcd import rpc

from core.errors import StoreUnavailable
from core.logs import fields
from objdb.access import StoreAccess
from objdb.etcd.channel import OPTIONS, Channels, EtcdMember, credentials
from objdb.failover import ATTEMPT, Retry
from objdb.keepalive import REVOKE_BUDGET, Renew, RenewedLease, stop_all

log = logging.getLogger(__name__)

SHORTEST: Final = 2
"""Seconds; etcd grants no shorter lease."""


class EtcdLease(RenewedLease):
    """A lease of etcd; a `Lease`."""

    def __init__(self, leases: "EtcdLeases", lease_id: int, ttl: float, sent: float) -> None:
        self.id = lease_id
        self._channels = leases.channels
        super().__init__(
            leases.active,
            _renewer(leases.channels, lease_id),
            ttl=ttl,
            sent=sent,
            lone=len(leases.channels.access.endpoints) == 1,
        )

    async def end(self) -> None:
        """Revoke the lease in the store."""
        try:
            await self._channels.call(
                lambda member: member.lease.LeaseRevoke,
                rpc.LeaseRevokeRequest(ID=self.id),
                Retry.REPEAT,
                budget=REVOKE_BUDGET,
            )
        except StoreUnavailable as exc:
            # NOT_FOUND, an already ended lease, ends up here too.
            log.info("lease not revoked, it will expire", extra=fields(error=str(exc)))


class EtcdLeases:
    """All leases of one backend that are being renewed."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.active: set[RenewedLease] = set()

    async def grant(self, ttl: float) -> EtcdLease:
        """Return a new lease with renewals."""
        sent = 0.0

        def attempt(member: EtcdMember) -> Any:
            nonlocal sent
            sent = time.monotonic()
            return member.lease.LeaseGrant

        answer = await self.channels.call(
            attempt,
            rpc.LeaseGrantRequest(TTL=max(SHORTEST, round(ttl))),
            Retry.READ,  # a lease whose id was lost expires
            # each attempt may leave a lease behind, and the store work
            attempt=max(ATTEMPT, ttl / 2),
        )
        return EtcdLease(self, answer.ID, float(answer.TTL), sent)

    async def stop(self) -> None:
        """Stop all renewals."""
        await stop_all(self.active)


@contextmanager
def _renewer(channels: Channels, lease_id: int) -> Iterator[Renew]:
    """Renew at one member after the other; each has its channel."""
    access = channels.access
    with ExitStack() as opened:
        calls = itertools.cycle(
            _keep_alive(opened.enter_context(_channel(address, access)))
            for address in access.endpoints
        )
        call = next(calls)

        def renew(attempt: float) -> float | None:
            nonlocal call
            granted = _renewed(call, lease_id, attempt, channels.last_metadata)
            if granted is None:
                call = next(calls)
            return granted

        yield renew


def _renewed(call: Any, lease_id: int, attempt: float, metadata: Any) -> float | None:
    request = rpc.LeaseKeepAliveRequest(ID=lease_id)
    try:
        return float(call(request, timeout=attempt, metadata=metadata).TTL)
    except grpc.RpcError as exc:
        log.debug("lease renewal failed", extra=fields(error=str(exc)))
        return None


def _keep_alive(channel: grpc.Channel) -> Any:
    """Return the method LeaseKeepAlive with one request and one answer."""
    return channel.unary_unary(
        "/etcdserverpb.Lease/LeaseKeepAlive",
        request_serializer=rpc.LeaseKeepAliveRequest.SerializeToString,
        response_deserializer=rpc.LeaseKeepAliveResponse.FromString,
    )


def _channel(address: str, access: StoreAccess) -> grpc.Channel:
    if access.tls is None:
        return grpc.insecure_channel(address, options=OPTIONS)
    return grpc.secure_channel(address, credentials(access.tls), options=OPTIONS)
