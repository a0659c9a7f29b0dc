"""Calls to etcd: one channel per endpoint (`objdb.failover`), a deadline on every attempt.

gRPC errors become errors of `core.errors` (`objdb.etcd.grpc_errors`). The requests' meaning is in
the modules above.
"""

# Why not one gRPC channel with all addresses: such a channel stays on a frozen member, since only
# a broken connection makes it choose another, and it compares a server's TLS name with the whole
# list of addresses (docs/notes/stores.md §1.1, §1.2).

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc
import grpc.aio
from aetcd import rpc

from core.errors import StoreDenied, StoreUnavailable
from core.logs import fields
from core.retry import STORE
from objdb.access import StoreAccess, Tls
from objdb.etcd.grpc_errors import (
    detail,
    is_auth_disabled,
    is_old_revision,
    is_stale_token,
    is_transient,
    never_sent,
    translated,
)
from objdb.failover import ATTEMPT, BUDGET, Failover, NoAnswer, Retry, RetryPolicy

log = logging.getLogger(__name__)

OPTIONS: Final[Sequence[tuple[str, int]]] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # gRPC's default backoff grows to 120 s: a member that was down for a while would stay unused
    # for up to two minutes after its return.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)

Metadata = tuple[tuple[str, str], ...]
GrpcMethod = Callable[["EtcdMember"], Any]
"""Selects a stub's method of a member, such as `lambda member: member.kv.Range`."""


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
        self.maintenance = rpc.MaintenanceStub(self.channel)


class Channels(Failover[EtcdMember]):
    """The members of one cluster; calls go to the current one until it fails."""

    def __init__(self, access: StoreAccess, *, budget: float = BUDGET) -> None:
        super().__init__(
            [EtcdMember(address, access.tls) for address in access.endpoints], budget=budget
        )
        self.access = access
        self._metadata: Metadata = ()
        self._authenticating = asyncio.Lock()
        self._has_begun = False
        """Whether the store has given a token once."""
        self._users_off = False
        """Whether the store, which had users, asks for none now."""

    @property
    def last_metadata(self) -> Metadata:
        """The latest metadata; for the threads of leases, which cannot await a new token."""
        return self._metadata

    async def metadata(self) -> Metadata:
        """Return the metadata of every call: the token, if there is a user."""
        if self.access.credentials is not None and not self._metadata and not self._users_off:
            await self.authenticate(stale=())
        return self._metadata

    async def authenticate(self, *, stale: Metadata) -> None:
        """Get a new token, unless another task has replaced the stale one already.

        There is none while users are switched off. From the first token on that is no error:
        whoever maintains users may switch them off for a while.
        """
        user = self.access.credentials
        if user is None:
            return
        async with self._authenticating:
            if self._metadata != stale:
                return
            request = rpc.AuthenticateRequest(name=user.user, password=user.password)
            policy = RetryPolicy(budget=self.budget)
            try:
                answer = await self._send(lambda m: m.auth.Authenticate, request, policy, None)
            except StoreDenied as exc:
                if not (self._has_begun and is_auth_disabled(exc.__cause__)):
                    raise
                # Without users etcd still refuses tokens that it does not know.
                self._metadata, self._users_off = (), True
                return
            self._metadata = (("token", answer.token),)
            self._has_begun, self._users_off = True, False

    async def call(
        self,
        method: GrpcMethod,
        request: Any,
        retry: Retry = Retry.READ,
        *,
        attempt: float = ATTEMPT,
        budget: float | None = None,
    ) -> Any:
        """Send a request to one member after the other until one answers or the budget is used.

        A request with an old token is sent again with a new one.
        """
        policy = RetryPolicy(retry, attempt, self.budget if budget is None else budget)
        stop = time.monotonic() + policy.budget
        for delay in STORE.pauses():
            metadata = await self.metadata()
            try:
                return await self._send(method, request, policy, metadata)
            except StoreDenied as exc:
                # etcd checks the token before anything else, and the revision of users and roles
                # again before it applies a request. So a request that is refused for either was
                # not applied, and may be sent again for any `retry`.
                if not self._may_pass_later(exc):
                    raise
                if time.monotonic() > stop:
                    raise StoreUnavailable(
                        str(exc), outcome_unknown=retry is not Retry.READ
                    ) from exc
                log.debug("token of the store refused", extra=fields(error=str(exc)))
            if await self._replaced(metadata):
                continue
            await asyncio.sleep(delay)
        raise AssertionError("backoff never ends")

    def _may_pass_later(self, refusal: StoreDenied) -> bool:
        """Return whether a refusal is about the token or about a change of users or roles."""
        cause = refusal.__cause__
        has_user = self.access.credentials is not None
        return is_old_revision(cause) or (has_user and is_stale_token(cause))

    async def _replaced(self, stale: Metadata) -> bool:
        """Get a new token; return whether there is one now."""
        try:
            await self.authenticate(stale=stale)
        except StoreDenied as exc:
            if not is_stale_token(exc.__cause__):  # another change may come between
                raise
        return self._metadata != stale

    async def close(self) -> None:
        """Close all channels; calls in flight end with StoreUnavailable."""
        self.closed = True
        for member in self.members:
            await member.channel.close(grace=None)

    async def _send(
        self, method: GrpcMethod, request: Any, policy: RetryPolicy, metadata: Metadata | None
    ) -> Any:
        async def ask(member: EtcdMember, attempt: float) -> Any:
            try:
                return await method(member)(request, timeout=attempt, metadata=metadata)
            except grpc.aio.AioRpcError as exc:
                if is_transient(exc) and not is_stale_token(exc):
                    raise NoAnswer(detail(exc), sent=not never_sent(exc)) from exc
                raise translated(exc) from exc

        return await self.call_members(ask, policy)


def credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Return the certificates as gRPC credentials."""
    return grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert)
