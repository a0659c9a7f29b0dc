"""Echo requests of a given size that must not be fragmented (RFC 792, 1191, 4443, 8201).

`passes` returns whether one of a few was answered. A packet that is too long for this host's own
link has not passed. Needs the capability to open raw sockets.
"""

import asyncio
import errno
import os
import secrets
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from core.errors import HostError
from core.patience import patient

TRIES: Final = 3
REPLY_WAIT: Final = patient(1.0)
"""Seconds to wait for a reply."""

_MARK: Final = 8
"""The bytes by which an answer is known."""
_HEADER: Final = struct.Struct(">BBHHH")
_PMTUDISC_PROBE: Final = 3
"""Sets Don't Fragment and ignores the cached path MTU (linux/in.h, in6.h)."""

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class _Family:
    """What echo requests are with one version of IP."""

    version: int
    protocol: int
    request: int
    reply: int
    header: int
    """Bytes of the IP header."""
    received: bool
    """Whether a raw socket has the IP header of what it receives (raw(7), ipv6(7))."""
    options: tuple[tuple[int, int, int], ...]

    @property
    def shortest(self) -> int:
        """The bytes of the shortest request: IP and ICMP headers, and a random mark."""
        return self.header + _HEADER.size + _MARK


_IP_MTU_DISCOVER: Final = socket.IPPROTO_IP, 10, _PMTUDISC_PROBE
_IPV6_MTU_DISCOVER: Final = socket.IPPROTO_IPV6, 23, _PMTUDISC_PROBE
_IPV6_DONTFRAG: Final = socket.IPPROTO_IPV6, 62, 1
_FAMILIES: Final = {
    4: _Family(4, socket.IPPROTO_ICMP, 8, 0, 20, received=True, options=(_IP_MTU_DISCOVER,)),
    6: _Family(
        *(6, socket.IPPROTO_ICMPV6, 128, 129, 40),
        received=False,
        options=(_IPV6_MTU_DISCOVER, _IPV6_DONTFRAG),
    ),
}
SHORTEST: Final = {version: family.shortest for version, family in _FAMILIES.items()}


async def passes(target: Address, size: int, *, sources: Iterable[Address] = ()) -> bool:
    """Return whether a packet of `size` bytes is answered by a host. Raises HostError.

    It comes from that one of `sources` which is of the target's family.
    """
    loop = asyncio.get_running_loop()
    family = _FAMILIES[target.version]
    kind = socket.AF_INET if target.version == 4 else socket.AF_INET6
    source = next((one for one in sources if one.version == target.version), None)
    try:
        with socket.socket(kind, socket.SOCK_RAW, family.protocol) as sock:
            sock.setblocking(False)  # noqa: FBT003 - the name says it
            for option in family.options:
                sock.setsockopt(*option)
            if source is not None:
                sock.bind((str(source), 0))
            sock.connect((str(target), 0))
            for _ in range(TRIES):
                sent = request(size, target.version)
                await loop.sock_sendall(sock, sent)
                if await _answered(sock, sent, target.version):
                    return True
    except OSError as exc:
        if exc.errno in {errno.EMSGSIZE, errno.EHOSTUNREACH, errno.ENETUNREACH}:
            return False
        raise HostError(f"cannot send an echo request to {target}: {exc.strerror}") from exc
    return False


def request(size: int, version: int = 4) -> bytes:
    """Return an echo request for a packet of `size` bytes, at least `SHORTEST`.

    The kernel sets the checksum of IPv6.
    """
    # A raw socket receives every ICMP packet of the host: the random mark identifies the reply.
    family = _FAMILIES[version]
    filling = secrets.token_bytes(_MARK) + bytes(size - family.shortest)
    bare = _HEADER.pack(family.request, 0, 0, os.getpid() & 0xFFFF, 1) + filling
    return bare[:2] + checksum(bare).to_bytes(2) + bare[4:]


def is_reply(packet: bytes, sent: bytes, version: int = 4) -> bool:
    """Return whether a packet, as a raw socket receives it, is the reply to a request."""
    family = _FAMILIES[version]
    head = (packet[0] & 0xF) * 4 if packet and family.received else 0
    answer = packet[head:]
    return answer[:2] == bytes((family.reply, 0)) and answer[4:] == sent[4:]


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    even = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f">{len(even) // 2}H", even))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


async def _answered(sock: socket.socket, sent: bytes, version: int) -> bool:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(REPLY_WAIT):
            while not is_reply(await loop.sock_recv(sock, 65_536), sent, version):
                pass
    except TimeoutError:
        return False
    return True
