"""Captures of a pod's link: what they have, when they end, and how many run at a time."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from aiohttp import ClientSession

from netplugin.diagnostics.capture import AT_ONCE
from tests.bed.netns import Namespace
from tests.bed.waiting import WITHIN
from tests.unit.netplugin.diagnostics.captures import LINK, serving
from tests.unit.netplugin.diagnostics.pcap import PING, TCP

HEADER = 24
"""Bytes of the header of a file in pcap format, and of that of a packet there."""
RECORD = 16


@pytest.fixture
def pod(host: Namespace) -> Iterator[socket.socket]:
    """Yield what sends packets as a pod does; the kernel sends none of its own by the link."""
    host.run(["ip", "link", "add", LINK, "type", "veth", "peer", "eth0"])
    for name in (LINK, "eth0"):
        host.run(["ip", "link", "set", name, "addrgenmode", "none"])
        host.run(["ip", "link", "set", name, "up"])
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as made:
        made.bind(("eth0", 0))
        yield made


@pytest.fixture
async def url(host: Namespace) -> AsyncIterator[str]:  # noqa: ARG001 - it is served there
    async with serving() as found:
        yield found


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as made:
        yield made


async def test_packets_are_streamed_until_there_are_enough(
    pod: socket.socket, url: str, session: ClientSession
) -> None:
    async with session.get(f"{url}?count=2&filter=tcp&snaplen=20") as answer:
        for packet in (TCP, PING, TCP, TCP):
            pod.send(packet)
        found = await answer.read()
    assert len(found) == HEADER + 2 * (RECORD + 20)
    assert found.count(TCP[:20]) == 2


@pytest.mark.usefixtures("pod")
async def test_a_capture_without_packets_ends_with_its_time(
    url: str, session: ClientSession
) -> None:
    async with session.get(f"{url}?seconds=1") as answer:
        assert (answer.status, len(await answer.read())) == (200, HEADER)


async def test_a_capture_ends_with_its_size(
    pod: socket.socket, url: str, session: ClientSession
) -> None:
    async with session.get(f"{url}?size=30") as answer:
        pod.send(TCP)
        assert len(await answer.read()) == HEADER


@pytest.mark.usefixtures("pod")
async def test_so_many_run_at_a_time_and_one_that_nobody_wants_ends(
    url: str, session: ClientSession
) -> None:
    running = [await session.get(f"{url}?seconds=50") for _ in range(AT_ONCE)]
    async with session.get(url) as refused:
        assert refused.status == 500
        assert "captures run on this host already" in await refused.text()
    running.pop().close()
    async with asyncio.timeout(WITHIN):
        while await status(session, f"{url}?seconds=1") != 200:  # noqa: ASYNC110 - no event here
            await asyncio.sleep(0.05)
    for one in running:
        one.close()


async def status(session: ClientSession, url: str) -> int:
    async with session.get(url) as answer:
        return answer.status


async def test_a_link_that_is_gone_is_named(url: str, session: ClientSession) -> None:
    async with session.get(url) as answer:
        assert answer.status == 500
        assert f"packets of {LINK} cannot be read: No such device" in await answer.text()
