"""Frames by which this host asks for neighbours and announces itself, by a link of its own.

ARP for IPv4 (RFC 826, 5227), neighbour discovery for IPv6 (RFC 4861).

Nothing is received: who asks reads the answer elsewhere, such as in Open vSwitch, or in what the
kernel has resolved. Needs the capability to open raw sockets.
"""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from pyroute2 import IPRoute

from core.errors import HostError
from netplugin.kernel.netlink import requests as netlink
from netplugin.kernel.netlink.requests import Address
from ofnet.openflow import packets

_BROADCAST: Final = b"\xff" * 6
_UNKNOWN: Final = bytes(6)
_ETH_ARP: Final = 0x0806
_HEADER: Final = struct.Struct(">6s6sHHHBBH")
_TABLE: Final = Path("/proc/net/arp")
_UNKNOWN_STATES: Final = (0x01, 0x20)
"""Those of entries without a valid MAC (NUD_INCOMPLETE, NUD_FAILED)."""
_COMPLETE: Final = 0x2
"""The flag of an entry that has a MAC (ATF_COM)."""


def ask(link: str, address: Address, target: Address) -> None:
    """Request the MAC of `target` on a link, for the owner of `address`, of one family.

    Raises HostError.
    """
    if isinstance(address, IPv6Address) and isinstance(target, IPv6Address):
        _send(link, lambda mac: packets.solicitation(mac.hex(":"), address, target))
    elif isinstance(address, IPv4Address) and isinstance(target, IPv4Address):
        _send(link, lambda mac: request(mac, address, target))


def announce(link: str, address: Address) -> None:
    """Tell all on a link that `address` is at its MAC, without being asked. Raises HostError."""
    if isinstance(address, IPv6Address):
        _send(link, lambda mac: packets.unsolicited(mac.hex(":"), address))
    else:
        ask(link, address, address)


def mac_of(link: str) -> str:
    """Return the MAC of a link. Raises HostError."""
    try:
        with _opened(link) as (_, mac):
            return mac.hex(":")
    except OSError as exc:
        raise HostError(f"cannot read the MAC of {link}: {exc.strerror}") from exc


def resolved(version: int, table: Path = _TABLE) -> dict[tuple[Address, str], str]:
    """Return the MACs that the kernel has resolved, by address and link. Raises HostError.

    `table` has those of IPv4.
    """
    return _resolved4(table) if version == 4 else _resolved6()


def _resolved6() -> dict[tuple[Address, str], str]:
    with netlink.host_errors("cannot read the neighbours"), IPRoute() as iproute:
        links = {link["index"]: str(link.get("ifname")) for link in iproute.get_links()}
        found = ((one, one.get("lladdr")) for one in iproute.get_neighbours(socket.AF_INET6))
        return {
            (IPv6Address(one.get("dst")), links[one["ifindex"]]): str(mac)
            for one, mac in found
            if mac and one["ifindex"] in links and one["state"] not in _UNKNOWN_STATES
        }


def _resolved4(table: Path) -> dict[tuple[Address, str], str]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except OSError as exc:
        raise HostError(f"cannot read {table}: {exc.strerror}") from exc
    found: dict[tuple[Address, str], str] = {}
    for line in lines:
        address, _type, flags, mac, _mask, link = line.split()
        if int(flags, 16) & _COMPLETE:
            found[IPv4Address(address), link] = mac
    return found


def request(mac: bytes, address: IPv4Address, target: IPv4Address) -> bytes:
    """Return the frame of an ARP request."""
    header = _HEADER.pack(_BROADCAST, mac, _ETH_ARP, 1, 0x0800, 6, 4, 1)
    return header + mac + address.packed + _UNKNOWN + target.packed


def _send(link: str, frame: Callable[[bytes], bytes]) -> None:
    try:
        with _opened(link) as (door, mac):
            door.send(frame(mac))
    except OSError as exc:
        raise HostError(f"cannot ask for neighbours by {link}: {exc}") from exc


@contextmanager
def _opened(link: str) -> Iterator[tuple[socket.socket, bytes]]:
    """Open a raw socket on a link; give it with the link's MAC. Raises OSError."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as door:
        door.setblocking(False)  # noqa: FBT003 - the name says it
        door.bind((link, 0))
        yield door, door.getsockname()[4]
