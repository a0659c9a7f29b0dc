"""Which connections HTTP clients use (`daemons.http_client`), on aiohttp's own server."""

import asyncio

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from daemons.http_client import Connector

BURST = 5


async def test_requests_after_a_burst_use_one_connection_of_it() -> None:
    """The others are idle then, and end; aiohttp's connector would use each in turn for good."""
    together = asyncio.Barrier(BURST)
    ports: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/burst":
            await together.wait()
        ports.append(request.get_extra_info("peername")[1])
        return web.Response()

    app = web.Application()
    app.router.add_get("/{path}", answer)
    async with TestServer(app) as server, ClientSession(connector=Connector()) as session:

        async def ask(path: str) -> None:
            async with session.get(server.make_url(path)) as response:
                await response.read()

        await asyncio.gather(*(ask("/burst") for _ in range(BURST)))
        assert len(set(ports)) == BURST
        ports.clear()
        for _ in range(2 * BURST):
            await ask("/alone")
        assert len(set(ports)) == 1
