"""Connects to the BGP peer, from the host's own address on the peer's network.

In come a peering and, where the peer asks for one, the password of TCP-MD5 (RFC 2385). Separate
from the speaker: an agent without a peering needs this module, but not the speaker, whose import
costs time at every start.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Final

from core.errors import PeerFailed
from ofnet.bgp.peering import Address, Peering

PORT: Final = 179
RESTART_TIME: Final = 120
"""Seconds within which a restarted agent is back; announced to the peer (RFC 4724)."""
LONGEST_PASSWORD: Final = 80
"""Bytes; Linux takes no longer one (`TCP_MD5SIG_MAXKEYLEN`)."""

_TCP_MD5SIG: Final = 14
_SOCKADDR: Final = struct.Struct("=H2x4s120x")
_SOCKADDR6: Final = struct.Struct("=H2x4x16s104x")
"""`sockaddr_storage` of an IPv4 and an IPv6 address; the port does not matter."""
_MD5SIG: Final = struct.Struct(f"={_SOCKADDR.size}sBBHi{LONGEST_PASSWORD}s")
"""`struct tcp_md5sig` of linux/tcp.h: address, flags, prefix length, length, interface, key."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[Peering], Awaitable[Streams]]


async def dial(peering: Peering, password: bytes = b"") -> Streams:
    """Return a connection to the peer, from the host's own address.

    With a password, all segments are signed, and the kernel drops what the peer does not sign.
    Raises OSError, or PeerFailed if this kernel does not know TCP-MD5.
    """
    family = socket.AF_INET if peering.peer.version == 4 else socket.AF_INET6
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(0)
        connection.bind((str(peering.own), 0))
        if password:
            _sign(connection, peering.peer, password)
        await asyncio.get_running_loop().sock_connect(connection, (str(peering.peer), PORT))
        return await asyncio.open_connection(sock=connection)
    except BaseException:
        connection.close()
        raise


def _sign(connection: socket.socket, peer: Address, password: bytes) -> None:
    packed = _SOCKADDR if connection.family is socket.AF_INET else _SOCKADDR6
    address = packed.pack(connection.family, peer.packed)
    option = _MD5SIG.pack(address, 0, 0, len(password), 0, password)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_MD5SIG, option)
    except OSError as exc:
        raise PeerFailed(f"TCP-MD5 is not available on this host: {exc.strerror}") from exc
