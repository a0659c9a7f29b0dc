"""Captures are bounded by the master too: an agent may be compromised."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import ClientPayloadError, ClientResponse, ClientSession, web
from aiohttp.test_utils import RawTestServer

from core import keys
from core.errors import Malformed
from netmaster.api.leader.agents import RegisteredAgents
from netmaster.api.leader.leader_context import ApiRequest
from netmaster.api.v2.diagnostics import capture
from netplugin.diagnostics.capture import _MOST
from objdb.api import Change, Put
from state import codec
from state.records import ServiceInstance
from tests.unit.netmaster.term import Term, context_of, term

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


async def send_without_end(request: web.BaseRequest) -> web.StreamResponse:
    reply = web.StreamResponse()
    await reply.prepare(request)
    while True:
        await reply.write(bytes(PART))


@asynccontextmanager
async def registered_agent(lead: Term, host: str) -> AsyncIterator[RegisteredAgents]:
    """Serve a host's agent, which keeps to no bound; yield what asks it."""
    async with RawTestServer(send_without_end) as server:
        assert server.port is not None
        one = ServiceInstance(
            service=keys.SERVICE_AGENT_REST, address="127.0.0.1", port=server.port, hostname=host
        )
        key = keys.service(one.service, one.address, one.port)
        await lead.backend.commit([Change((), (Put(key, codec.encode(one)),))])
        agents = RegisteredAgents(lead.backend)
        try:
            yield agents
        finally:
            await agents.close()


async def test_an_agent_that_sends_without_end_is_cut_short() -> None:
    async with term() as lead, registered_agent(lead, "h1") as agents:
        await lead.network("n1")
        await lead.endpoint("c1", host="h1")
        leader = replace(context_of(lead), agents=agents)

        async def answer(incoming: web.BaseRequest) -> web.StreamResponse:
            asked = ApiRequest(
                body=body, parameters={"key": "c1"}, query=f"size={4 * PART}", incoming=incoming
            )
            return await capture.answer(leader, asked)

        received = bytearray()

        async def receive(packets: ClientResponse) -> None:
            async for part in packets.content.iter_any():
                received.extend(part)

        async with (
            RawTestServer(answer) as server,
            ClientSession() as session,
            session.get(server.make_url("/")) as packets,
        ):
            # Only by an error can the client know that packets are missing.
            with pytest.raises(ClientPayloadError):
                await receive(packets)
    assert 4 * PART <= len(received) <= 5 * PART
