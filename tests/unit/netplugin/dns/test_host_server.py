"""The host's own questions by both transports, answered at once and later."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from core.tasks import Supervisor
from netplugin.dns.host_server import LOOPBACK, HostServer
from ofnet.packets.dns_answers import Deferred, NameVerdict, Outcome


def resolve(message: bytes, *, tcp: bool) -> Outcome:
    """Repeat a message, at once or later as it says."""
    reply = message + (b" by tcp" if tcp else b" by udp")
    if message == b"nothing":
        return NameVerdict.DROP

    def ask(answer: Callable[[bytes], None]) -> None:
        asyncio.get_running_loop().call_soon(answer, reply)

    return Deferred(ask) if message == b"later" else reply


@pytest.fixture(params=[4, 6])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
async def ports(version: int) -> AsyncIterator[dict[str, int]]:
    tasks = Supervisor()
    server = HostServer(resolve, tasks)
    yield await server.start(version)
    await server.close()
    await tasks.close()


class Asker(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, _addr: object) -> None:
        self.heard.put_nowait(data)


async def test_datagrams_are_answered(ports: dict[str, int], version: int) -> None:
    loop = asyncio.get_running_loop()
    transport, asker = await loop.create_datagram_endpoint(
        Asker, remote_addr=(LOOPBACK[version], ports["udp"])
    )
    for message in (b"nothing", b"now", b"later"):
        transport.sendto(message)
    assert {await asker.heard.get(), await asker.heard.get()} == {b"now by udp", b"later by udp"}
    transport.close()


async def test_streams_are_answered_until_one_is_not(ports: dict[str, int], version: int) -> None:
    reader, writer = await asyncio.open_connection(LOOPBACK[version], ports["tcp"])
    for message in (b"now", b"later", b"nothing"):
        writer.write(len(message).to_bytes(2) + message)
    for wanted in (b"now by tcp", b"later by tcp"):
        length = int.from_bytes(await reader.readexactly(2))
        assert await reader.readexactly(length) == wanted
    assert await reader.read() == b""
    writer.close()
