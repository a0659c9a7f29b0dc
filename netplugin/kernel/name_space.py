"""The network stack behind the port of the name service: one that answers for every address.

A namespace with one end of a veth pair; the other end is a port of the bridge. The stack accepts
connections under any address, as the pods' requests are for servers anywhere
(`ofnet.pipelines.name_port`). Nothing is in it but the sockets, so that a packet that gets there
reaches nothing else.

The namespace has a file and outlives the agent, so that its link never goes while the bridge is in
use: at each link that comes or goes in its own namespace, Open vSwitch reads its routes anew, and
the userspace datapath may drop what tunnels send meanwhile. The sockets end with the agent; the
next one opens others. Open vSwitch learns of an agent's end by `netplugin.kernel.heartbeat`.

Functions block while the kernel works; `netplugin.kernel.netns` calls them in a thread pool.
"""

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from core.errors import HostError
from netplugin.kernel import namespaces, netlink, pod_links
from netplugin.kernel.pod_links import PodLink

NAME_MAC: Final = "06:02:00:00:00:35"
"""The MAC address of the end in the namespace; outside the ranges of pods."""

_IFNAME: Final = "dns0"
_MTU: Final = 1500
_PORT: Final = 53
_WAITING: Final = 128
_STAND_INS: Final = IPv4Network("198.18.0.0/15")
"""The pods' addresses on this side (`ofnet.pipelines.name_port.stand_in`)."""

_EVERYTHING: Final = IPv4Network("0.0.0.0/0")


@dataclass(frozen=True, slots=True)
class NameSpace:
    """The agent's sockets in the namespace: one accepts connections, one sends frames."""

    listener: socket.socket
    frames: socket.socket

    def close(self) -> None:
        """Close both; the namespace stays."""
        self.listener.close()
        self.frames.close()


def reopen(host_name: str, path: Path) -> NameSpace | None:
    """Open sockets in the namespace of this file; None if it is not there with a working link.

    Raises HostError.
    """
    if not namespaces.kept(path) or netlink.index_of(host_name) is None:
        return None
    if not pod_links.running(host_name):
        return None
    with (
        namespaces.opened(str(path)) as namespace,
        netlink.host_errors(f"sockets in {path}"),
        namespaces.inside(namespace),
    ):
        link = netlink.index_of(_IFNAME)
        if link is None:
            return None
        netlink.change(netlink.route(link, _STAND_INS))  # an older agent's had a longer prefix
        return _sockets()


def create(host_name: str, path: Path, *, tx_off: bool) -> NameSpace:
    """Create the namespace, with a veth pair whose end on the host has this name.

    It takes the place of one that has the file already. `tx_off` is that of
    `netplugin.kernel.pod_links.PodLink`. Raises HostError.
    """
    namespaces.give_up(path)
    descriptor = namespaces.unnamed()
    try:
        link = PodLink(
            host_name=host_name,
            ifname=_IFNAME,
            netns_path=f"/proc/self/fd/{descriptor}",
            mtu=_MTU,
            tx_off=tx_off,
        )
        pod_links.add(link)
        with netlink.host_errors(f"link {host_name}"), namespaces.inside(descriptor):
            _configure()
            space = _sockets()
        try:
            # Last: what has a file is complete.
            namespaces.keep(descriptor, path)
        except HostError:
            space.close()
            raise
        return space
    finally:
        os.close(descriptor)


def _configure() -> None:
    loopback, link = netlink.required_index("lo"), netlink.required_index(_IFNAME)
    netlink.change(
        netlink.link_up(loopback),
        # No neighbours: every frame goes to the one port of the bridge, whose flows set its MAC.
        netlink.without_neighbours(link, NAME_MAC),
        # The longer prefix leads back to the pods; whatever else arrives is this stack's own.
        netlink.route(link, _STAND_INS),
        netlink.local_route(loopback, _EVERYTHING),
    )


def _sockets() -> NameSpace:
    with ExitStack() as undo:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        undo.callback(listener.close)
        # Connections of the agent before this one may linger in the kernel.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Answers go out under the address that was asked, which no link has.
        listener.setsockopt(socket.SOL_IP, _IP_TRANSPARENT, 1)
        listener.bind(("0.0.0.0", _PORT))
        listener.listen(_WAITING)
        # protocol 0: it receives nothing
        frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        undo.callback(frames.close)
        frames.bind((_IFNAME, 0))
        undo.pop_all()
    return NameSpace(listener, frames)


_IP_TRANSPARENT: Final = 19
"""From linux/in.h; the socket module has no name for it."""


def pod_socket(netns_path: str, dscp: int) -> socket.socket:
    """Return a TCP socket in a pod's namespace, whose packets carry a DSCP. Raises HostError."""
    with (
        namespaces.opened(netns_path) as namespace,
        netlink.host_errors(f"socket in {netns_path}"),
        namespaces.inside(namespace),
    ):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    made.setsockopt(socket.SOL_IP, socket.IP_TOS, dscp << 2)
    return made
