"""Numbers in texts from outside: one reader, the same bounds everywhere."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contivmodel.http_exchange import HttpFailure, _length
from core.errors import Invalid, UsageError
from core.numbers import bounded
from netctl.commands.objects import addresses
from netmaster.api.http import paging, queries
from netmaster.api.v2.diagnostics import trace
from netmaster.api.v2.events import stream
from netmaster.auth import tokens, users
from netmaster.ipam import segments
from netmaster.plan.show import endpoint_pages
from netplugin import settings
from netplugin.diagnostics import capture, live_trace, pcap
from netplugin.pods import rate_limits
from netplugin.world.kubernetes import kube_pods
from state import creation, lineage, schema
from state.reading import RecordFields

HOSTILE = (
    "",
    " 1",
    "+1",
    "-1",
    "1_0",
    "1e3",
    "0x10",
    "\u0661",
    "\u00b2",
    "\uff11",
    "0000000019999999999",
    "199999999999999999999999",
    "9" * 24,
    "9" * 5000,
    "0" * 5000 + "1",
)


@given(st.text() | st.integers().map(str), st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_is_read_is_what_it_says(text: str, least: int, more: int) -> None:
    found = bounded(text, least, least + more)
    if found is None:
        assert not (text.isascii() and text.isdigit() and least <= int(text) <= least + more) or (
            text.startswith("0") and len(text) > len(str(least + more))
        )
    else:
        assert (least <= found <= least + more, text.lstrip("0") or "0") == (True, str(found))


@pytest.mark.parametrize("text", HOSTILE)
def test_none_of_these_is_a_number(text: str) -> None:
    assert bounded(text, 0, 5000) is None


READERS: dict[str, Callable[[str], Any]] = {
    "limit of v2": paging.limit,
    "any of v2": lambda text: queries.number("x", text, 0, 5000),
    "limit of endpoints": lambda text: endpoint_pages.query({"limit": [text]}),
    "port of a trace": lambda text: trace.TraceQuery(port=text).talk(),
    "protocol of a trace": lambda text: trace.TraceQuery(proto=text).talk(),
    "seconds of a capture": lambda text: capture.bounds_of({"seconds": text}),
    "size of a capture": lambda text: capture.bounds_of({"size": text}),
    "port of a filter": pcap._at_port,
}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_it_with_its_own_error(reader: str, text: str) -> None:
    with pytest.raises(Invalid) as raised:
        READERS[reader](text)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("text", ["\u0661", "\u00b2", "9" * 24, "9" * 5000, "x"])
def test_so_do_those_of_large_numbers(text: str) -> None:
    for read in (segments.parse_range, creation.vxlan_start):
        with pytest.raises(Invalid):
            read(f"{text}-10")
    with pytest.raises(HttpFailure):
        _length({"content-length": text})
    with pytest.raises(Invalid):
        stream._position(f"t.{text}")


@pytest.mark.parametrize("text", HOSTILE)
def test_the_others_do_not_fail_either(text: str) -> None:
    assert not addresses.is_interface4(f"10.0.0.1/{text}")
    assert kube_pods.named_ports({f"{kube_pods.PORT}x": f"tcp/{text}"}) == {}
    assert rate_limits.rate_of(f"{text} mbps") <= rate_limits.MAX_RATE
    with pytest.raises(UsageError):
        settings._address(f"127.0.0.1:{text}")


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "x"])
def test_seconds_without_end_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        live_trace._seconds(text)


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b'{"terms":' * 50_000,
        b'{"terms":[{"id":"x","after":1e999}]}',
        b'{"terms":[{"id":"\\ud800","after":1}]}',
        b'{"version":1e999}',
        b'{"rotated_at":1e999,"previous":null,"current":{"id":"a","key":"YQ=="}}',
        b"9" * 5000,
    ],
)
def test_parsers_of_records_refuse_with_their_own_error(value: bytes) -> None:
    for decode in (
        lineage.decode,
        schema.decode,
        tokens.decode_keys,
        lambda one: users.decode("/contiv.io/x", one),
    ):
        with pytest.raises(Invalid):
            decode(value)


@pytest.mark.parametrize("number", [b"9" * 400, b"1e999", b"-1e999"])
def test_a_real_number_has_an_end(number: bytes) -> None:
    with pytest.raises(Invalid, match="at"):
        RecordFields.parse("k", b'{"at":%b}' % number).real("at")
