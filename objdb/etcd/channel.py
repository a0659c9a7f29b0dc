"""Calls to etcd: one channel per endpoint, own rotation, a deadline on every attempt.

One channel for several addresses does not come back from a frozen member, and checks a TLS name
against the whole list (spec/store-notes.md §1.1, §1.2). Here a member that does not answer an
attempt in time is left for the next one; what gRPC raises becomes an error of `core.errors`
(`objdb.etcd.answers`). Must not know what the requests mean.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import grpc
import grpc.aio
from aetcd import rpc

from core.errors import StoreDenied, StoreUnavailable
from core.logs import fields
from core.tasks import backoff
from objdb.etcd.answers import detail, is_stale_token, is_transient, never_sent, translated

log = logging.getLogger(__name__)

ATTEMPT: Final = 1.0
"""Seconds a member has to answer; a frozen member costs a call this much once."""

BUDGET: Final = 10.0
"""Seconds after which a call gives up on all members."""

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
Method = Callable[["Member"], Any]
"""Picks a stub's method of a member, as `lambda member: member.kv.Range`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM texts: the authority that signed the servers, and our own certificate and key."""

    ca: bytes
    cert: bytes | None = None
    key: bytes | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Return them as gRPC wants them."""
        return grpc.ssl_channel_credentials(self.ca, self.key, self.cert)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user of etcd."""

    user: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach a cluster: `host:port` of its members, and what they ask of a client."""

    endpoints: tuple[str, ...]
    tls: Tls | None = None
    credentials: Credentials | None = None


class Retry(Enum):
    """What may be done about a request whose answer is missing."""

    READ = "it changes nothing: send it again"
    REPEAT = "it is safe to apply twice: send it again; at last its outcome is unknown"
    ONCE = "it must not be applied twice: give up, its outcome is unknown"


@dataclass(frozen=True, slots=True)
class _Effort:
    """How a call is tried: seconds for each attempt and for all of them."""

    retry: Retry
    attempt: float
    budget: float


class Member:
    """One endpoint: its channel and its stubs."""

    def __init__(self, address: str, tls: Tls | None) -> None:
        self.address = address
        self.channel = (
            grpc.aio.insecure_channel(address, options=OPTIONS)
            if tls is None
            else grpc.aio.secure_channel(address, tls.credentials(), options=OPTIONS)
        )
        self.kv = rpc.KVStub(self.channel)
        self.lease = rpc.LeaseStub(self.channel)
        self.watch = rpc.WatchStub(self.channel)
        self.auth = rpc.AuthStub(self.channel)


class Channels:
    """The members of one cluster; calls go to the current one until it fails."""

    def __init__(self, access: Access, *, budget: float = BUDGET) -> None:
        self.access = access
        self.budget = budget
        self.closed = False
        self._members = [Member(address, access.tls) for address in access.endpoints]
        self._index = 0
        self._metadata: Metadata = ()
        self._authenticating = asyncio.Lock()

    @property
    def current(self) -> Member:
        """The member calls go to now."""
        return self._members[self._index]

    @property
    def last_metadata(self) -> Metadata:
        """The metadata used last; for callers that must not wait."""
        return self._metadata

    def rotate(self, failed: Member) -> None:
        """Go on to the next member, unless somebody has left the failed one already."""
        if self.current is failed:
            self._index = (self._index + 1) % len(self._members)

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
            effort = _Effort(Retry.READ, ATTEMPT, self.budget)
            answer = await self._retried(lambda m: m.auth.Authenticate, request, effort, None)
            self._metadata = (("token", answer.token),)

    async def call(
        self,
        method: Method,
        request: Any,
        retry: Retry = Retry.READ,
        *,
        attempt: float = ATTEMPT,
        budget: float | None = None,
    ) -> Any:
        """Send a request to one member after the other until one answers or time is up."""
        metadata = await self.metadata()
        effort = _Effort(retry, attempt, self.budget if budget is None else budget)
        try:
            return await self._retried(method, request, effort, metadata)
        except StoreDenied as exc:
            # the server looks at the token first: a request with an old one has done nothing
            if not metadata or not is_stale_token(exc.__cause__):
                raise
        await self.authenticate(stale=metadata)
        return await self._retried(method, request, effort, self._metadata)

    async def close(self) -> None:
        """Close all channels; what is under way ends as StoreUnavailable."""
        self.closed = True
        for member in self._members:
            await member.channel.close(grace=None)

    async def _retried(
        self, method: Method, request: Any, effort: _Effort, metadata: Metadata | None
    ) -> Any:
        stop = time.monotonic() + effort.budget
        retry = effort.retry
        unknown = False
        for delay in backoff(0.02, 0.25):
            if self.closed:
                raise StoreUnavailable("the store client is closed", outcome_unknown=unknown)
            member = self.current
            try:
                return await method(member)(request, timeout=effort.attempt, metadata=metadata)
            except grpc.aio.AioRpcError as exc:
                if not is_transient(exc):
                    raise translated(exc) from exc
                self.rotate(member)
                unknown = unknown or (retry is not Retry.READ and not never_sent(exc))
                if time.monotonic() > stop or (unknown and retry is Retry.ONCE):
                    raise StoreUnavailable(
                        f"store {member.address}: {detail(exc)}", outcome_unknown=unknown
                    ) from exc
                log.debug(
                    "store did not answer", extra=fields(peer=member.address, error=detail(exc))
                )
            except asyncio.CancelledError:
                if is_ours_to_take(self):
                    raise StoreUnavailable(
                        "the store client is closed", outcome_unknown=retry is not Retry.READ
                    ) from None
                raise
            await asyncio.sleep(delay)
        raise AssertionError("backoff never ends")


def is_ours_to_take(channels: Channels) -> bool:
    """Return whether a CancelledError came from closing the channels, not from a cancelled task."""
    task = asyncio.current_task()
    return channels.closed and not (task is not None and task.cancelling())
