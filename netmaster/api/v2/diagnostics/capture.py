"""Answers `GET /api/v2/endpoints/{key}/capture`: packets of an endpoint, a stream in pcap format.

The agent of the endpoint's host captures and bounds (`netplugin.diagnostics.capture`); this
module knows who may see whose packets, and passes them on. Whose packets were shown to whom is in
the audit log.
"""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import quote, urlencode

from aiohttp import ClientResponse, web

from contivmodel.schema import BINARY
from core.errors import AgentUnavailable
from netmaster.api.http.queries import number, parameters
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.auth import audit
from netmaster.plan.show import inspect

log = logging.getLogger(__name__)

PATH: Final = "/api/v2/endpoints/{key}/capture"
ASKED: Final = "/inspect/capture/"
MEDIA: Final = "application/vnd.tcpdump.pcap"
SECONDS: Final = 60.0
"""Seconds that a capture may take in all; the agent ends it before."""
LOOK: Final = 0.2
"""Seconds without packets after which it is looked whether the client is still there."""
BOUNDS: Final = {"seconds": 50, "count": 100_000, "size": 64 << 20, "snaplen": 65_535}
"""The greatest values of what bounds a capture, as agents have them."""
_SIZE: Final = 16 << 20
_SLACK: Final = 1 << 20
"""Bytes that an agent may send beyond the size that was asked for: its last packets."""
_QUERY: Final = {
    "seconds": "for so many seconds, 1 to 50; 10 by default",
    "count": "so many packets, 1 to 100000; 1000 by default",
    "size": "so many bytes of the stream at most, 1 to 67108864; 16777216 by default",
    "snaplen": "so many bytes of each packet at most, 1 to 65535; 65535 by default",
    "filter": "packets of which all words hold: arp, ip, ip6, icmp, icmp6, tcp, udp, host, net, "
    "port, joined by `and`",
}
OPERATION: Final = OperationDoc(
    summary="capture packets", tag="endpoint", answer=BINARY, media=MEDIA, query=_QUERY
)


async def answer(leader: LeaderContext, request: ApiRequest) -> web.StreamResponse:
    """Answer the packets of an endpoint, named by its key or as for its inspection, until it ends.

    Raises AgentUnavailable, Invalid, and NotFound, also for an endpoint of another tenant.
    """
    asked = parameters(request.query, _QUERY)
    bounds = {
        name: number(name, asked[name], 1, most) for name, most in BOUNDS.items() if name in asked
    }
    access = request.access
    find = partial(
        inspect.endpoint_called,
        text=request.parameters["key"],
        tenants=access.tenants if access else None,
    )
    endpoint = await leader.committer.read(find)
    audit.capture_began(
        access.origin if access else None,
        access.who if access else None,
        endpoint=endpoint.key,
        host=endpoint.homing_host,
    )
    path = f"{ASKED}{quote(endpoint.key, safe='')}?{urlencode(asked)}"
    reply = web.StreamResponse(headers={"Content-Type": MEDIA})
    async with leader.agents.stream(endpoint.homing_host, path, seconds=SECONDS) as packets:
        incoming = request.incoming
        if incoming is not None:
            await reply.prepare(incoming)
            try:
                with suppress(AgentUnavailable, ConnectionError):
                    await _pass_on(packets, reply, incoming, bounds.get("size", _SIZE) + _SLACK)
            finally:
                if not packets.content.at_eof():
                    # Only a cut connection can show the client that packets are missing.
                    incoming.protocol.force_close()
    return reply


async def _pass_on(
    packets: ClientResponse, reply: web.StreamResponse, incoming: web.BaseRequest, left: int
) -> None:
    """Send packets on until they end, or the client has gone, or an agent sends too much."""
    while incoming.transport is not None and not incoming.transport.is_closing():
        try:
            async with asyncio.timeout(LOOK):
                part = await packets.content.readany()
        except TimeoutError:
            continue
        if not part:
            await reply.write_eof()
            return
        left -= len(part)
        if left < 0:
            log.warning("capture cut short: its agent sends more than was asked for")
            return
        await reply.write(part)
