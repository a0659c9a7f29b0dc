"""How a host reaches its BGP peer: from its own address there, and by no other way.

Apart from the speaker, so that an agent need not load that before there is somebody to speak with.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ofnet.bgp.peering import Peering

PORT: Final = 179
RESTART_TIME: Final = 120
"""Seconds within which an agent that is restarted is back."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[Peering], Awaitable[Streams]]


async def dial(peering: Peering) -> Streams:
    """Return a connection to the peer, from the host's own address."""
    own = (str(peering.router.ip), 0)
    return await asyncio.open_connection(str(peering.peer), PORT, local_addr=own)
