"""Whether a program of the host has a port: a socket tries to bind to it, and is closed again.

In comes a port of the host that a pod asks for (`netplugin.pods.host_port_mappings.port_mappings`).
The socket lives for microseconds and never listens. It belongs to the network namespace of the
calling thread.
"""

import errno
import socket
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final

_KINDS: Final[Mapping[str, tuple[int, int]]] = {
    "tcp": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "udp": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "sctp": (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
}


def in_use(protocol: str, address: IPv4Address | IPv6Address, port: int) -> bool:
    """Tell whether a program receives what is sent to a port of an address of the host."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    kind, number = _KINDS[protocol]
    try:
        with socket.socket(family, kind, number) as probe:
            if protocol == "tcp":
                # a port is not in use by connections that ended a moment ago
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((str(address), port))
    except OSError as exc:
        # anything else, such as an address that is not the host's, says nothing of a program
        return exc.errno == errno.EADDRINUSE
    return False
