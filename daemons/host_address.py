"""The default address of this host, used when no flag gives one.

`choose` selects it (docs/original/netmaster-daemon.md §1, "Host default IP");
`default_host_address` queries kernel and resolver.
"""

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from core.errors import UsageError

_EXCLUDED_PREFIXES: Final = ("docker", "veth", "vport", "lo")
_SIOCGIFADDR: Final = 0x8915
_TABLE6: Final = Path("/proc/net/if_inet6")
_GLOBAL: Final = 0x00
_PASSING: Final = 0x01 | 0x08 | 0x20 | 0x40
"""Temporary, duplicate, deprecated, tentative (linux/if_addr.h)."""


def choose(resolved: Sequence[str], interfaces: Mapping[str, str]) -> str | None:
    """Return the first resolved address on a usable interface, else the first usable address.

    `interfaces` maps each interface to its primary address, in the kernel's order.
    """
    # Addresses of docker bridges, veths and the agent's own ports are reachable on this host only.
    usable = [
        address for name, address in interfaces.items() if not name.startswith(_EXCLUDED_PREFIXES)
    ]
    for address in resolved:
        if address in usable and not ipaddress.ip_address(address).is_loopback:
            return address
    return usable[0] if usable else None


def default_host_address() -> str:
    """Return this host's default address, of IPv4 if it has one. Raises UsageError."""
    name = socket.gethostname()
    address = choose(_resolved(name), _interfaces()) or choose(_resolved6(name), interfaces6())
    if address is None:
        raise UsageError("this host has no usable address: name one on the command line")
    return address


def _resolved(name: str) -> list[str]:
    try:
        return socket.gethostbyname_ex(name)[2]
    except OSError:  # many hosts cannot resolve their own name
        return []


def _resolved6(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(place[0]) for *_, place in found]


def interfaces6(table: Path = _TABLE6) -> dict[str, str]:
    """Return each interface's first lasting global address."""
    found: dict[str, str] = {}
    try:
        lines = table.read_text(encoding="ascii").splitlines()
    except OSError:  # a kernel without IPv6
        return found
    for line in lines:
        digits, _index, _length, scope, flags, name = line.split()
        if int(scope, 16) == _GLOBAL and not int(flags, 16) & _PASSING:
            found.setdefault(name, str(ipaddress.IPv6Address(int(digits, 16))))
    return found


def _interfaces() -> dict[str, str]:
    found: dict[str, str] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:  # an interface without an IPv4 address
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    return found
