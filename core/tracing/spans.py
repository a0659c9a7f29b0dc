"""Spans: what is done for a call from outside, and its parts.

A call (of `contivk8s`, an engine, a client of REST) begins a trace or continues the one that its
header names, with `received`. What ended goes to `export_to`'s receiver; without one a part costs
nothing, and only the trace is kept (`core.tracing.trace_context`).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from core.tracing.trace_context import CURRENT, Span, SpanRole, named_by

Receiver = Callable[[Span], None]
"""Takes spans that ended; called in the event loop, and must not wait."""

_receivers: Final[list[Receiver]] = []


def export_to(receiver: Receiver) -> Callable[[], None]:
    """Have each span that ends given to a receiver, until what is returned is called."""
    _receivers.append(receiver)
    return lambda: _receivers.remove(receiver)


def exported() -> bool:
    """Tell whether anybody takes spans."""
    return bool(_receivers)


def describe(attributes: Mapping[str, object]) -> None:
    """Say more of the span at hand."""
    current = CURRENT.get()
    if current is not None and _receivers:
        current.attributes.update((name, str(value)) for name, value in attributes.items())


@contextmanager
def received(name: str, header: str | None) -> Iterator[Span]:
    """Have the body be the work for a call from outside, of its header's trace or a new one."""
    trace, parent = named_by(header)
    with _within(Span(trace=trace, name=name, kind=SpanRole.SERVER, parent=parent)) as span:
        yield span


def part(name: str, kind: SpanRole = SpanRole.INTERNAL) -> AbstractContextManager[object]:
    """Have the body be a span of its own, if it is of a trace that is exported."""
    above = CURRENT.get()
    if above is None or not _receivers:
        return nullcontext()
    return _within(Span(trace=above.trace, name=name, kind=kind, parent=above.span))


@contextmanager
def _within(span: Span) -> Iterator[Span]:
    before = CURRENT.set(span)
    span.began = time.time_ns()
    try:
        yield span
    except BaseException as exc:
        span.error = str(exc) or type(exc).__name__
        raise
    finally:
        span.ended = time.time_ns()
        CURRENT.reset(before)
        for receiver in _receivers:
            receiver(span)
