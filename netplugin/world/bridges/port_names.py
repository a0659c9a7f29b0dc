"""The numbers and names of this host's ports (pure).

One number N determines a local endpoint's port: the link in the host's namespace is
`vvport<N>`, the OpenFlow port is N, and its address on the host's private network ends in N
(docs/original/ofnet-ovsdb.md §2). Tunnel ports, uplinks and the host's interfaces have ranges of
OpenFlow numbers of their own, so that two kinds of port never want the same number. The ports that
exist are passed in as arguments (`netplugin.ovsdb` has them).
"""

import hashlib
import re
from collections.abc import Container
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address
from pathlib import Path
from typing import Final

from core.errors import Exhausted, Invalid

FIRST_ENDPOINT: Final = 1
LAST_ENDPOINT: Final = 0x7EFF
LAST_ADOPTED: Final = 0xFFFC
"""Highest N of a port that the original made: its numbers go further, and are only names here."""
HOST_OFPORT: Final = 0x7F00
"""OpenFlow number of `contivh0`."""
FIRST_UPLINK: Final = 0x7F01
"""OpenFlow number of the uplink's first card; those of the others follow."""
BRIDGE_OFPORT: Final = 0x7F3C
"""OpenFlow number of each bridge's own device (`bridge_device`)."""
VLAN_HOST_OFPORT: Final = 0x7F3D
"""OpenFlow number of `contivv0`."""
NAME_OFPORT: Final = 0x7F3E
"""OpenFlow number of the port of the name service, on each bridge."""
ROUTER_OFPORT: Final = 0x7F3F
"""OpenFlow number of `inb01`."""
FIRST_INFRA: Final = 0x7F40
LAST_INFRA: Final = 0x7FFF
FIRST_VTEP: Final = 0x8000
LAST_VTEP: Final = 0xBFFF
FIRST_ACCESS: Final = 0xC000
LAST_ACCESS: Final = 0xFEFF

HOST_PORT: Final = "contivh0"
VLAN_HOST_PORT: Final = "contivv0"
HOST_LINKS: Final = (HOST_PORT, VLAN_HOST_PORT)
"""The host's ports for its pods."""
OWN_LINKS: Final = "contiv+"
"""The host's ports for pods and its interfaces on infra networks, as iptables has it."""
ROUTER_PORT: Final = "inb01"
HOST_NUMBER: Final = 0xFFFE
"""N of the host's own port: the last address of the private network."""

ENDPOINT_ID: Final = "endpoint-id"
"""Key in the external ids of a port: the id of its endpoint."""
PEER_NUMBER: Final = 0xFFFD
"""N of the next hop of the host's routes to its pods; no port has it."""

HOST_ENDPOINT_ID: Final = "hostcontivh0"
NAME_ENDPOINT_ID: Final = "hostcontivdns"
VLAN_HOST_ENDPOINT_ID: Final = "hostcontivv0"
ROUTER_ENDPOINT_ID: Final = "hostinb01"
VTEP_HOST_ID: Final = "vtep-host"
"""Key in the external ids of a tunnel port: the label of the host at its other end."""

MAX_NAME: Final = 15
_ROUTER_MAC: Final = b"\x06\x02"
"""The first two bytes of the MAC address of `inb01`; its BGP identifier follows."""
_ENDPOINT_PORT: Final = re.compile(r"vvport([1-9][0-9]{0,4})")
_ACCESS_PORT: Final = re.compile(r"hport([1-9][0-9]{0,4})")


POD_LINKS: Final = ("vvport", "hport")
"""What the names of the host ends of pods' links begin with."""


def switch_name(number: int) -> str:
    """Return the name of the host end of port N, which is also its name in Open vSwitch."""
    return f"vvport{number}"


def container_name(number: int) -> str:
    """Return the original's name of the container end of port N, before it becomes `eth0`."""
    return f"vport{number}"


def number_of(name: str) -> int | None:
    """Return N of `vvport<N>`, None for any other name."""
    return _number(_ENDPOINT_PORT, name)


ACCESS_IFNAME: Final = "host1"
"""The pod's end of its interface to the host."""


def access_name(number: int) -> str:
    """Return the name of the host end of the interface to the host of the pod behind port N."""
    return f"hport{number}"


def is_access(name: str) -> bool:
    """Return whether a port name is one of `access_name`'s."""
    return _number(_ACCESS_PORT, name) is not None


def pod_number(name: str) -> int | None:
    """Return N of either of a pod's ports, None for any other name."""
    number = _number(_ENDPOINT_PORT, name)
    return _number(_ACCESS_PORT, name) if number is None else number


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.fullmatch(name)
    if match is None:
        return None
    number = int(match[1])
    return number if FIRST_ENDPOINT <= number <= LAST_ADOPTED else None


def bridge_device(bridge: str) -> str:
    """Return the name of a bridge's own device: `contivVxlan`, `contivVlan`."""
    return bridge.removesuffix("Bridge")


def name_port(bridge: int) -> str:
    """Return the name of the port of the name service on a bridge, by the bridge's number."""
    return f"contivdns{bridge}"


_NAME_PORTS: Final = (name_port(0), name_port(1))


def is_name_port(name: str) -> bool:
    """Return whether a port name is one of `name_port`'s."""
    return name in _NAME_PORTS


def name_spaces(directory: Path) -> dict[str, Path]:
    """Return the ports of the name service, and the files of the namespaces behind them."""
    return {name: directory / f"{name}.netns" for name in _NAME_PORTS}


def is_vtep(name: str) -> bool:
    """Return whether a port name is one of `vtep_name`'s."""
    return name.startswith("vxif") and len(name) > len("vxif")


def next_number(last: int, in_use: Container[int]) -> int:
    """Return the next free port number after `last`, wrapping around: none is reused soon.

    Raises Exhausted when all are in use.
    """
    return _next(last, in_use, FIRST_ENDPOINT, LAST_ENDPOINT, "ports")


def next_vtep_ofport(last: int, in_use: Container[int]) -> int:
    """Return the next free OpenFlow number for a tunnel port. Raises Exhausted."""
    return _next(last, in_use, FIRST_VTEP, LAST_VTEP, "tunnel ports")


def next_infra_ofport(in_use: Container[int]) -> int:
    """Return a free OpenFlow number for an interface of the host. Raises Exhausted."""
    return _next(0, in_use, FIRST_INFRA, LAST_INFRA, "ports of infra networks")


def access_ofport(number: int, in_use: Container[int]) -> int:
    """Return a free OpenFlow number for the interface to the host of port N. Raises Exhausted."""
    last = FIRST_ACCESS + number % (LAST_ACCESS - FIRST_ACCESS)
    return _next(last, in_use, FIRST_ACCESS, LAST_ACCESS, "interfaces to the host")


def vtep_name(remote: IPv4Address | IPv6Address, in_use: Container[str]) -> str:
    """Return a free name for the tunnel port towards `remote`.

    As in the original, `vxif` and the address without its dots if that fits and is free; otherwise
    a name from the address's hash (1.11.1.1 and 11.1.1.1 are both `vxif11111`, and Open vSwitch
    cuts names to 15 characters in OpenFlow). So has every address of IPv6.
    """
    plain = "vxif" + str(remote).replace(".", "")
    if remote.version == 4 and len(plain) <= MAX_NAME and plain not in in_use:
        return plain
    for attempt in range(256):
        digest = hashlib.sha256(f"{remote}/{attempt}".encode()).hexdigest()
        hashed = f"vxifx{digest[:10]}"
        if hashed not in in_use:
            return hashed
    raise Exhausted(f"no free name for the tunnel port towards {remote}")


def private_address(subnet: IPv4Network, number: int) -> IPv4Interface:
    """Return the address of port N on the host's private network (172.19.0.0/16 by default).

    Raises Invalid unless the network is a /16, as N fills its two low bytes.
    """
    if subnet.prefixlen != 16:
        raise Invalid(f"private subnet {subnet} must be a /16")
    return IPv4Interface((int(subnet.network_address) + (number & 0xFFFF), 16))


def private_mac(subnet: IPv4Network, number: int) -> str:
    """Return the MAC address that goes with `private_address`: `02:02:` and its four bytes."""
    address = private_address(subnet, number).ip
    return ":".join(f"{byte:02x}" for byte in b"\x02\x02" + address.packed)


def router_mac(identifier: IPv4Address) -> str:
    """Return the MAC address of `inb01`, outside the ranges of pods."""
    return ":".join(f"{byte:02x}" for byte in _ROUTER_MAC + identifier.packed)


def router_link_local(identifier: IPv4Address) -> IPv6Address:
    """Return the IPv6 link-local address of `inb01`: that of its MAC (EUI-64, RFC 4291 A).

    It is unique on the peer's network, since the identifier in it is: this host's IPv4 address
    there, or made of that of IPv6.
    """
    mac = _ROUTER_MAC + identifier.packed
    interface = bytes((mac[0] ^ 0x02,)) + mac[1:3] + b"\xff\xfe" + mac[3:]
    return IPv6Address(b"\xfe\x80" + bytes(6) + interface)


def _next(last: int, in_use: Container[int], first: int, end: int, what: str) -> int:
    count = end - first + 1
    start = last + 1 - first if first <= last <= end else 0
    for step in range(count):
        number = first + (start + step) % count
        if number not in in_use:
            return number
    raise Exhausted(f"all {count} {what} of this host are in use")
