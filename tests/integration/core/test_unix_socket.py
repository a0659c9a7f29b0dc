"""Unix sockets: who may connect, and what a dead process left."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from core.errors import HostError, Invalid
from core.net.unix_socket import is_served, listen, peer_uid

NOBODY = 65534


@pytest.fixture
def path(bed_dir: Path) -> Path:
    return bed_dir / "run" / "socket"


def test_it_is_for_one_user_alone(path: Path) -> None:
    with listen(path, "test", owner=NOBODY):
        found = path.stat()
        assert (found.st_mode & 0o777, found.st_uid) == (0o600, NOBODY)
    with listen(path, "test"):
        found = path.stat()
        assert (found.st_mode & 0o777, found.st_uid) == (0o600, os.geteuid())


def test_the_socket_of_a_dead_process_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    assert not is_served(path)
    with listen(path, "test") as listener:
        listener.listen()
        assert is_served(path)
        with pytest.raises(HostError, match="another agent listens there"):
            listen(path, "test")


def test_looking_connects_to_nobody(path: Path) -> None:
    with listen(path, "test") as listener:
        listener.listen()
        listener.settimeout(0)
        assert is_served(path)
        with pytest.raises(BlockingIOError):
            listener.accept()
        # under another name it is not listed
        assert is_served(path.parent / "." / ".." / path.parent.name / path.name)
        listener.accept()[0].close()


def test_what_is_no_socket_stays(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(HostError, match="is not a socket"):
        listen(path, "test")
    assert path.read_text() == "precious"


def test_a_path_that_is_too_long_is_named(bed_dir: Path) -> None:
    with pytest.raises(Invalid, match="is longer than 107 bytes"):
        listen(bed_dir / ("x" * 100), "test")


async def test_the_user_at_the_other_end_is_known(path: Path) -> None:
    found: asyncio.Queue[int | None] = asyncio.Queue()

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            found.put_nowait(peer_uid(transport))

    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(Server, sock=listen(path, "test"))
    async with server:
        _, writer = await asyncio.open_unix_connection(path)
        assert await found.get() == os.geteuid()
        writer.close()
    assert peer_uid(None) is None
