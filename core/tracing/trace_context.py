"""Which trace the work at hand is of, by W3C Trace Context (https://www.w3.org/TR/trace-context-1/).

`core.tracing.spans` begins and ends traces. What is done for one knows it by the context that tasks
inherit: lines of logs have `trace_id`, requests to other daemons the header.
"""

import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

HEADER: Final = "traceparent"
_FORM: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")


class SpanRole(StrEnum):
    """What a span is to the one above it (SpanKind of OpenTelemetry)."""

    SERVER = "server"
    CLIENT = "client"
    INTERNAL = "internal"


@dataclass(slots=True, kw_only=True)
class Span:
    """A piece of work within a trace. Times are nanoseconds since the epoch; `ended` 0: not yet.

    `parent` is the span above it, "" at the top, which another process may have. `error` is why it
    failed.
    """

    trace: str
    name: str
    kind: SpanRole
    parent: str = ""
    span: str = field(default_factory=lambda: secrets.token_hex(8))
    began: int = 0
    ended: int = 0
    error: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


CURRENT: Final[ContextVar[Span | None]] = ContextVar("span", default=None)


def trace_id() -> str | None:
    """Return the trace of the work at hand; None if it is of none."""
    current = CURRENT.get()
    return None if current is None else current.trace


def headers() -> Mapping[str, str]:
    """Return what a request says of the trace that it is of."""
    current = CURRENT.get()
    return {} if current is None else {HEADER: f"00-{current.trace}-{current.span}-01"}


def named_by(header: str | None) -> tuple[str, str]:
    """Return trace and span that a header names; a new trace and "" for none.

    One that is not well-formed is taken for none, as the standard has it.
    """
    found = _FORM.fullmatch(header or "")
    return (found[1], found[2]) if found else (secrets.token_hex(16), "")
