"""Connects to the BGP peer, from the host's own address on the peer's network.

Separate from the speaker: an agent without a peering needs this module, but not the speaker, whose
import costs time at every start.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ofnet.bgp.peering import Peering

PORT: Final = 179
RESTART_TIME: Final = 120
"""Seconds within which a restarted agent is back; announced to the peer (RFC 4724)."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[Peering], Awaitable[Streams]]


async def dial(peering: Peering) -> Streams:
    """Return a connection to the peer, from the host's own address."""
    own = (str(peering.router.ip), 0)
    return await asyncio.open_connection(str(peering.peer), PORT, local_addr=own)
