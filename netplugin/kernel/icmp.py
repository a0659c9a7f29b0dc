"""Echo requests of a given size that must not be fragmented (RFC 792, RFC 1191).

`passes` returns whether one of a few was answered. A packet that is too long for this host's own
link has not passed. Needs the capability to open raw sockets.
"""

import asyncio
import errno
import os
import secrets
import socket
import struct
from ipaddress import IPv4Address
from typing import Final

from core.errors import HostError
from core.patience import patient

TRIES: Final = 3
REPLY_WAIT: Final = patient(1.0)
"""Seconds to wait for a reply."""

SHORTEST: Final = 28 + 8
"""Bytes of an echo request: IP and ICMP headers, and a random mark."""

_REQUEST: Final = 8
_REPLY: Final = 0
_IP_HEADER: Final = 20
_HEADER: Final = struct.Struct(">BBHHH")
_IP_MTU_DISCOVER: Final = 10
_IP_PMTUDISC_PROBE: Final = 3
"""Sets Don't Fragment and ignores the cached path MTU (linux/in.h)."""


async def passes(target: IPv4Address, size: int, *, source: IPv4Address | None = None) -> bool:
    """Return whether a packet of `size` bytes is answered by a host. Raises HostError."""
    loop = asyncio.get_running_loop()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
            sock.setblocking(False)  # noqa: FBT003 - the name says it
            sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
            if source is not None:
                sock.bind((str(source), 0))
            sock.connect((str(target), 0))
            for _ in range(TRIES):
                sent = request(size)
                await loop.sock_sendall(sock, sent)
                if await _answered(sock, sent):
                    return True
    except OSError as exc:
        if exc.errno in {errno.EMSGSIZE, errno.EHOSTUNREACH, errno.ENETUNREACH}:
            return False
        raise HostError(f"cannot send an echo request to {target}: {exc.strerror}") from exc
    return False


def request(size: int) -> bytes:
    """Return an echo request for a packet of `size` bytes, at least `SHORTEST`."""
    # A raw socket receives every ICMP packet of the host: the random mark identifies the reply.
    filling = secrets.token_bytes(8) + bytes(size - SHORTEST)
    bare = _HEADER.pack(_REQUEST, 0, 0, os.getpid() & 0xFFFF, 1) + filling
    return bare[:2] + checksum(bare).to_bytes(2) + bare[4:]


def is_reply(packet: bytes, sent: bytes) -> bool:
    """Return whether a packet, with its IPv4 header, is the reply to a request."""
    head = (packet[0] & 0xF) * 4 if packet else _IP_HEADER
    answer = packet[head:]
    return answer[:2] == bytes((_REPLY, 0)) and answer[4:] == sent[4:]


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    even = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f">{len(even) // 2}H", even))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


async def _answered(sock: socket.socket, sent: bytes) -> bool:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(REPLY_WAIT):
            while not is_reply(await loop.sock_recv(sock, 65_536), sent):
                pass
    except TimeoutError:
        return False
    return True
