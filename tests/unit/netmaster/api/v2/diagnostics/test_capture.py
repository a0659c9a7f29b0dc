"""Captures are bounded by the master too: an agent may be compromised."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from aiohttp import web

from core.errors import Malformed
from netmaster.api.leader.leader_context import ApiRequest
from netmaster.api.v2.diagnostics import capture
from netplugin.diagnostics.capture import _MOST
from tests.unit.netmaster.term import context_of, term

PART = 1 << 20


async def body() -> bytes:
    return b""


def test_agents_have_the_same_bounds() -> None:
    assert capture.BOUNDS == _MOST


@pytest.mark.parametrize(
    "query",
    ["seconds=51", "seconds=0000000050", "size=2000000000", "count=-1", "snaplen=0x10", "seconds="],
)
async def test_what_is_no_bound_is_refused_by_name(query: str) -> None:
    async with term() as lead:
        await lead.network("n1")
        await lead.endpoint("c1", host="h1")
        asked = ApiRequest(body=body, parameters={"key": "c1"}, query=query)
        with pytest.raises(Malformed, match=query.partition("=")[0]):
            await capture.answer(context_of(lead), asked)


async def test_an_agent_that_sends_without_end_is_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = 0

    async def readany() -> bytes:
        return bytes(PART)

    async def write(_: web.StreamResponse, part: bytes) -> None:
        nonlocal sent
        sent += len(part)

    @asynccontextmanager
    async def stream(*_: object, **__: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(content=SimpleNamespace(readany=readany, at_eof=lambda: False))

    monkeypatch.setattr(web.StreamResponse, "prepare", AsyncMock())
    monkeypatch.setattr(web.StreamResponse, "write", write)
    incoming = Mock(transport=Mock(is_closing=lambda: False))
    async with term() as lead:
        await lead.network("n1")
        await lead.endpoint("c1", host="h1")
        leader = replace(context_of(lead), agents=Mock(stream=stream))
        asked = ApiRequest(
            body=body, parameters={"key": "c1"}, query=f"size={4 * PART}", incoming=incoming
        )
        await capture.answer(leader, asked)
    assert 4 * PART <= sent <= 5 * PART
    incoming.protocol.force_close.assert_called_once()
