"""The addresses of this machine, and the next hops of its routes, as Linux shows them.

Both daemons register them, so that no network takes them (`state.underlay`). Out come addresses as
text, without loopback and link-local ones, and without those of endpoints; the caller says which
links are left out besides. Of a route with several next hops the kernel shows the first one here.
"""

import array
import fcntl
import socket
import struct
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from core.addresses import mac_text
from core.errors import HostError

Address = IPv4Address | IPv6Address

_SIOCGIFCONF: Final = 0x8912
_SIOCGIFHWADDR: Final = 0x8927
_IFREQ: Final = 40
"""Bytes of a name and an address in the answer (netdevice(7))."""
_MOST: Final = 1024
_IFCONF: Final = struct.Struct("iP")
_GATEWAY: Final = 0x2
TABLES: Final = Path("/proc/net")


@dataclass(frozen=True, slots=True)
class MachineAddresses:
    """Addresses of a machine and the neighbours that its routes lead to, as text, sorted."""

    addresses: tuple[str, ...] = ()
    next_hops: tuple[str, ...] = ()


def read(is_left_out: Callable[[str], bool], tables: Path = TABLES) -> MachineAddresses:
    """Return what the kernel has now, without some links by their names. Raises HostError.

    `tables` is the folder in which the kernel shows them.
    """
    try:
        held4 = list(_addresses4())
        held: list[tuple[str, Address]] = [*held4, *_addresses6(tables / "if_inet6")]
        hops: list[tuple[str, Address]] = [
            *_next_hops4(tables / "route"),
            *_next_hops6(tables / "ipv6_route"),
        ]
        endpoints = _of_endpoints(held4)
    except (OSError, ValueError) as exc:
        raise HostError(f"cannot read the addresses of this machine: {exc}") from exc
    out = {link for link, _ in (*held, *hops) if is_left_out(link)} | endpoints
    return MachineAddresses(_texts(held, out), _texts(hops, out))


def _texts(found: Iterable[tuple[str, Address]], left_out: Container[str]) -> tuple[str, ...]:
    kept = {address for link, address in found if link not in left_out and _is_of_use(address)}
    return tuple(sorted(map(str, kept)))


def _of_endpoints(held: Iterable[tuple[str, IPv4Address]]) -> set[str]:
    """Return the links that are interfaces of this machine on networks of Contiv.

    Such a link has any name, and the MAC address that goes with its address. Were its address taken
    for the machine's own, the network that gave it would be refused for it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return {link for link, address in held if _mac(sock, link) == mac_text(int(address))}


def _mac(sock: socket.socket, link: str) -> str:
    """Return the MAC address of a link, "" if it has gone."""
    try:
        answer = fcntl.ioctl(sock, _SIOCGIFHWADDR, struct.pack(f"{_IFREQ}s", link.encode()))
    except OSError:
        return ""
    return answer[18:24].hex(":")


def _is_of_use(address: Address) -> bool:
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def _addresses4() -> Iterator[tuple[str, IPv4Address]]:
    room = array.array("B", bytes(_MOST * _IFREQ))
    at, _ = room.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock, _SIOCGIFCONF, _IFCONF.pack(len(room), at))
    length, _ = _IFCONF.unpack(answer)
    for start in range(0, length, _IFREQ):
        entry = room[start : start + _IFREQ].tobytes()
        name = entry[:16].partition(b"\0")[0].decode()
        # A further address may have a label, as in `eth0:1`.
        yield name.partition(":")[0], IPv4Address(entry[20:24])


def _addresses6(table: Path) -> Iterator[tuple[str, IPv6Address]]:
    for words in _lines(table):
        yield words[5], IPv6Address(int(words[0], 16))


def _next_hops4(table: Path) -> Iterator[tuple[str, IPv4Address]]:
    for words in _lines(table)[1:]:
        if int(words[3], 16) & _GATEWAY:
            yield words[0], IPv4Address(int(words[2], 16).to_bytes(4, "little"))


def _next_hops6(table: Path) -> Iterator[tuple[str, IPv6Address]]:
    for words in _lines(table):
        if int(words[8], 16) & _GATEWAY:
            yield words[9], IPv6Address(int(words[4], 16))


def _lines(table: Path) -> list[list[str]]:
    """Return the words of a table's lines, none where the kernel has no such family."""
    if not table.exists():
        return []
    return [line.split() for line in table.read_text(encoding="ascii").splitlines()]
