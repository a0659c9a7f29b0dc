"""Whether long packets pass between this host and the others, as tunnels need them to.

Somewhere on the way a link may carry less than those at both ends. Then short packets pass and
long ones vanish, and connections hang as soon as they have something to say
(docs/original/user-issues.md #21). So each peer is asked, again and again, with a packet as long as
the longest a tunnel makes, and where that is not answered with a short one: a host that answers the
short one only is reported. One that answers neither may be away, or not answer echo requests.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Address
from typing import Final

from core.errors import HostError
from core.ids import HostLabel
from core.logs import fields

log = logging.getLogger(__name__)

SHORT: Final = 576
"""Bytes that every host takes (RFC 791)."""
AT_ONCE: Final = 16
FIRST_LOOK: Final = 2.0
"""Seconds after the peers have changed: a new host is given time to come up."""

Probe = Callable[[IPv4Address, int], Awaitable[bool]]
"""Says whether a packet of so many bytes comes back from an address. Raises HostError."""


class PathMtu:
    """The ways to other hosts. `peers` are their tunnel ends, `size` is the longest packet.

    `complain` is given what is wrong after each look, by host.
    """

    def __init__(
        self,
        *,
        peers: Callable[[], Mapping[HostLabel, IPv4Address]],
        size: Callable[[], int],
        probe: Probe,
        interval: float,
        complain: Callable[[Mapping[HostLabel, str]], None],
    ) -> None:
        self._peers = peers
        self._size = size
        self._probe = probe
        self._interval = interval
        self._complain = complain
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Look again and again, and soon after hosts have come or the size has changed."""
        loop = asyncio.get_running_loop()
        looked_at: object = None
        due = loop.time()
        while True:
            now = (self._peers(), self._size())
            if now != looked_at or loop.time() >= due:
                looked_at, due = now, loop.time() + self._interval
                await self.look()
            await asyncio.sleep(FIRST_LOOK)

    async def look(self) -> None:
        """Ask every peer once."""
        size = self._size()
        peers = dict(self._peers())
        faults = await asyncio.gather(*(self._fault(peer, size) for peer in peers.values()))
        found = {host: fault for host, fault in zip(peers, faults, strict=True) if fault}
        for host, fault in found.items():
            log.warning("path", extra=fields(peer=host, error=fault))
        self._complain(found)

    async def _fault(self, peer: IPv4Address, size: int) -> str:
        async with self._gate:
            try:
                if await self._probe(peer, size) or not await self._probe(peer, SHORT):
                    return ""
            except HostError as exc:
                return str(exc)
        return (
            f"packets of {size} bytes do not pass to {peer}, short ones do: raise the MTU of what "
            f"lies between, or start agents with a smaller --mtu"
        )
