"""Translates gRPC's codes and etcd's texts into errors of `core.errors`.

The codes alone are ambiguous (docs/notes/stores.md §1.2, §1.3), so this module also matches
etcd's texts; no other module does. An error that an operator must fix names the remedy.
"""

from collections.abc import Mapping
from typing import Final

import grpc
import grpc.aio

from core.errors import ContivError, StoreDenied, StoreFull, StoreUnavailable, TooLarge

_Code = grpc.StatusCode
_TRANSIENT: Final = frozenset(
    {
        _Code.UNAVAILABLE,
        _Code.DEADLINE_EXCEEDED,
        _Code.CANCELLED,
        _Code.UNKNOWN,
        _Code.INTERNAL,
        _Code.ABORTED,
    }
)
_DENIALS: Final = frozenset({_Code.PERMISSION_DENIED, _Code.UNAUTHENTICATED})
_REFUSALS: Final = _DENIALS | {_Code.INVALID_ARGUMENT, _Code.FAILED_PRECONDITION}
_AUTH_DISABLED: Final = "authentication is not enabled"
_REMEDIES: Final[Mapping[str, str]] = {
    "authentication failed": ": check --store-user and the file of --store-password-file",
    "user name is empty": ": it asks for a user, name one with --store-user",
    _AUTH_DISABLED: ": it knows no users, leave out --store-user",
    "permission denied": (
        ": --store-user, else the client's certificate, names the user; it needs a role that may "
        "read and write under /contiv.io/"
    ),
}
"""Part of etcd's error text -> remedy."""

_OLD_REVISION: Final = ("revision of auth store is old", "auth: revision in header is old")
_STALE: Final = (*_OLD_REVISION, "invalid auth token", "user name is empty")
"""Texts about a token, or a request, from before a change of users or roles."""

ALARM: Final = "alarm:"
"""How a member's status words an alarm, with its name behind."""
NOSPACE: Final = "nospace"
CORRUPT: Final = "corrupt"
"""What a member's status says of a full store."""
FULL: Final = (
    "the store is full and takes no writes (etcd's alarm NOSPACE); reads and deletes go on: "
    "make room with `etcdctl compact <revision>` and `etcdctl defrag`, or raise "
    "--quota-backend-bytes, then `etcdctl alarm disarm`"
)


def is_transient(exc: grpc.aio.AioRpcError) -> bool:
    """Return whether another attempt, possibly at another member, may succeed."""
    return exc.code() in _TRANSIENT or (
        exc.code() is _Code.RESOURCE_EXHAUSTED and "too many requests" in detail(exc)
    )


def never_sent(exc: grpc.aio.AioRpcError) -> bool:
    """Return whether the request certainly did not reach a server."""
    # UNAVAILABLE alone does not tell: it is also the code of a connection that broke after the
    # request was sent.
    return exc.code() is _Code.UNAVAILABLE and detail(exc).startswith("failed to connect to all")


def is_stale_token(exc: BaseException | None) -> bool:
    """Return whether the server rejected the token, and a new one may be accepted.

    A token may have expired, be unknown to the member, or be from before a change of users or
    roles: a JWT names the revision of users and roles that it was made for.
    """
    # The texts first: by release and call, etcd sends them as INVALID_ARGUMENT, FAILED_PRECONDITION
    # or UNKNOWN.
    return isinstance(exc, grpc.aio.AioRpcError) and (
        exc.code() is _Code.UNAUTHENTICATED or is_about_token(detail(exc))
    )


def is_about_token(text: str) -> bool:
    """Return whether the text of an error is one of `is_stale_token`."""
    return any(part in text for part in _STALE)


def is_old_revision(exc: BaseException | None) -> bool:
    """Return whether users or roles changed while the server worked on the request.

    That happens to a client whose user is that of its certificate as well.
    """
    return isinstance(exc, grpc.aio.AioRpcError) and any(
        part in detail(exc) for part in _OLD_REVISION
    )


def is_auth_disabled(exc: BaseException | None) -> bool:
    """Return whether the server asks no client for a user."""
    return isinstance(exc, grpc.aio.AioRpcError) and _AUTH_DISABLED in detail(exc)


def is_out_of_range(exc: BaseException | None) -> bool:
    """Return whether a revision was asked for that is compacted, or in the future."""
    return isinstance(exc, grpc.aio.AioRpcError) and exc.code() is _Code.OUT_OF_RANGE


def translated(exc: grpc.aio.AioRpcError) -> ContivError:
    """Return the error of `core.errors` for a permanent failure."""
    text = f"store: {detail(exc)}"
    if exc.code() in _REFUSALS or is_stale_token(exc):
        remedy = next((remedy for part, remedy in _REMEDIES.items() if part in text), "")
        if remedy or exc.code() in _DENIALS or "auth" in text:
            return StoreDenied(f"{text}{remedy}")
    if "database space exceeded" in text:
        return StoreFull(FULL)
    if any(part in text for part in ("too large", "too many operations", "larger than max")):
        return TooLarge(text)
    return StoreUnavailable(text)


def detail(exc: grpc.aio.AioRpcError) -> str:
    """Return the text of an error."""
    return exc.details() or exc.code().name
