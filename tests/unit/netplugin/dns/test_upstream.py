"""Servers outside: asked in turn, under an id that the pod does not know."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest

from core.tasks import supervisor
from netplugin.dns.upstream import Upstream, servers_of_host
from tests.bed.waiting import WITHIN

MESSAGE = b"\x12\x34" + b"who is there?"
ONE, TWO, SIX = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2"), IPv6Address("::1")


Address = IPv4Address | IPv6Address


@contextmanager
def server(address: Address, *, tcp: bool = False) -> Iterator[tuple[int, list[bytes]]]:
    """Answer one message with the same and a mark; give the port and what was asked."""
    asked: list[bytes] = []
    kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, kind) as end:
        end.bind((str(address), 0))
        end.settimeout(WITHIN)
        if tcp:
            end.listen()

        def serve() -> None:
            if tcp:
                connection, _ = end.accept()
                with connection:
                    data = connection.recv(2048)
                    asked.append(data[2:])
                    reply = data[2:] + b"!"
                    connection.sendall(len(reply).to_bytes(2) + reply[:5])
                    connection.sendall(reply[5:])
            else:
                data, asker = end.recvfrom(2048)
                asked.append(data)
                end.sendto(data + b"!", asker)

        thread = threading.Thread(target=serve)
        thread.start()
        yield end.getsockname()[1], asked
        thread.join()


async def told(*servers: Address, tcp: bool = False, **limits: int) -> bytes | None:
    async with supervisor() as tasks:
        reply: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        Upstream(servers, tasks, **limits).ask(MESSAGE, reply.set_result, tcp=tcp)
        return await reply


@pytest.mark.parametrize("tcp", [True, False])
@pytest.mark.parametrize("address", [ONE, SIX], ids=str)
async def test_a_server_answers(address: Address, tcp: bool) -> None:
    with server(address, tcp=tcp) as (port, asked):
        assert await told(address, tcp=tcp, port=port) == MESSAGE + b"!"
    assert [message[2:] for message in asked] == [MESSAGE[2:]]


async def test_the_next_server_is_asked() -> None:
    with server(TWO) as (port, _):
        assert await told(ONE, TWO, port=port) == MESSAGE + b"!"


async def test_no_server_no_answer() -> None:
    assert await told() is None
    assert await told(ONE, max_pending=0) is None


def test_the_servers_of_the_host(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("# made by hand\nsearch example.com\nnameserver 192.0.2.1\nnameserver\n")
    with file.open("a") as more:
        more.write("nameserver 2001:db8::1\n nameserver 192.0.2.2 # second\n")
        more.write("nameserver fe80::1%eth0\nnameserver ns.example\n")
    known = ["192.0.2.1", "2001:db8::1", "192.0.2.2"]
    assert servers_of_host(file) == tuple(ip_address(one) for one in known)
    assert servers_of_host(tmp_path / "none") == ()
