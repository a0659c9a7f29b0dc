"""Asks the name servers outside the cluster, where the agent is the cluster's own name server.

In come DNS messages of pods; out go replies, one after the other of the servers being tried. Must
not know what is in a message but its id, which is replaced: a pod must not be able to guess it.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from core.logs import fields
from core.tasks import Supervisor

log = logging.getLogger(__name__)

Address = IPv4Address | IPv6Address

PORT: Final = 53
LIMIT: Final = 2.0
"""Seconds that one server has to answer."""

MAX_PENDING: Final = 512
"""Questions that may wait for a server; further ones fail at once."""

RESOLV_CONF: Final = Path("/etc/resolv.conf")
_LARGEST: Final = 65_535


class Upstream:
    """The servers outside, by address, in the order in which they are tried."""

    def __init__(
        self,
        servers: Sequence[Address],
        tasks: Supervisor,
        *,
        port: int = PORT,
        max_pending: int = MAX_PENDING,
    ) -> None:
        self._port = port
        self._max_pending = max_pending
        self._servers = tuple(servers)
        self._tasks = tasks
        self._pending = 0

    def ask(
        self, message: bytes, done: Callable[[bytes | None], None], *, tcp: bool = False
    ) -> None:
        """Ask; `done` is called once, with the reply, or None if no server gave one in time."""
        if self._pending >= self._max_pending:
            done(None)
            return
        self._pending += 1
        self._tasks.spawn("question to an outside name server", self._ask(message, done, tcp=tcp))

    async def _ask(
        self, message: bytes, done: Callable[[bytes | None], None], *, tcp: bool
    ) -> None:
        reply = None
        try:
            for server in self._servers:
                reply = await self._exchange(server, message, tcp=tcp)
                if reply is not None:
                    break
        finally:
            self._pending -= 1
            done(reply)

    async def _exchange(self, server: Address, message: bytes, *, tcp: bool) -> bytes | None:
        """Return a server's reply; None if it has none, or not in time."""
        number = secrets.token_bytes(2)
        talk = stream_exchange if tcp else _datagram_exchange
        kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
        family = socket.AF_INET if server.version == 4 else socket.AF_INET6
        with socket.socket(family, kind | socket.SOCK_NONBLOCK) as sock:
            try:
                async with asyncio.timeout(LIMIT):
                    reply = await talk(sock, (str(server), self._port), number + message[2:])
            except (OSError, TimeoutError) as exc:
                about = fields(address=server, error=str(exc) or type(exc).__name__)
                log.info("outside name server did not answer", extra=about)
                return None
        return message[:2] + reply[2:] if reply[:2] == number else None


async def _datagram_exchange(sock: socket.socket, server: tuple[str, int], message: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, server)
    await loop.sock_sendall(sock, message)
    return await loop.sock_recv(sock, _LARGEST)


async def stream_exchange(sock: socket.socket, server: tuple[str, int], message: bytes) -> bytes:
    """Return the reply of a server, an address and a port, by TCP.

    Raises OSError, also if the server ends the connection.
    """
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, server)
    await loop.sock_sendall(sock, len(message).to_bytes(2) + message)
    received = b""
    while len(received) < 2 or len(received) < 2 + int.from_bytes(received[:2]):
        part = await loop.sock_recv(sock, _LARGEST)
        if not part:
            raise ConnectionResetError("the server ended the connection")
        received += part
    return received[2 : 2 + int.from_bytes(received[:2])]


def servers_of_host(path: Path = RESOLV_CONF) -> tuple[Address, ...]:
    """Return the name servers that the host itself uses, without those that name a link."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return ()
    found: list[Address] = []
    for words in (line.split() for line in lines):
        if words[:1] == ["nameserver"] and len(words) > 1:
            try:
                server = ip_address(words[1])
            except ValueError:
                continue
            if not (isinstance(server, IPv6Address) and server.scope_id):
                found.append(server)
    return tuple(found)
