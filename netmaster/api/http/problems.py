"""Errors of API v2: `application/problem+json` (RFC 9457) with a status that means something.

API v1 answers 500 and plain text for nearly everything, as the original does
(`netmaster.api.http.replies`); v2 has a kind of problem for each class of `core.errors`, with what
a client can do about it. Pure.
"""

from dataclasses import dataclass
from typing import Annotated, Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from contivmodel.representation import InvalidFields
from contivmodel.wire import dumps
from core.errors import (
    AgentUnavailable,
    Conflict,
    ContivError,
    Exhausted,
    Invalid,
    Malformed,
    NotFound,
    NotLeader,
    NotSupported,
    PreconditionFailed,
    QuotaExceeded,
    StoreFull,
    StoreUnavailable,
    TooLarge,
)
from daemons.browsers import CrossSiteRequest
from netmaster.auth.roles import AccessDenied, NotAuthenticated

PREFIX: Final = "/api/v2/"
MEDIA: Final = "application/problem+json"
TYPE: Final = "urn:contiv:problem:"


class KeyReused(Invalid):
    """The idempotency key of the request stands for another request that was made."""


class UnsupportedMedia(ContivError):
    """The body of the request has a type that is not read."""

    http_status = 415


class TooManyAtOnce(ContivError):
    """So many requests of this kind are answered already, in all or of this client."""

    http_status = 429


class TooManyWatches(TooManyAtOnce):
    """The limit of open watches is reached."""

    http_status = 503


class FieldFault(TypedDict):
    """A fault of one field."""

    pointer: Annotated[str, Field(description="the field (RFC 6901)")]
    detail: str


class Problem(TypedDict):
    """A failure (RFC 9457)."""

    type: Annotated[str, Field(description="what kind of problem it is, as a URN")]
    title: Annotated[str, Field(description="the kind of problem in words")]
    status: int
    detail: Annotated[str, Field(description="why, with the names of objects")]
    remedy: NotRequired[Annotated[str, Field(description="what to do")]]
    errors: NotRequired[Annotated[list[FieldFault], Field(description="faults of single fields")]]


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """What all problems of a kind have in common: the end of their type, status and remedy."""

    name: str
    status: int
    title: str
    remedy: str


MALFORMED: Final = ProblemKind(
    "malformed-request",
    400,
    "the request cannot be read",
    "correct the parameter, header or body that `detail` names",
)
NOT_FOUND: Final = ProblemKind(
    "not-found", 404, "not found", "list the collection for what there is; create the object first"
)
NO_PATH: Final = ProblemKind(
    "no-such-path", 404, "no such path", "see docs/api-v2.md or `/openapi.json` for the paths"
)
NO_METHOD: Final = ProblemKind(
    "method-not-allowed",
    405,
    "the path has no such method",
    "use a method of the header Allow",
)
TOO_LARGE: Final = ProblemKind("too-large", 413, "too large", "send less, or in parts")
UNKNOWN_OUTCOME: Final = ProblemKind(
    "outcome-unknown",
    503,
    "the change may have been made, or may be made yet",
    "wait as Retry-After says; send the request again with the same Idempotency-Key, or read "
    "the object to see whether it was changed",
)
NO_LEADER_ANSWER: Final = ProblemKind(
    "leader-unreachable",
    502,
    "the leader does not answer; nothing was changed",
    "wait as Retry-After says and send the request again",
)
INTERNAL: Final = ProblemKind(
    "internal-error", 500, "internal error", "report it, with netmaster's log"
)
_BY_CLASS: Final[tuple[tuple[type[ContivError], ProblemKind], ...]] = (
    (Malformed, MALFORMED),
    (
        KeyReused,
        ProblemKind(
            "idempotency-key-reused",
            422,
            "the idempotency key stands for another request",
            "use a new Idempotency-Key for each change",
        ),
    ),
    (
        Invalid,
        ProblemKind(
            "invalid-value",
            422,
            "the object cannot be as it was sent",
            "correct the fields that `errors` or `detail` names",
        ),
    ),
    (NotSupported, MALFORMED),
    (
        UnsupportedMedia,
        ProblemKind(
            "unsupported-media-type",
            415,
            "the body's type is not supported",
            "send application/json, or application/merge-patch+json with PATCH",
        ),
    ),
    (NotFound, NOT_FOUND),
    (
        PreconditionFailed,
        ProblemKind(
            "precondition-failed",
            412,
            "the object is not as the precondition wants it",
            "read the object, decide again, and send its present ETag",
        ),
    ),
    (
        Exhausted,
        ProblemKind(
            "exhausted", 409, "nothing left to grant", "delete what is not used, or widen the pool"
        ),
    ),
    (
        Conflict,
        ProblemKind(
            "conflict",
            409,
            "the present state does not allow it",
            "read the objects that `detail` names and change or delete them first",
        ),
    ),
    (TooLarge, TOO_LARGE),
    (
        NotAuthenticated,
        ProblemKind(
            "not-authenticated",
            401,
            "the client is not known",
            "use a certificate of this cluster, or log in and send the token in X-Auth-Token",
        ),
    ),
    (
        AccessDenied,
        ProblemKind(
            "access-denied",
            403,
            "the client may not do that",
            "ask an administrator for the right, or for the change",
        ),
    ),
    (
        QuotaExceeded,
        ProblemKind(
            "quota-exceeded",
            403,
            "the tenant has as much as it may have; nothing was changed",
            "delete what is not used, or ask an administrator for a higher quota",
        ),
    ),
    (
        CrossSiteRequest,
        ProblemKind(
            "cross-site-request",
            403,
            "a browser sent the request for a page of another site; nothing was changed",
            "open the page of this server, or have the other page's origin named in "
            "--trusted-origins",
        ),
    ),
    (
        TooManyWatches,
        ProblemKind(
            "too-many-watches",
            503,
            "too many watches are open",
            "close some, or ask another master; wait as Retry-After says",
        ),
    ),
    (
        TooManyAtOnce,
        ProblemKind(
            "too-many-at-once",
            429,
            "too many requests of this kind are being answered; nothing was changed",
            "wait as Retry-After says and send the request again, and fewer at a time",
        ),
    ),
    (
        NotLeader,
        ProblemKind(
            "no-leader",
            503,
            "no master leads; nothing was changed",
            "wait as Retry-After says and send the request again",
        ),
    ),
    (
        AgentUnavailable,
        ProblemKind(
            "agent-unreachable",
            502,
            "the agent of a host does not answer, or not as it should",
            "see what `netctl host inspect` says of the host that `detail` names",
        ),
    ),
    (
        StoreFull,
        ProblemKind(
            "store-full",
            503,
            "the store is full; nothing was changed",
            "delete objects, or have an operator free space in the store",
        ),
    ),
    (
        StoreUnavailable,
        ProblemKind(
            "store-unavailable",
            503,
            "the store is not available; nothing was changed",
            "wait as Retry-After says and send the request again",
        ),
    ),
)
"""By class, subclasses before their bases; others have the status of their class."""

KINDS: Final = (
    *dict.fromkeys(kind for _, kind in _BY_CLASS),
    *(NO_PATH, NO_METHOD, UNKNOWN_OUTCOME, NO_LEADER_ANSWER, INTERNAL),
)
"""All kinds that have a type of their own."""


def is_asked_by(path: str) -> bool:
    """Return whether a path is one of API v2."""
    return path.startswith(PREFIX)


def kind_of(exc: ContivError) -> ProblemKind:
    """Return the kind of problem that an error is."""
    for error, kind in _BY_CLASS:
        if isinstance(exc, error):
            return kind
    status = exc.http_status
    return INTERNAL if status == INTERNAL.status else ProblemKind("", status, "failed", "")


def of_status(status: int) -> ProblemKind:
    """Return the kind of problem that a status alone stands for."""
    found = (TOO_LARGE, NO_LEADER_ANSWER, INTERNAL)
    return next((kind for kind in found if kind.status == status), INTERNAL)


def faults_of(exc: ContivError) -> list[FieldFault]:
    """Return the faults of single fields, as a problem shows them (RFC 9457 §3.2)."""
    if not isinstance(exc, InvalidFields):
        return []
    return [{"pointer": f"#/{name}", "detail": text} for name, text in exc.faults]


def body(kind: ProblemKind, detail: str, faults: list[FieldFault] | None = None) -> bytes:
    """Return the body of a failure."""
    problem: Problem = {
        "type": TYPE + kind.name if kind.name else "about:blank",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
    }
    if kind.remedy:
        problem["remedy"] = kind.remedy
    if faults:
        problem["errors"] = faults
    return dumps(problem) + b"\n"
