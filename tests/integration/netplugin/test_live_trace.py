"""A marked packet is seen on the links that it crosses, and nothing else is."""

import errno
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, web
from aiohttp.test_utils import TestServer

from core.errors import HostError, Invalid
from netplugin.diagnostics import live_trace
from netplugin.diagnostics.live_trace import (
    MOST,
    LiveTraces,
    mark_of,
    marked_packets,
    sightings,
)
from tests.unit.netplugin.agent import Outside

MARK = bytes.fromhex("c0ffee00c0ffee01")
LOOPBACK = "127.0.0.1"


def send(*parts: bytes) -> None:
    """Send datagrams to somebody who takes them: an error of ICMP would quote the mark."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind((LOOPBACK, 0))
        for data in parts:
            sender.sendto(data, receiver.getsockname())


async def test_a_mark_is_seen_out_and_in_and_others_are_not() -> None:
    with marked_packets(MARK) as packets:
        send(b"nothing", MARK[:-1], MARK + b"!", MARK[:4] + MARK[:4], b"head" + MARK)
        found = await sightings(packets, MARK, 0.5)
    assert [(one["link"], one["direction"]) for one in found] == [("lo", "out"), ("lo", "in")]


async def test_a_packet_that_goes_round_is_told_so_often_at_most() -> None:
    with marked_packets(MARK) as packets:
        send(*[MARK] * MOST)
        assert len(await sightings(packets, MARK, 60)) == MOST


class Failing:
    """A packet socket on a readable pair, of which each reception ends as it is told."""

    def __init__(self, *ends: OSError) -> None:
        self._pair = socket.socketpair()
        self._pair[1].send(b"!")
        self._ends = iter(ends)
        self.asked = 0

    def fileno(self) -> int:
        return self._pair[0].fileno()

    def recvfrom(self, _size: int) -> Any:
        self.asked += 1
        raise next(self._ends, BlockingIOError())

    def close(self) -> None:
        for one in self._pair:
            one.close()


async def test_links_that_go_down_do_not_end_a_trace() -> None:
    down = OSError(errno.ENETDOWN, "down")
    packets = Failing(down, BlockingIOError(), down, BlockingIOError())
    with closing(packets):
        found = await sightings(packets, MARK, 0.1)  # type: ignore[arg-type]
    assert (found, packets.asked > 4) == ([], True)


@pytest.mark.parametrize("code", [errno.ENETDOWN, errno.EBADF])
async def test_a_socket_that_keeps_failing_ends_a_trace(code: int) -> None:
    packets = Failing(*[OSError(code, "broken")] * 100_000)
    with closing(packets), pytest.raises(HostError, match="packets cannot be received"):
        await sightings(packets, MARK, 60)  # type: ignore[arg-type]
    assert packets.asked <= 2


@pytest.mark.parametrize("text", ["", "c0ffee", "x" * 16, "00" * 9])
def test_a_mark_has_its_length(text: str) -> None:
    with pytest.raises(Invalid):
        mark_of(text)


class Served:
    """The routes of a host; `master` says whether a registered master asks."""

    def __init__(self) -> None:
        self.master = True
        self.sent: list[Any] = []

    async def asked_by_master(self, _request: web.Request) -> bool:
        return self.master

    async def send(self, asked: Any, mark: bytes) -> None:
        self.sent.append((asked.name, mark))


@pytest.fixture
async def served() -> AsyncIterator[tuple[Served, str, ClientSession]]:
    one, app = Served(), web.Application()
    app.add_routes(LiveTraces(one, {}, Outside.new().ovsdb, one).routes())
    server = TestServer(app)
    await server.start_server()
    async with ClientSession() as session:
        yield one, str(server.make_url("")).rstrip("/"), session
    await server.close()


async def test_a_host_says_that_it_looks_before_it_has_looked(
    served: tuple[Served, str, ClientSession],
) -> None:
    _, url, session = served
    asked = {"mark": MARK.hex(), "seconds": "0.5"}
    async with session.get(f"{url}{live_trace.SEEN}", params=asked) as answer:
        send(MARK)
        assert [one["direction"] for one in await answer.json()] == ["out", "in"]


async def test_an_answer_that_is_broken_off_is_no_whole_one(
    served: tuple[Served, str, ClientSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sighted(*_: object) -> None:
        raise HostError("packets cannot be received")

    monkeypatch.setattr(live_trace, "sightings", sighted)
    _, url, session = served
    asked = {"mark": MARK.hex(), "seconds": "0.5"}
    with pytest.raises(ClientError):
        async with session.get(f"{url}{live_trace.SEEN}", params=asked) as answer:
            await answer.read()


async def test_how_long_to_look_is_checked_before_the_answer_begins(
    served: tuple[Served, str, ClientSession],
) -> None:
    _, url, session = served
    asked = {"mark": MARK.hex(), "seconds": "soon"}
    async with session.get(f"{url}{live_trace.SEEN}", params=asked) as answer:
        assert (answer.status, await answer.text()) == (500, "seconds=soon is no number\n")


async def test_a_packet_is_sent_for_a_master(served: tuple[Served, str, ClientSession]) -> None:
    one, url, session = served
    asked = {"enter": {"endpoint": "c1"}, "to": "10.1.0.2", "mark": MARK.hex()}
    async with session.post(f"{url}{live_trace.SEND}", json=asked) as answer:
        assert answer.status == 200
    assert one.sent == [("c1", MARK)]
    wrongs: list[Any] = [[], {**asked, "mark": ""}, {**asked, "enter": {}}]
    for wrong in wrongs:
        async with session.post(f"{url}{live_trace.SEND}", json=wrong) as answer:
            assert answer.status == 400, wrong


async def test_nobody_else_sends_or_looks(served: tuple[Served, str, ClientSession]) -> None:
    one, url, session = served
    one.master = False
    async with session.post(f"{url}{live_trace.SEND}", json={}) as answer:
        assert answer.status == 403
    async with session.get(f"{url}{live_trace.SEEN}") as answer:
        assert answer.status == 403
    assert one.sent == []


async def test_what_a_kernel_answers_is_seen() -> None:
    """TCP's answers have no mark: the filter passes what acknowledges the marked packet."""
    number = int.from_bytes(MARK[:4])
    with (
        marked_packets(MARK) as packets,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw,
    ):
        raw.bind(("lo", 0))
        for version in (4, 6):
            for flags, offset in ((0x12, 1), (0x14, 1 + 32), (0x12, 2)):
                raw.send(tcp_answer(version, flags, number + offset))
        found = await sightings(packets, MARK, 0.5)
    told = [one["what"] for one in found if one["direction"] == "out"]
    assert told == ["SYN-ACK", "RST"] * 2
    assert all(one["answer"] for one in found)


def tcp_answer(version: int, flags: int, number: int) -> bytes:
    link = bytes(12) + (b"\x08\x00" if version == 4 else b"\x86\xdd")
    head = bytearray(20 if version == 4 else 40)
    head[0] = 0x45 if version == 4 else 0x60
    head[9 if version == 4 else 6] = 6
    segment = struct.pack(">HHIIBBHHH", 80, 50000, 0, number, 0x50, flags, 0, 0, 0)
    return link + bytes(head) + segment
