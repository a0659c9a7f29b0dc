"""Errors of API v2: `application/problem+json` (RFC 9457) with a status that means something.

API v1 answers 500 and plain text for nearly everything, as the original does
(`netmaster.api.replies`); v2 has a status for each class of `core.errors`. Pure.
"""

from typing import Final

from contivmodel.wire import dumps
from core.errors import (
    Conflict,
    ContivError,
    Exhausted,
    Invalid,
    NotFound,
    NotLeader,
    StoreUnavailable,
    TooLarge,
)

PREFIX: Final = "/api/v2/"
MEDIA: Final = "application/problem+json"

_STATUS: Final[tuple[tuple[type[ContivError], int, str], ...]] = (
    (Invalid, 400, "invalid request"),
    (NotFound, 404, "not found"),
    (Conflict, 409, "conflict"),
    (Exhausted, 409, "nothing left to grant"),
    (TooLarge, 413, "too large"),
    (NotLeader, 503, "no leader"),
    (StoreUnavailable, 503, "the store is not available"),
)
"""By class, subclasses before their bases; others have the status of their class."""


def is_asked_by(path: str) -> bool:
    """Return whether a path is one of API v2."""
    return path.startswith(PREFIX)


def status_of(exc: ContivError) -> tuple[int, str]:
    """Return the status of an error and what all errors of its class have in common."""
    for kind, status, title in _STATUS:
        if isinstance(exc, kind):
            return status, title
    return exc.http_status, "failed"


def body(status: int, title: str, detail: str) -> bytes:
    """Return the body of a failure."""
    problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return dumps(problem) + b"\n"
