"""The network stack behind the port of the name service: one that answers for every address.

A namespace with one end of a veth pair; the other end is a port of the bridge. The stack accepts
connections under any address, as the pods' requests are for servers anywhere
(`ofnet.pipelines.features.name_port`). Nothing is in it but the sockets, so that a packet that gets
there reaches nothing else.

The namespace has a file and outlives the agent, so that its link never goes while the bridge is in
use: at each link that comes or goes in its own namespace, Open vSwitch reads its routes anew, and
the userspace datapath may drop what tunnels send meanwhile. The sockets end with the agent; the
next one opens others. Open vSwitch learns of an agent's end by
`netplugin.kernel.packets.heartbeat`.

Functions block while the kernel works; `netplugin.kernel.netns` calls them in a thread pool.
"""

import errno
import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final

from core.errors import HostError
from netplugin.kernel.links import namespaces, pod_links
from netplugin.kernel.links.pod_links import PodLink
from netplugin.kernel.netlink import requests as netlink
from netplugin.kernel.routes.route_table import has_ipv6_on

NAME_MAC: Final = "06:02:00:00:00:35"
"""The MAC address of the end in the namespace; outside the ranges of pods."""

_IFNAME: Final = "dns0"
_MTU: Final = 1500
_PORT: Final = 53
_WAITING: Final = 128
_STAND_INS: Final = IPv4Network("198.18.0.0/15")
_STAND_INS6: Final = IPv6Network("100::/64")
"""The pods' addresses on this side (`ofnet.pipelines.features.name_port.stand_in`)."""

_EVERYTHING: Final = IPv4Network("0.0.0.0/0")
_EVERYTHING6: Final = IPv6Network("::/0")
_TRANSPARENT: Final = {
    socket.AF_INET: (socket.SOL_IP, 19),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 75),
}
"""IP_TRANSPARENT (linux/in.h), IPV6_TRANSPARENT (linux/in6.h): the socket module has no names."""


@dataclass(frozen=True, slots=True)
class NameSpace:
    """The agent's sockets in the namespace: those that accept connections, one that sends frames.

    There is a listener for each version of IP that the host has.
    """

    listeners: tuple[socket.socket, ...]
    frames: socket.socket

    def close(self) -> None:
        """Close all; the namespace stays."""
        for listener in self.listeners:
            listener.close()
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
        _configure6(netlink.required_index("lo"), link)  # and no IPv6
        return _sockets()


def create(host_name: str, path: Path, *, tx_off: bool) -> NameSpace:
    """Create the namespace, with a veth pair whose end on the host has this name.

    It takes the place of one that has the file already. `tx_off` is that of
    `netplugin.kernel.links.pod_links.PodLink`. Raises HostError.
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
    _configure6(loopback, link)


def _configure6(loopback: int, link: int) -> None:
    """Have the stack answer by IPv6 as well, where the host has it."""
    try:
        for name in ("lo", _IFNAME):
            pod_links.enable_ipv6(name)
    except FileNotFoundError:
        return
    netlink.change(netlink.route(link, _STAND_INS6), netlink.local_route(loopback, _EVERYTHING6))


def _sockets() -> NameSpace:
    with ExitStack() as undo:
        listeners = [undo.enter_context(_listener(socket.AF_INET))]
        if has_ipv6_on(_IFNAME):
            try:
                listeners.append(undo.enter_context(_listener(socket.AF_INET6)))
            except OSError as exc:
                # a kernel without IPv6; that a network needs it is told where its pods would go
                if exc.errno != errno.EAFNOSUPPORT:
                    raise
        # protocol 0: it receives nothing
        frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        undo.callback(frames.close)
        frames.bind((_IFNAME, 0))
        undo.pop_all()
    return NameSpace(tuple(listeners), frames)


def _listener(family: socket.AddressFamily) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # Connections of the agent before this one may linger in the kernel.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Answers go out under the address that was asked, which no link has.
        listener.setsockopt(*_TRANSPARENT[family], 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(("", _PORT))
        listener.listen(_WAITING)
    except OSError:
        listener.close()
        raise
    return listener


def pod_socket(netns_path: str, dscp: int, version: int) -> socket.socket:
    """Return a TCP socket in a pod's namespace, whose packets carry a DSCP. Raises HostError."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    with (
        namespaces.opened(netns_path) as namespace,
        netlink.host_errors(f"socket in {netns_path}"),
        namespaces.inside(namespace),
    ):
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    if version == 4:
        made.setsockopt(socket.SOL_IP, socket.IP_TOS, dscp << 2)
    else:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
    return made
