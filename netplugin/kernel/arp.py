"""ARP frames that this host sends by a link of its own: requests and announcements (RFC 826, 5227).

Nothing is received: who asks reads the answer elsewhere, such as in Open vSwitch, or in what the
kernel has resolved. Needs the capability to open raw sockets.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from core.errors import HostError

_BROADCAST: Final = b"\xff" * 6
_UNKNOWN: Final = bytes(6)
_ETH_ARP: Final = 0x0806
_HEADER: Final = struct.Struct(">6s6sHHHBBH")
_TABLE: Final = Path("/proc/net/arp")
_COMPLETE: Final = 0x2
"""The flag of an entry that has a MAC (ATF_COM)."""


def ask(link: str, address: IPv4Address, target: IPv4Address) -> None:
    """Broadcast an ARP request for `target` on a link, for the owner of `address`.

    Raises HostError.
    """
    try:
        with _opened(link) as (door, mac):
            door.send(request(mac, address, target))
    except OSError as exc:
        raise HostError(f"cannot send ARP by {link}: {exc}") from exc


def announce(link: str, address: IPv4Address) -> None:
    """Broadcast by a link that `address` is at its MAC (gratuitous ARP). Raises HostError."""
    ask(link, address, address)


def mac_of(link: str) -> str:
    """Return the MAC of a link. Raises HostError."""
    try:
        with _opened(link) as (_, mac):
            return mac.hex(":")
    except OSError as exc:
        raise HostError(f"cannot read the MAC of {link}: {exc.strerror}") from exc


def resolved(table: Path = _TABLE) -> dict[tuple[IPv4Address, str], str]:
    """Return the MACs that the kernel has resolved, by address and link. Raises HostError."""
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except OSError as exc:
        raise HostError(f"cannot read {table}: {exc.strerror}") from exc
    found = {}
    for line in lines:
        address, _type, flags, mac, _mask, link = line.split()
        if int(flags, 16) & _COMPLETE:
            found[IPv4Address(address), link] = mac
    return found


def request(mac: bytes, address: IPv4Address, target: IPv4Address) -> bytes:
    """Return the frame of an ARP request."""
    header = _HEADER.pack(_BROADCAST, mac, _ETH_ARP, 1, 0x0800, 6, 4, 1)
    return header + mac + address.packed + _UNKNOWN + target.packed


@contextmanager
def _opened(link: str) -> Iterator[tuple[socket.socket, bytes]]:
    """Open a raw socket on a link; give it with the link's MAC. Raises OSError."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as door:
        door.setblocking(False)  # noqa: FBT003 - the name says it
        door.bind((link, 0))
        yield door, door.getsockname()[4]
