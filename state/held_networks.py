"""Stops watching networks without local pods, after a delay (ADR 27).

Calls `state.watch`, which reads the endpoints of networks that came to be of concern with a new pod
by itself, before the pod's ADD goes on. What is of no concern any more is dropped after a while:
the next pod of that tenant may come soon.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from core.collections.grace_period import GracePeriod
from core.ids import NetworkId
from state.watch import RecordFeed
from state.watch_scope import WatchScope

KEPT: Final = 600.0
"""Seconds for which a network without local pods is still watched."""

PAUSE: Final = 30.0
"""Seconds between looks."""


class HeldNetworks:
    """Keeps what `feed` holds to what `scope` names; `clock` is monotonic."""

    def __init__(
        self,
        feed: RecordFeed,
        scope: WatchScope,
        *,
        kept: float = KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._feed = feed
        self._scope = scope
        self._idle = GracePeriod[NetworkId](kept)
        self._clock = clock

    async def converge(self) -> None:
        """Hold what is used, and drop what has been of no concern for long."""
        self._scope.refresh()
        await self._feed.extend()
        idle = self._feed.held - self._scope.networks
        await self._feed.release(frozenset(self._idle.observe(idle, self._clock())))

    async def run(self) -> None:
        """Do so for ever."""
        while True:
            await asyncio.sleep(PAUSE)
            await self.converge()
