"""Spans arrive at a collector, as the field's own definition of OTLP reads them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from core.errors import UsageError
from core.tracing import spans
from core.tracing.trace_context import SpanRole
from daemons import traces
from tests.bed.trace_collector import collecting_traces

TRACE, PARENT = "4b" * 16, "a0" * 8


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Take what is exported; give the address, and what has come."""
    listener = socket.create_server(("127.0.0.1", 0))
    with collecting_traces(listener, status) as got:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces", got


def test_spans_arrive_with_all_that_is_known_of_them() -> None:
    with collector() as (address, got), traces.exported("netplugin", address):
        with spans.received("ADD", f"00-{TRACE}-{PARENT}-01"):
            spans.describe({"pod": "web"})
            with pytest.raises(OSError, match="no link"), spans.part("link", SpanRole.CLIENT):
                raise OSError("no link")
        with spans.received("DEL", None):
            pass
    (exported,) = (one for request in got for one in request.resource_spans)
    said = {one.key: one.value.string_value for one in exported.resource.attributes}
    assert said["service.name"] == "netplugin"
    found = {one.name: one for scope in exported.scope_spans for one in scope.spans}
    add, link = found["ADD"], found["link"]
    assert (add.trace_id.hex(), add.parent_span_id.hex()) == (TRACE, PARENT)
    assert (link.trace_id, link.parent_span_id) == (add.trace_id, add.span_id)
    assert (add.kind, link.kind) == (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT)
    assert [(one.key, one.value.string_value) for one in add.attributes] == [("pod", "web")]
    assert (link.status.code, link.status.message) == (Status.STATUS_CODE_ERROR, "no link")
    assert add.start_time_unix_nano <= link.start_time_unix_nano <= link.end_time_unix_nano
    assert found["DEL"].parent_span_id == b""
    assert found["DEL"].trace_id != add.trace_id


def test_nothing_is_exported_without_a_collector() -> None:
    with traces.exported("netplugin", ""):
        assert not spans.exported()


def test_a_collector_that_refuses_costs_nothing_but_the_spans() -> None:
    with (
        collector(status=400) as (address, got),
        traces.exported("netmaster", address),
        spans.received("POST", None),
    ):
        pass
    assert len(got) == 1
    assert not spans.exported()


@pytest.mark.parametrize("address", ["collector:4318", "ftp://collector/v1/traces", "http://"])
def test_another_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="invalid --trace-endpoint"):
        traces.checked(address)
