"""`objdb.etcd.grpc_errors`: what etcd's errors about tokens, users and roles mean."""

import grpc
import grpc.aio
import pytest

from core.errors import StoreDenied, StoreUnavailable
from objdb.etcd.grpc_errors import is_old_revision, is_stale_token, translated

_Code = grpc.StatusCode


def error(code: grpc.StatusCode, text: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=text, debug_error_string=None
    )


@pytest.mark.parametrize(
    ("code", "text", "is_old"),
    [
        (_Code.UNAUTHENTICATED, "etcdserver: invalid auth token", False),
        (_Code.INVALID_ARGUMENT, "etcdserver: invalid auth token", False),
        (_Code.INVALID_ARGUMENT, "etcdserver: revision of auth store is old", True),
        (_Code.UNKNOWN, "auth: revision in header is old", True),
        (_Code.INVALID_ARGUMENT, "etcdserver: user name is empty", False),
        (_Code.FAILED_PRECONDITION, "etcdserver: user name is empty", False),
    ],
)
def test_a_token_that_may_be_replaced(code: grpc.StatusCode, text: str, *, is_old: bool) -> None:
    found = error(code, text)
    assert is_stale_token(found)
    assert is_old_revision(found) is is_old
    assert isinstance(translated(found), StoreDenied)


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (_Code.PERMISSION_DENIED, "etcdserver: permission denied", StoreDenied),
        (_Code.INVALID_ARGUMENT, "etcdserver: authentication failed", StoreDenied),
        (_Code.FAILED_PRECONDITION, "etcdserver: authentication is not enabled", StoreDenied),
        (_Code.UNAVAILABLE, "etcdserver: leader changed", StoreUnavailable),
        (_Code.UNKNOWN, "something", StoreUnavailable),
    ],
)
def test_what_no_other_token_mends(code: grpc.StatusCode, text: str, kind: type[Exception]) -> None:
    found = error(code, text)
    assert not is_stale_token(found)
    assert type(translated(found)) is kind
