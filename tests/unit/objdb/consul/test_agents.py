"""`objdb.consul.agents`: translation of consul's errors."""

import pytest
from consul.exceptions import (
    ACLDisabled,
    ACLPermissionDenied,
    BadRequest,
    ClientError,
    ConsulException,
    Timeout,
)

from core.errors import StoreDenied, StoreUnavailable, TooLarge
from objdb.consul.agents import UnknownToken, translated
from objdb.failover import NoAnswer


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (ACLPermissionDenied("Permission denied"), StoreDenied, "CONSUL_HTTP_TOKEN"),
        (ACLPermissionDenied("ACL not found"), UnknownToken, "CONSUL_HTTP_TOKEN"),
        (ACLDisabled("ACL support disabled"), StoreDenied, "ACL support disabled"),
        (ConsulException("500 No cluster leader"), NoAnswer, "No cluster leader"),
        (Timeout(), NoAnswer, ""),
        (ClientError("429 rate limit"), NoAnswer, "rate limit"),
        (ClientError("413 too large"), TooLarge, "413 too large"),
        (ClientError("405 no"), StoreUnavailable, "405 no"),
        (
            BadRequest("400 Client sent an HTTP request to an HTTPS server."),
            StoreUnavailable,
            "name it with https://",
        ),
    ],
)
def test_errors(raised: ConsulException, kind: type[Exception], text: str) -> None:
    error = translated(raised)
    assert type(error) is kind
    assert text in str(error)
