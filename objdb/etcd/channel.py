"""Calls to etcd: one channel per endpoint (`objdb.failover`), a deadline on every attempt.

One channel for several addresses does not come back from a frozen member, and checks a TLS name
against the whole list (docs/notes/stores.md §1.1, §1.2). What gRPC raises becomes an error
of `core.errors` (`objdb.etcd.errors`). Must not know what the requests mean.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc
import grpc.aio
from aetcd import rpc

from core.errors import StoreDenied
from objdb.access import Access, Tls
from objdb.etcd.errors import detail, is_stale_token, is_transient, never_sent, translated
from objdb.failover import ATTEMPT, BUDGET, Effort, Failover, Missed, Retry

OPTIONS: Final[Sequence[tuple[str, int]]] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # the default backs off to 120 s: a member that was down for long would not be tried for long
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)

Metadata = tuple[tuple[str, str], ...]
GrpcMethod = Callable[["EtcdMember"], Any]
"""Picks a stub's method of a member, as `lambda member: member.kv.Range`."""


class EtcdMember:
    """One endpoint: its channel and its stubs."""

    def __init__(self, address: str, tls: Tls | None) -> None:
        self.address = address
        self.channel = (
            grpc.aio.insecure_channel(address, options=OPTIONS)
            if tls is None
            else grpc.aio.secure_channel(address, credentials(tls), options=OPTIONS)
        )
        self.kv = rpc.KVStub(self.channel)
        self.lease = rpc.LeaseStub(self.channel)
        self.watch = rpc.WatchStub(self.channel)
        self.auth = rpc.AuthStub(self.channel)


class Channels(Failover[EtcdMember]):
    """The members of one cluster; calls go to the current one until it fails."""

    def __init__(self, access: Access, *, budget: float = BUDGET) -> None:
        super().__init__(
            [EtcdMember(address, access.tls) for address in access.endpoints], budget=budget
        )
        self.access = access
        self._metadata: Metadata = ()
        self._authenticating = asyncio.Lock()

    @property
    def last_metadata(self) -> Metadata:
        """The metadata used last; for callers that must not wait."""
        return self._metadata

    async def metadata(self) -> Metadata:
        """Return what every call carries: the token, where there is a user."""
        if self.access.credentials is not None and not self._metadata:
            await self.authenticate(stale=())
        return self._metadata

    async def authenticate(self, *, stale: Metadata) -> None:
        """Get a new token, unless somebody has replaced the stale one already."""
        user = self.access.credentials
        if user is None:
            return
        async with self._authenticating:
            if self._metadata != stale:
                return
            request = rpc.AuthenticateRequest(name=user.user, password=user.password)
            effort = Effort(budget=self.budget)
            answer = await self._asked(lambda m: m.auth.Authenticate, request, effort, None)
            self._metadata = (("token", answer.token),)

    async def call(
        self,
        method: GrpcMethod,
        request: Any,
        retry: Retry = Retry.READ,
        *,
        attempt: float = ATTEMPT,
        budget: float | None = None,
    ) -> Any:
        """Send a request to one member after the other until one answers or time is up."""
        metadata = await self.metadata()
        effort = Effort(retry, attempt, self.budget if budget is None else budget)
        try:
            return await self._asked(method, request, effort, metadata)
        except StoreDenied as exc:
            # the server looks at the token first: a request with an old one has done nothing
            if not metadata or not is_stale_token(exc.__cause__):
                raise
        await self.authenticate(stale=metadata)
        return await self._asked(method, request, effort, self._metadata)

    async def close(self) -> None:
        """Close all channels; what is under way ends as StoreUnavailable."""
        self.closed = True
        for member in self.members:
            await member.channel.close(grace=None)

    async def _asked(
        self, method: GrpcMethod, request: Any, effort: Effort, metadata: Metadata | None
    ) -> Any:
        async def ask(member: EtcdMember) -> Any:
            try:
                return await method(member)(request, timeout=effort.attempt, metadata=metadata)
            except grpc.aio.AioRpcError as exc:
                if is_transient(exc):
                    raise Missed(detail(exc), sent=not never_sent(exc)) from exc
                raise translated(exc) from exc

        return await self.retried(ask, effort)


def credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Return certificates as gRPC wants them."""
    return grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert)
