"""The queue and the form in which spans go to a collector: the SDK of OpenTelemetry's part.

Imported by `daemons.traces` where there is a collector: half a second, and 14 MB.
"""

import socket
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from core.tracing.trace_context import Span, SpanRole
from core.version import VERSION

TIMEOUT: Final = 5.0
"""Seconds for the collector to take a batch; one that fails is sent again within them."""
QUEUE: Final = 2048
"""Spans that wait; what comes beside them is dropped."""

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_KINDS: Final = {
    SpanRole.SERVER: SpanKind.SERVER,
    SpanRole.CLIENT: SpanKind.CLIENT,
    SpanRole.INTERNAL: SpanKind.INTERNAL,
}


class SpanQueue:
    """Spans of a service on their way to a collector; a thread of the SDK's sends them."""

    def __init__(self, service: str, endpoint: str) -> None:
        about = {
            "service.name": service,
            "service.version": VERSION,
            "host.name": socket.gethostname(),
        }
        self._resource = Resource.create(about)
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=TIMEOUT)
        self._queue = BatchSpanProcessor(exporter, max_queue_size=QUEUE)

    def put(self, span: Span) -> None:
        """Take a span that ended; waits for nothing."""
        self._queue.on_end(_readable(span, self._resource))

    def close(self) -> None:
        """Send what waits, and end."""
        self._queue.shutdown()  # type: ignore[no-untyped-call]  # the SDK's


def _readable(span: Span, resource: Resource) -> ReadableSpan:
    above = span.parent and _context(span, span.parent, remote=span.kind is SpanRole.SERVER)
    return ReadableSpan(
        name=span.name,
        context=_context(span, span.span, remote=False),
        parent=above or None,
        resource=resource,
        attributes=dict(span.attributes),
        kind=_KINDS[span.kind],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.began,
        end_time=span.ended,
    )


def _context(span: Span, number: str, *, remote: bool) -> SpanContext:
    return SpanContext(int(span.trace, 16), int(number, 16), remote, _SAMPLED)
