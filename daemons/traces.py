"""Sends spans (`core.tracing.spans`) to a collector of OpenTelemetry, by OTLP over HTTP.

Off without an address, and then the SDK is not even imported (`daemons.otlp`). A queue of bounded
length and a thread of the SDK's are between the daemon and the collector: one that is slow or away
costs spans, never work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from core.errors import UsageError
from core.tracing import spans


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
    from daemons.otlp import SpanQueue  # noqa: PLC0415 - for the few who have a collector

    queue = SpanQueue(service, endpoint)
    end = spans.export_to(queue.put)
    try:
        yield
    finally:
        end()
        queue.close()
