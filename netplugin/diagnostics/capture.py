"""GET /inspect/capture/{key}: the packets of one endpoint of this host, as a stream in pcap format.

In come the bounds of a capture (`CaptureBounds`); packets are read from the host's end of the pod's
link by a packet socket. netmaster alone may ask (`netmaster.api.v2.diagnostics.capture`), since it
knows who may see whose packets. A capture ends with its bounds, or when netmaster hangs up; so many
run side by side at most, and packets are read at most so fast, so that a busy pod does not take the
agent's time from others. What is too fast is left out and counted.
"""

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from core.errors import ContivError, HostError, Invalid, NotFound
from core.ids import EndpointKey
from core.logs import fields
from core.numbers import bounded
from netplugin.diagnostics.limits import ConcurrencyLimit, KnownMasters, forbidden
from netplugin.diagnostics.pcap import MEDIA, file_header, packet_filter, record
from netplugin.ovsdb import Ovsdb
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge

log = logging.getLogger(__name__)

PATH: Final = "/inspect/capture/{key}"
AT_ONCE: Final = 4
"""Captures that run side by side."""
BATCH: Final = 64
PAUSE: Final = 0.004
"""Seconds after each batch of packets: 16 000 a second are read at most."""
LOOK: Final = 0.2
"""Seconds after which a capture without packets looks whether anybody still wants it."""

_ETH_P_ALL: Final = 3
_TIMESTAMPS: Final = 35
"""SO_TIMESTAMPNS (socket(7)), which Python's module does not name."""
_TIMESPEC: Final = struct.Struct("@qq")
_LONGEST: Final = 1 << 16
"""Bytes of the longest packet, one that the sender's kernel left to the card to divide."""
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_COUNTERS: Final = struct.Struct("@II")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureBounds:
    """How long a capture goes on: seconds, packets, bytes of the stream; and of each packet."""

    seconds: int = 10
    count: int = 1000
    size: int = 16 << 20
    snaplen: int = 65_535
    filter: str = ""


_MOST: Final = {"seconds": 50, "count": 100_000, "size": 64 << 20, "snaplen": 65_535}
"""The greatest values. A stream may be silent all the time, and connections end after 60 s."""


def bounds_of(asked: Mapping[str, str]) -> CaptureBounds:
    """Return the bounds that a query asks for. Raises Invalid."""
    numbers = {}
    for name, text in asked.items():
        most = _MOST.get(name)
        if most is None and name != "filter":
            raise Invalid(f"unknown parameter {name}; known are {', '.join([*_MOST, 'filter'])}")
        if most is not None:
            number = bounded(text, 1, most)
            if number is None:
                raise Invalid(f"parameter {name}={text[:80]} is not a number from 1 to {most}")
            numbers[name] = number
    return CaptureBounds(**numbers, filter=asked.get("filter", ""))


class Captures:
    """The captures of this host."""

    def __init__(
        self,
        agents: Mapping[Bridge, BridgeAgent],
        ovsdb: Ovsdb,
        masters: KnownMasters,
    ) -> None:
        self._agents = agents
        self._ovsdb = ovsdb
        self._masters = masters
        self._places = ConcurrencyLimit(
            AT_ONCE, "captures run on this host already; try again later"
        )

    def routes(self) -> list[web.RouteDef]:
        """Return the route."""
        return [web.get(PATH, self._answer)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if not await self._masters.asked_by_master(request):
            log.warning("capture refused", extra=fields(peer=request.remote, path=request.path))
            return forbidden("packets are for netmaster alone: use netctl capture")
        try:
            bounds = bounds_of(request.query)
            wanted = packet_filter(bounds.filter)
            link = self._link(EndpointKey(request.match_info["key"]))
            with self._places.taken(), packet_socket(link) as packets:
                return await _capture(request, packets, bounds, wanted)
        except ContivError as exc:
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text=f"{exc}\n")

    def _link(self, key: EndpointKey) -> str:
        """Return the name of the host's end of an endpoint's link. Raises NotFound."""
        for bridge, agent in self._agents.items():
            endpoint = agent.world.local.get(key)
            if endpoint is not None:
                for row in self._ovsdb.ports(bridge).values():
                    if row.ofport == endpoint.ofport:
                        return row.name
        raise NotFound(f"endpoint {key} has no port on this host")


@contextmanager
def packet_socket(link: str) -> Iterator[socket.socket]:
    """Provide a socket that receives the packets of a link of this host. Raises HostError."""
    try:
        # With protocol 0 nothing is received before it is bound to the link.
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except OSError as exc:
        raise HostError(f"no packet socket: {exc.strerror}") from exc
    with made:
        try:
            made.settimeout(0)
            made.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)
            made.bind((link, _ETH_P_ALL))
        except OSError as exc:
            raise HostError(f"packets of {link} cannot be read: {exc.strerror}") from exc
        yield made


async def _capture(
    request: web.Request,
    packets: socket.socket,
    bounds: CaptureBounds,
    wanted: Callable[[bytes], bool],
) -> web.StreamResponse:
    reply = web.StreamResponse(headers={"Content-Type": MEDIA})
    await reply.prepare(request)
    until = time.monotonic() + bounds.seconds
    header = file_header(bounds.snaplen)
    count, size = 0, len(header)
    with suppress(ConnectionError):
        await reply.write(header)
        while count < bounds.count and not _hung_up(request):
            left = until - time.monotonic()
            if left <= 0 or not await _readable(packets, min(left, LOOK)):
                if left <= 0:
                    break
                continue
            part = bytearray()
            for at, data in _received(packets):
                if count < bounds.count and wanted(data):
                    part += record(at, data[: bounds.snaplen], len(data))
                    count += 1
            if size + len(part) > bounds.size:
                break
            size += len(part)
            if part:
                await reply.write(bytes(part))
            await asyncio.sleep(PAUSE)
        await reply.write_eof()
    about = fields(path=request.path, peer=request.remote, count=count)
    log.info("capture ended", extra={**about, "dropped": _dropped(packets)})
    return reply


def _hung_up(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def _readable(packets: socket.socket, within: float) -> bool:
    """Return whether packets are there, or come within so many seconds."""
    loop = asyncio.get_running_loop()
    there = asyncio.Event()
    loop.add_reader(packets, there.set)
    try:
        async with asyncio.timeout(within):
            await there.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(packets)
    return True


def _received(packets: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Yield time in nanoseconds and bytes of the packets that are there, of a batch."""
    for _ in range(BATCH):
        try:
            data, more, _, _ = packets.recvmsg(_LONGEST, 64)
        except OSError:  # nothing more, or the link is gone
            return
        at = time.time_ns()
        for level, kind, value in more:
            if (level, kind) == (socket.SOL_SOCKET, _TIMESTAMPS):
                seconds, rest = _TIMESPEC.unpack(value[: _TIMESPEC.size])
                at = seconds * 1_000_000_000 + rest
        yield at, data


def _dropped(packets: socket.socket) -> int:
    """Return how many packets came faster than they were read."""
    try:
        read = packets.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _COUNTERS.size)
    except OSError:
        return 0
    _, dropped = _COUNTERS.unpack(read)
    return int(dropped)
