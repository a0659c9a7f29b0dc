"""The engine's events: what happens while an engine is about to be followed is not lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from core.tasks import background
from netplugin.libnetwork.engine import Engine
from tests.bed.waiting import WITHIN
from tests.unit.netplugin.agent import eventually

NOW = 1000


class StandIn:
    """As docker's engine: it answers a request for events, and subscribes afterwards.

    From then on each event is sent; those of before are sent if they are not older than asked for.
    """

    def __init__(self) -> None:
        self.past: list[int] = []
        self.answered = asyncio.Event()
        self.may_subscribe = asyncio.Event()
        self.live: asyncio.Queue[int | None] = asyncio.Queue()

    async def version(self, _: web.Request) -> web.Response:
        return web.json_response({"ApiVersion": "1.41"})

    async def events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.answered.set()
        await self.may_subscribe.wait()
        since = float(request.query.get("since", "inf"))
        for time in self.past:
            if time >= since:
                await self._send(response, time)
        while (time_or_end := await self.live.get()) is not None:
            await self._send(response, time_or_end)
        return response

    async def _send(self, response: web.StreamResponse, time: int) -> None:
        event = {"Type": "container", "Action": "start", "time": time}
        await response.write(json.dumps(event).encode() + b"\n")


@pytest.fixture
async def stand_in(tmp_path: Path) -> AsyncIterator[StandIn]:
    one = StandIn()
    app = web.Application()
    app.router.add_get("/version", one.version)
    app.router.add_get("/{version}/version", one.version)
    app.router.add_get("/{version}/events", one.events)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "d.sock")).start()
    yield one
    one.live.put_nowait(None)
    await runner.cleanup()


async def test_an_event_between_the_first_look_and_the_subscription_leads_to_a_look(
    stand_in: StandIn, tmp_path: Path
) -> None:
    looks = 0

    def notify() -> None:
        nonlocal looks
        looks += 1

    engine = Engine(str(tmp_path / "d.sock"), "netplugin", now=lambda: NOW)
    stand_in.past = [NOW - 60]  # the first look has what it led to
    async with background("events", engine.follow(notify)):
        await asyncio.wait_for(stand_in.answered.wait(), WITHIN)
        await eventually(lambda: looks == 1)
        stand_in.past.append(NOW)
        stand_in.may_subscribe.set()
        await eventually(lambda: looks == 2)
        stand_in.live.put_nowait(NOW + 1)
        await eventually(lambda: looks == 3)
