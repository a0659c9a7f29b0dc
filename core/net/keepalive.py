"""TCP's keepalive: a connection whose peer is gone without a word ends (tcp(7), RFC 9293 §3.8.4).

A host that loses its power or its network says nothing. Without probes a connection to it, on which
nothing is to be sent, stays for ever.
"""

import socket
from typing import Final

PROBES: Final = 3
"""Probes without an answer after which a connection ends."""


def set_keepalive(connection: socket.socket, *, idle: int, interval: int) -> None:
    """Have the kernel probe a peer after `idle` seconds without a byte, then every `interval`."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
