"""Traces: continued from a header or begun, kept through tasks, told in logs, handed on."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from core.logs import JsonFormatter, TextFormatter
from core.tracing import spans
from core.tracing.trace_context import Span, SpanRole, headers, trace_id

TRACE, PARENT = "4b" * 16, "a0" * 8
HEADER = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def ended() -> Iterator[list[Span]]:
    """Give the spans that have ended."""
    found: list[Span] = []
    end = spans.export_to(found.append)
    yield found
    end()


def test_a_call_continues_the_trace_of_its_header() -> None:
    with spans.received("ADD", HEADER) as span:
        assert trace_id() == TRACE
        assert span.parent == PARENT
        assert headers() == {"traceparent": f"00-{TRACE}-{span.span}-01"}
    assert trace_id() is None
    assert headers() == {}


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        f"{HEADER}-more",
        HEADER.upper(),
        f"01-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT}-01\n",
    ],
)
def test_a_call_without_a_valid_header_begins_a_trace(header: str | None) -> None:
    with spans.received("ADD", header) as span:
        assert len(bytes.fromhex(span.trace)) == 16
        assert span.trace != TRACE
        assert not span.parent


async def test_what_a_call_starts_is_of_its_trace(ended: list[Span]) -> None:
    async def step() -> None:
        with spans.part("grant", SpanRole.CLIENT):
            await asyncio.sleep(0)

    with spans.received("ADD", HEADER):
        spans.describe({"pod": "web"})
        async with asyncio.TaskGroup() as steps:
            steps.create_task(step())
    grant, add = ended
    assert (add.name, add.kind, add.parent) == ("ADD", SpanRole.SERVER, PARENT)
    assert (grant.name, grant.kind, grant.parent) == ("grant", SpanRole.CLIENT, add.span)
    assert grant.trace == add.trace == TRACE
    assert add.began <= grant.began <= grant.ended <= add.ended
    assert add.attributes == {"pod": "web"}


def test_a_failure_is_told_and_goes_on(ended: list[Span]) -> None:
    with pytest.raises(OSError, match="no link"), spans.received("ADD", HEADER):
        raise OSError("no link")
    assert [one.error for one in ended] == ["no link"]


def test_a_part_of_no_call_is_no_span(ended: list[Span]) -> None:
    with spans.part("reconcile"):
        assert trace_id() is None
    assert ended == []


def test_lines_of_a_call_have_its_trace() -> None:
    record = logging.makeLogRecord({"msg": "pod added", "levelno": logging.INFO, "pod": "web"})
    with spans.received("ADD", HEADER):
        assert TextFormatter().format(record).endswith(f" pod=web trace_id={TRACE}")
        assert f'"trace_id": "{TRACE}"' in JsonFormatter().format(record)
    assert "trace_id" not in TextFormatter().format(record)
