"""Sends spans (`core.tracing.spans`) to a collector of OpenTelemetry, by OTLP over HTTP.

Off without an address, and then the SDK is not even imported. A queue of bounded length and a
thread of the SDK's are between the daemon and the collector: one that is slow or away costs spans,
never work.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from core.errors import UsageError
from core.tracing import spans
from core.tracing.trace_context import Span, SpanRole
from core.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

TIMEOUT: Final = 5.0
"""Seconds for the collector to take a batch; one that fails is sent again within them."""
QUEUE: Final = 2048
"""Spans that wait; what comes beside them is dropped."""


def checked(endpoint: str) -> str:
    """Return the address of a collector. Raises UsageError for what is none."""
    parts = urlsplit(endpoint)
    if endpoint and (parts.scheme not in {"http", "https"} or not parts.hostname):
        raise UsageError(
            f"invalid --trace-endpoint {endpoint!r}: want http://host:4318/v1/traces, or https"
        )
    return endpoint


@contextmanager
def exported(service: str, endpoint: str) -> Iterator[None]:
    """Send the spans of the body to a collector; none if it has no address ("")."""
    if not endpoint:
        yield
        return
    # Half a second and 14 MB of imports, for the few who have a collector.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    resource = Resource.create(
        {
            "service.name": service,
            "service.version": VERSION,
            "host.name": socket.gethostname(),
        }
    )
    queue = BatchSpanProcessor(
        OTLPSpanExporter(endpoint=endpoint, timeout=TIMEOUT), max_queue_size=QUEUE
    )

    def receive(span: Span) -> None:
        queue.on_end(_readable(span, resource))

    end = spans.export_to(receive)
    try:
        yield
    finally:
        end()
        queue.shutdown()  # type: ignore[no-untyped-call]  # the SDK's


def _readable(span: Span, resource: "Resource") -> "ReadableSpan":
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415
    from opentelemetry.trace import (  # noqa: PLC0415
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TraceFlags,
    )

    def context(number: str, *, remote: bool) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(span.trace, 16), int(number, 16), remote, flags)

    kinds = {
        SpanRole.SERVER: SpanKind.SERVER,
        SpanRole.CLIENT: SpanKind.CLIENT,
        SpanRole.INTERNAL: SpanKind.INTERNAL,
    }
    return ReadableSpan(
        name=span.name,
        context=context(span.span, remote=False),
        parent=context(span.parent, remote=span.kind is SpanRole.SERVER) if span.parent else None,
        resource=resource,
        attributes=dict(span.attributes),
        kind=kinds[span.kind],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.began,
        end_time=span.ended,
    )
