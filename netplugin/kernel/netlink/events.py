"""Sockets that hear of the kernel's changes by netlink.

In come a protocol of netlink and its groups, out goes a socket. What is heard is read by
`netplugin.kernel.netns`, `netplugin.kernel.routes.route_watch` and
`netplugin.kernel.firewall.firewall_watch`.
"""

import socket
from typing import Final

_FORCED_BUFFER: Final = 33
"""SO_RCVBUFFORCE."""


def listening(protocol: int, groups: int, buffer: int = 0) -> socket.socket:
    """Return a socket that hears of the changes of some groups, a mask, from now on.

    `buffer` is the bytes of events that wait, 0 for as many as the kernel gives. Raises OSError.
    """
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    events = socket.socket(socket.AF_NETLINK, kind, protocol)
    try:
        if buffer:
            events.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, buffer)
        events.bind((0, groups))
    except OSError:
        events.close()
        raise
    return events
