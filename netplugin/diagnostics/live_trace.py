"""GET /inspect/sightings, POST /trace/send: a marked packet, sent and looked for on this host.

In comes the mark of a packet; out goes on which links of this host it and its answers were seen,
and in which direction. One socket looks at all links, and the kernel passes it only frames that end
with the mark or acknowledge it: other packets cost it some comparisons. In the same way a pod's
first packet of a trace is sent, through the tables of its bridge as if it came in by the pod's
port. netmaster alone may ask (`netmaster.api.v2.diagnostics.live_trace`), since it knows who may
send in whose name.
"""

import asyncio
import errno
import logging
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from math import isfinite
from typing import Any, Final, Protocol

from aiohttp import web

from contivmodel.wire import dumps
from core.errors import ContivError, HostError, Invalid
from core.logs import fields
from core.outside_json import read_json
from core.patience import patient
from netplugin.diagnostics.limits import ConcurrencyLimit, KnownMasters, forbidden
from netplugin.kernel.packets import packet_socket
from netplugin.kernel.packets.packet_socket import Instruction
from netplugin.ovsdb import Ovsdb
from netplugin.trace import request as trace_request
from netplugin.trace.request import TraceRequest
from ofnet.agent import BridgeAgent
from ofnet.trace import frames
from ofnet.trace.frames import MARK
from ofnet.world import Bridge

log = logging.getLogger(__name__)

SEEN: Final = "/inspect/sightings"
SEND: Final = "/trace/send"
AT_ONCE: Final = 4
LONGEST: Final = patient(5.0)
"""Seconds that are looked for a packet at most."""
MOST: Final = 100
"""Limit of reported observations; a looping packet has no end of them."""

_FRAME: Final = 1 << 16

Sighting = dict[str, Any]


class Sender(Protocol):
    """What sends packets (`netplugin.trace.tracer`)."""

    async def send(self, asked: TraceRequest, mark: bytes) -> None:
        """Send the packet of a question. Raises Invalid, NotFound and SwitchUnavailable."""


class LiveTraces:
    """What this host does for traces of real packets."""

    def __init__(
        self,
        sender: Sender,
        agents: Mapping[Bridge, BridgeAgent],
        ovsdb: Ovsdb,
        masters: KnownMasters,
    ) -> None:
        self._sender = sender
        self._agents = agents
        self._ovsdb = ovsdb
        self._masters = masters
        self._places = ConcurrencyLimit(AT_ONCE, "packets are looked for on this host already")

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.get(SEEN, self._look), web.post(SEND, self._send)]

    async def _send(self, request: web.Request) -> web.Response:
        if not await self._masters.asked_by_master(request):
            return _refused(request)
        try:
            asked = read_json(await request.read())
            mark = mark_of(str(asked.pop("mark", "")))
            await self._sender.send(trace_request.read(asked), mark)
        except (ValueError, RecursionError, AttributeError, TypeError):
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="the body is no question\n")
        except Invalid as exc:
            return web.Response(status=HTTPStatus.BAD_REQUEST, text=f"{exc}\n")
        except ContivError as exc:
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text=f"{exc}\n")
        return web.Response(text="{}\n", content_type="application/json")

    async def _look(self, request: web.Request) -> web.StreamResponse:
        if not await self._masters.asked_by_master(request):
            return _refused(request)
        try:
            mark = mark_of(request.query.get("mark", ""))
            seconds = _seconds(request.query.get("seconds", ""))
            with self._places.taken(), marked_packets(mark) as packets:
                # The head of the answer says that this host looks: the packet may be sent now.
                reply = web.StreamResponse(headers={"Content-Type": "application/json"})
                await reply.prepare(request)
                try:
                    found = await sightings(packets, mark, seconds)
                except HostError as exc:
                    return _broken_off(request, reply, exc)
                endpoints = self._endpoints()
                told = [{**one, "endpoint": endpoints.get(one["link"], "")} for one in found]
                await reply.write(dumps(told))
                await reply.write_eof()
                return reply
        except ContivError as exc:
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text=f"{exc}\n")

    def _endpoints(self) -> dict[str, str]:
        """Return the keys of this host's endpoints by the host's ends of their links."""
        found = {}
        for bridge, agent in self._agents.items():
            links = {row.ofport: row.name for row in self._ovsdb.ports(bridge).values()}
            for key, endpoint in agent.world.local.items():
                if endpoint.ofport in links:
                    found[links[endpoint.ofport]] = str(key)
        return found


@contextmanager
def marked_packets(mark: bytes) -> Iterator[socket.socket]:
    """Provide a socket that receives what ends with a mark, on all links. Raises HostError."""
    with packet_socket.filtered(program(mark)) as made:
        yield made


def program(mark: bytes) -> tuple[Instruction, ...]:
    """Return the filter of Linux (BPF) for frames that `ofnet.trace.frames.seen` may know.

    These end with the mark, or are TCP's and acknowledge a marked packet.
    """
    first, second = struct.unpack(">II", mark)
    short, whole = frames.acknowledged(mark)
    # the numbers of jumps are how many instructions to skip, if the comparison holds and if not
    return (
        (0x80, 0, 0, 0),  # A = length of the frame
        (0x14, 0, 0, MARK),  # A -= bytes of the mark; what is shorter is refused by the loads
        (0x07, 0, 0, 0),  # X = A
        (0x40, 0, 0, 0),  # A = the word at X
        (0x15, 0, 2, first),
        (0x40, 0, 0, 4),
        (0x15, 13, 0, second),  # take it
        (0x28, 0, 0, 12),  # A = the type of Ethernet
        (0x15, 0, 4, 0x0800),
        (0x30, 0, 0, 23),  # A = the protocol of IPv4
        (0x15, 0, 8, 6),  # other than TCP: refuse
        (0x20, 0, 0, 42),  # A = what TCP acknowledges
        (0x05, 0, 0, 4),
        (0x15, 0, 5, 0x86DD),
        (0x30, 0, 0, 20),  # A = the next header of IPv6
        (0x15, 0, 3, 6),
        (0x20, 0, 0, 62),
        (0x15, 2, 0, short),
        (0x15, 1, 0, whole),
        (0x06, 0, 0, 0),  # refuse it
        (0x06, 0, 0, _FRAME),  # take it
    )


async def sightings(packets: socket.socket, mark: bytes, seconds: float) -> list[Sighting]:
    """Return on which links a marked packet was seen within so many seconds, in order.

    Raises HostError if the socket fails.
    """
    found: list[Sighting] = []
    loop = asyncio.get_running_loop()
    until = time.monotonic() + seconds
    while len(found) < MOST and (left := until - time.monotonic()) > 0:
        try:
            async with asyncio.timeout(left):
                data, (link, _, direction, *_) = await _received(loop, packets)
        except TimeoutError:
            break
        known = frames.seen(data, mark)
        if known is not None:  # what came before the filter was there is anything
            out = direction == socket.PACKET_OUTGOING
            found.append({"link": link, "direction": "out" if out else "in", **known._asdict()})
    return found


async def _received(
    loop: asyncio.AbstractEventLoop, packets: socket.socket
) -> tuple[bytes, tuple[Any, ...]]:
    is_down = False
    while True:
        try:
            return packets.recvfrom(_FRAME)
        except BlockingIOError:
            there = asyncio.Event()
            loop.add_reader(packets, there.set)
            try:
                await there.wait()
            finally:
                loop.remove_reader(packets)
            is_down = False
        except OSError as exc:
            # A link that went down is told once, to every such socket.
            if exc.errno != errno.ENETDOWN or is_down:
                raise HostError(f"packets cannot be received: {exc}") from exc
            is_down = True


def mark_of(text: str) -> bytes:
    """Return the mark that a text of hexadecimal digits is. Raises Invalid."""
    try:
        mark = bytes.fromhex(text)
    except ValueError:
        mark = b""
    if len(mark) != MARK:
        raise Invalid(f"mark must have {2 * MARK} hexadecimal digits")
    return mark


def _seconds(text: str) -> float:
    try:
        found = float(text or LONGEST)
    except ValueError as exc:
        raise Invalid(f"seconds={text[:80]} is no number") from exc
    if not isfinite(found):
        raise Invalid(f"seconds={text[:80]} has no end")
    return min(max(found, 0.0), LONGEST)


def _broken_off(
    request: web.Request, reply: web.StreamResponse, error: HostError
) -> web.StreamResponse:
    """End an answer whose head was sent: who asked must not take it for a whole one."""
    log.warning("live trace broken off", extra=fields(peer=request.remote, error=error))
    if request.transport is not None:
        request.transport.abort()
    return reply


def _refused(request: web.Request) -> web.Response:
    log.warning("live trace refused", extra=fields(peer=request.remote, path=request.path))
    return forbidden("live traces are for netmaster alone: use netctl trace --live")
