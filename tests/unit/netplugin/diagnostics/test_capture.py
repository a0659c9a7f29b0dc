"""The bounds of captures."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from core.errors import Invalid
from netplugin.diagnostics import capture
from netplugin.diagnostics.capture import CaptureBounds, Captures, bounds_of
from ofnet.world import Bridge
from tests.bed.waiting import WITHIN
from tests.unit.netplugin.diagnostics.pcap import PING, TCP

KEY = "n1.default-c1"


def test_bounds_have_greatest_values() -> None:
    assert bounds_of({}) == CaptureBounds()
    asked = {"seconds": "50", "count": "7", "snaplen": "64", "filter": "tcp"}
    assert bounds_of(asked) == CaptureBounds(seconds=50, count=7, snaplen=64, filter="tcp")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("seconds", "51"), ("count", "0"), ("count", "-1"), ("snaplen", "x")),
        *(("size", "9" * 13), ("colour", "red")),
    ],
)
def test_other_bounds_are_refused(name: str, text: str) -> None:
    with pytest.raises(Invalid, match=name):
        bounds_of({name: text})


class Link:
    """A link whose packets a test sends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.opened = asyncio.Event()
        monkeypatch.setattr(capture, "packet_socket", self._open)

    @contextmanager
    def _open(self, name: str) -> Iterator[socket.socket]:
        assert name == "vvport7"
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here.settimeout(0)
        self.pairs.append((here, there))
        self.opened.set()
        try:
            with here, there:
                yield here
        finally:
            self.pairs.remove((here, there))

    def send(self, *packets: bytes) -> None:
        for packet in packets:
            self.pairs[0][1].send(packet)


@asynccontextmanager
async def serving(*, master: bool = True) -> AsyncIterator[str]:
    """Serve the captures of a host with one endpoint; yield their URL."""
    masters = Mock()
    masters.asked_by_master = AsyncMock(return_value=master)
    world = SimpleNamespace(local={KEY: SimpleNamespace(ofport=7)})
    agents: Any = {Bridge.VXLAN: SimpleNamespace(world=world)}
    rows = {"vvport7": SimpleNamespace(name="vvport7", ofport=7)}
    ovsdb: Any = SimpleNamespace(ports=lambda _bridge: rows)
    app = web.Application()
    app.router.add_routes(Captures(agents, ovsdb, masters).routes())
    async with TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}/inspect/capture/{KEY}"


async def test_packets_are_streamed_until_there_are_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = Link(monkeypatch)
    async with (
        serving() as url,
        ClientSession() as session,
        session.get(f"{url}?count=2&filter=tcp&snaplen=20") as answer,
    ):
        await link.opened.wait()
        link.send(TCP, PING, TCP, TCP)
        found = await answer.read()
    assert len(found) == 24 + 2 * (16 + 20)
    assert found.count(TCP[:20]) == 2


async def test_a_capture_without_packets_ends_with_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Link(monkeypatch)
    async with (
        serving() as url,
        ClientSession() as session,
        session.get(f"{url}?seconds=1") as answer,
    ):
        assert (answer.status, len(await answer.read())) == (200, 24)


async def test_a_capture_ends_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(monkeypatch)
    async with (
        serving() as url,
        ClientSession() as session,
        session.get(f"{url}?size=30") as answer,
    ):
        await link.opened.wait()
        link.send(TCP)
        assert len(await answer.read()) == 24


async def test_so_many_run_at_a_time_and_one_that_nobody_wants_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = Link(monkeypatch)
    async with serving() as url, ClientSession() as session:
        running = [await session.get(f"{url}?seconds=50") for _ in range(capture.AT_ONCE)]
        async with session.get(url) as refused:
            assert refused.status == 500
            assert "captures run on this host already" in await refused.text()
        for one in running:
            one.close()
        async with asyncio.timeout(WITHIN):
            while link.pairs:  # noqa: ASYNC110 - the end of a connection has no event here
                await asyncio.sleep(0.01)
        async with session.get(f"{url}?seconds=1") as answer:
            assert answer.status == 200


async def test_others_than_masters_and_wrong_endpoints_are_refused() -> None:
    async with (
        serving(master=False) as url,
        ClientSession() as session,
        session.get(url) as answer,
    ):
        assert answer.status == 403
    async with serving() as url, ClientSession() as session, session.get(f"{url}x") as answer:
        assert (answer.status, await answer.text()) == (
            500,
            f"endpoint {KEY}x has no port on this host\n",
        )
