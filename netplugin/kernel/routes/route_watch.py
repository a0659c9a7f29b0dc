"""Tells when others removed routing of the agent: what is missing is set again at once.

In come the kernel's events about links, addresses, neighbours, routes and rules; out goes an event
for the loops that keep them (`netplugin.bridges.reconcile_loop`). What the agent itself changed
does not count (`netplugin.kernel.netlink.requests`): a pod that comes or goes costs nothing here.
"""

# A link that is set down counts too: the kernel removes its routes of IPv4 and tells nobody.

import asyncio
import errno
import logging
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Never

from pyroute2.netlink.rtnl import (
    RTM_DELADDR,
    RTM_DELLINK,
    RTM_DELROUTE,
    RTM_DELRULE,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
)

from core.change_notifier import ChangeNotifier
from core.errors import HostError
from core.retry import Loop, retry
from netplugin.kernel.netlink import requests as netlink
from netplugin.kernel.netlink.events import listening
from netplugin.kernel.routes.route_table import ROUTE_PROTOCOL, TABLE

log = logging.getLogger(__name__)

QUIET: Final = 0.1
"""Seconds without a further event after which a change is taken for complete."""
LONGEST_CHANGE: Final = 0.5
"""Seconds after which a change counts although events go on."""
PAUSE: Final = 1.0
"""Seconds between two events that are told: a program that removes all the time costs no more."""

_GROUPS: Final = sum(1 << group - 1 for group in (1, 3, 5, 7, 8, 9, 11, 19))
"""Links, neighbours; addresses, routes and rules of IPv4 and IPv6 (rtnetlink(7): RTNLGRP_…)."""
_HEADER: Final = struct.Struct("=IHHII")
_BODY: Final = {
    RTM_DELADDR: struct.Struct("=BBBBI"),
    RTM_DELLINK: struct.Struct("=BxHiII"),
    RTM_NEWLINK: struct.Struct("=BxHiII"),
    RTM_NEWNEIGH: struct.Struct("=BxxxiHBB"),
    RTM_DELROUTE: struct.Struct("=BBBBBBBBI"),
    RTM_DELRULE: struct.Struct("=BBBBBBBBI"),
}
"""The fixed part of each message (rtnetlink(7))."""
_TABLE_ATTRIBUTE: Final = 15
_PROTOCOL_ATTRIBUTE: Final = 21
_IFF_UP: Final = 1
_PERMANENT: Final = 0x80
_RESOLVING: Final = 0x5F
"""All states of a neighbour but FAILED, which one has that is removed (NUD_…)."""

_RECEIVE: Final = 1 << 16
_BUFFER: Final = 1 << 20


class RouteWatch:
    """Watches the routing of this host. One per agent.

    `is_host_port` tells whether a link by name is the host's own on a bridge of the agent. After a
    loss that was told, `pause` seconds pass.
    """

    def __init__(self, is_host_port: Callable[[str], bool], *, pause: float = PAUSE) -> None:
        self._pause = pause
        self._is_host_port = is_host_port
        self._lost = ChangeNotifier()
        self._loop = Loop(
            log,
            "events of routing not followed",
            errors=(OSError, HostError),
            remedy="until then what others remove is back after --audit-interval only",
        )

    def lost(self) -> asyncio.Event:
        """Return an event that is set when others removed routing from now on."""
        return self._lost.next

    async def run(self) -> None:
        """Watch, for ever."""
        await retry(self._loop, self._follow)

    async def _follow(self) -> Never:
        loop = asyncio.get_running_loop()
        with listening(socket.NETLINK_ROUTE, _GROUPS, _BUFFER) as events:
            if self._loop.works():
                self._lost.notify()  # what happened meanwhile is not known
            while True:
                ports = await self._removed(loop, events)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LONGEST_CHANGE):
                        while ports:
                            async with asyncio.timeout(QUIET):
                                ports |= await self._removed(loop, events)
                # only now: the agent notes what it changes when that is done
                if ports - netlink.own_ports():
                    log.info("routing changed by others, set again")
                    self._lost.notify()
                    await asyncio.sleep(self._pause)

    async def _removed(
        self, loop: asyncio.AbstractEventLoop, events: socket.socket
    ) -> frozenset[int]:
        """Return who asked for the removals in the next events; the kernel itself is 0."""
        try:
            data = await loop.sock_recv(events, _RECEIVE)
        except OSError as exc:
            if exc.errno != errno.ENOBUFS:
                raise
            return frozenset({0})  # events were lost
        return frozenset(self._ports(data))

    def _ports(self, data: bytes) -> Iterator[int]:
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, _, _, port = _HEADER.unpack_from(data, at)
            body = _BODY.get(kind)
            # a neighbour that the kernel itself gives up was never set by the agent
            asked = port or kind != RTM_NEWNEIGH
            message = data[at + _HEADER.size : at + length]
            if body is not None and asked and self._concerns(kind, message):
                yield port
            at += max(length + 3 & ~3, _HEADER.size)

    def _concerns(self, kind: int, message: bytes) -> bool:
        """Tell whether an event may be the end of something that the agent set."""
        body = _BODY[kind]
        fixed = body.unpack_from(message)
        if kind == RTM_DELROUTE:
            return _number(message, body.size, _TABLE_ATTRIBUTE) == TABLE
        if kind == RTM_DELRULE:
            return _number(message, body.size, _PROTOCOL_ATTRIBUTE) == ROUTE_PROTOCOL
        if kind == RTM_NEWLINK and fixed[3] & _IFF_UP:
            return False
        if kind == RTM_NEWNEIGH and fixed[2] & (_PERMANENT | _RESOLVING):
            return False
        index = fixed[4] if kind == RTM_DELADDR else fixed[1] if kind == RTM_NEWNEIGH else fixed[2]
        try:
            return self._is_host_port(socket.if_indextoname(index))
        except OSError:
            return False  # it is gone, which is noticed in Open vSwitch


def _number(message: bytes, at: int, wanted: int) -> int:
    """Return an attribute as a number, 0 without it."""
    found = (value for kind, value in netlink.attributes(message, at) if kind == wanted)
    return int.from_bytes(next(found, b""), sys.byteorder)
