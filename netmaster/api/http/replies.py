"""The shapes of answers: JSON with a newline, errors as plain text.

Source: docs/original/netmaster-rest.md §1.
"""

from typing import Any, Final

from aiohttp import web

from contivmodel.outcome import HEADER, Outcome
from contivmodel.wire import dumps
from core.errors import (
    AgentUnavailable,
    ContivError,
    NotFound,
    NotLeader,
    StoreUnavailable,
    outcome_is_unknown,
)
from netmaster.api.http import problems
from netmaster.auth.login import LoginDelayed

NOT_FOUND_TEXT: Final = "404 page not found"

_JSON: Final = {"Content-Type": "application/json"}
_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}
_ERROR: Final = {**_TEXT, "X-Content-Type-Options": "nosniff"}


def json_reply(value: Any) -> web.Response:
    """Return a value, models inside it included, as the original's object routes do."""
    return json_body(dumps(value))


def json_body(body: bytes) -> web.Response:
    """Return JSON that is encoded already."""
    return json_line(body + b"\n")


def json_line(line: bytes) -> web.Response:
    """Return encoded JSON that ends with a newline."""
    return web.Response(body=line, headers=_JSON)


def bare_json(value: Any) -> web.Response:
    """Return a value as the original's `/version` and `/info` do: no newline, sniffed as text."""
    return web.Response(body=dumps(value), headers=_TEXT)


def plain(text: str) -> web.Response:
    """Return a text as it is."""
    return web.Response(body=text.encode(), headers=_TEXT)


def error(status: int, text: str) -> web.Response:
    """Return a failure; the text is the whole answer."""
    return web.Response(status=status, body=f"{text}\n".encode(), headers=_ERROR)


def failure(request: web.BaseRequest, status: int, text: str) -> web.Response:
    """Return a failure that is no error of `core.errors`, in the form of the request's API."""
    if problems.is_asked_by(request.raw_path):
        return problem(problems.of_status(status), text)
    return error(status, text)


def problem(
    kind: problems.ProblemKind, detail: str, faults: list[problems.FieldFault] | None = None
) -> web.Response:
    """Return a failure of API v2."""
    body = problems.body(kind, detail, faults)
    return web.Response(status=kind.status, body=body, headers={"Content-Type": problems.MEDIA})


def refusal(request: web.BaseRequest, exc: ContivError) -> web.Response:
    """Return an error of `core.errors` with the status of its class, and what became of the change.

    With `Retry-After` if it passes: the store or the leader was unavailable, or logins are delayed.
    """
    if outcome_is_unknown(exc) and may_change(request):
        return unknown_outcome(request, str(exc))
    if problems.is_asked_by(request.raw_path):
        answer = problem(problems.kind_of(exc), str(exc), problems.faults_of(exc))
    else:
        answer = error(exc.http_status, str(exc))
    if isinstance(exc, NotFound):
        answer.headers[HEADER] = Outcome.ABSENT
    elif not isinstance(exc, AgentUnavailable):  # raised by changes that are made
        answer.headers[HEADER] = Outcome.REFUSED
    if isinstance(exc, LoginDelayed):
        answer.headers["Retry-After"] = str(exc.retry_after)
    if isinstance(exc, StoreUnavailable | NotLeader | problems.TooManyAtOnce):
        answer.headers["Retry-After"] = "1"
    return answer


def unknown_outcome(request: web.BaseRequest, reason: str) -> web.Response:
    """Return the answer to a change that may have been made, or may be made yet."""
    what = f"{request.method} {request.raw_path} may have been done"
    if problems.is_asked_by(request.raw_path):
        answer = problem(problems.UNKNOWN_OUTCOME, f"{what}: {reason}")
    else:
        # 500, since the original's clients show the text of no other status.
        answer = error(500, f"outcome unknown: {what}; ask again: {reason}")
    answer.headers[HEADER] = Outcome.UNKNOWN
    answer.headers["Retry-After"] = "1"
    return answer


def may_change(request: web.BaseRequest) -> bool:
    """Return whether a request may change anything, by its method."""
    return request.method not in {"GET", "HEAD", "OPTIONS"}


def not_found() -> web.Response:
    """Return the answer to unknown paths and wrong methods."""
    return error(404, NOT_FOUND_TEXT)


def moved(location: str) -> web.Response:
    """Return the redirect of an unclean path."""
    return web.Response(status=301, headers={"Location": location})
