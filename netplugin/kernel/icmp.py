"""Echo requests of a given size that no router may take apart (RFC 792, RFC 1191).

`passes` says whether one of a few came back. A packet that is too long for this host's own link has
not passed. Needs the right to open raw sockets.
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

TRIES: Final = 3
PATIENCE: Final = 1.0
"""Seconds an answer may take."""

SHORTEST: Final = 28 + 8
"""Bytes of an echo request's headers and of what tells ours from others'."""

_REQUEST: Final = 8
_REPLY: Final = 0
_IP_HEADER: Final = 20
_HEADER: Final = struct.Struct(">BBHHH")
_IP_MTU_DISCOVER: Final = 10
_IP_PMTUDISC_PROBE: Final = 3
"""Forbids to take the packet apart, and looks at the link's MTU only (linux/in.h)."""


async def passes(target: IPv4Address, size: int, *, source: IPv4Address | None = None) -> bool:
    """Say whether a packet of `size` bytes reaches a host and comes back. Raises HostError."""
    loop = asyncio.get_running_loop()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as door:
            door.setblocking(False)  # noqa: FBT003 - the name says it
            door.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
            if source is not None:
                door.bind((str(source), 0))
            door.connect((str(target), 0))
            for _ in range(TRIES):
                sent = request(size)
                await loop.sock_sendall(door, sent)
                if await _answered(door, sent):
                    return True
    except OSError as exc:
        if exc.errno in {errno.EMSGSIZE, errno.EHOSTUNREACH, errno.ENETUNREACH}:
            return False
        raise HostError(f"cannot send an echo request to {target}: {exc.strerror}") from exc
    return False


def request(size: int) -> bytes:
    """Return an echo request that makes a packet of `size` bytes, `SHORTEST` at least."""
    filling = secrets.token_bytes(8) + bytes(size - SHORTEST)
    bare = _HEADER.pack(_REQUEST, 0, 0, os.getpid() & 0xFFFF, 1) + filling
    return bare[:2] + checksum(bare).to_bytes(2) + bare[4:]


def is_reply(packet: bytes, sent: bytes) -> bool:
    """Say whether a packet, with its IPv4 header, is the answer to a request."""
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


async def _answered(door: socket.socket, sent: bytes) -> bool:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PATIENCE):
            while not is_reply(await loop.sock_recv(door, 65_536), sent):
                pass
    except TimeoutError:
        return False
    return True
