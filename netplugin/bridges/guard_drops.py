"""Counts what the source guard drops, by the endpoint that sent it, and says so now and then.

In come the counters of the guard's flows (`ofnet.agent`), read every few seconds; out go totals
for a metric, what was dropped lately for traces, and a line in the log. A pod that has just started
asks for routers and neighbours of IPv6 in vain where its network has none: a few packets are
nothing.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from core.errors import SwitchRefused, SwitchUnavailable
from core.logs import fields
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge

log = logging.getLogger(__name__)

PERIOD: Final = 2.0
"""Seconds between two looks."""
LATELY: Final = 15
"""Looks that count as now."""
MANY: Final = 10
"""Packets of an endpoint that are worth a line, if so many were dropped lately."""
SAID_FOR: Final = 300.0
"""Seconds until the same endpoint is named in the log again."""


class GuardDrops:
    """What the source guard of one host has dropped. `clock` is monotonic."""

    def __init__(
        self,
        agents: Mapping[Bridge, BridgeAgent],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agents = agents
        self._clock = clock
        self._counters: dict[Bridge, Mapping[str, int]] = {}
        self._looks: deque[Mapping[str, int]] = deque(maxlen=LATELY)
        self._said: dict[str, float] = {}
        self.dropped = 0
        """Packets of all endpoints, since this agent began to look."""

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(PERIOD)

    async def look(self) -> None:
        """Read the counters once; a switch that does not answer is asked the next time."""
        news: dict[str, int] = {}
        for bridge, agent in self._agents.items():
            try:
                counters = await agent.guarded()
            except (SwitchUnavailable, SwitchRefused) as exc:
                log.debug("guard not counted", extra=fields(bridge=bridge, error=exc))
                continue
            before = self._counters.get(bridge, {})
            for endpoint, packets in counters.items():
                known = before.get(endpoint, 0)
                # a flow that was added anew counts from nothing
                if dropped := packets - known if packets >= known else packets:
                    news[endpoint] = news.get(endpoint, 0) + dropped
            self._counters[bridge] = counters
        present = {str(key) for agent in self._agents.values() for key in agent.world.local}
        self.dropped += sum(news.values())
        self._looks.append({key: count for key, count in news.items() if key in present})
        self._say()

    def lately(self, endpoint: str) -> int:
        """Return how many packets of an endpoint were dropped in the last half minute."""
        return sum(one.get(endpoint, 0) for one in self._looks)

    @property
    def stopped(self) -> int:
        """How many endpoints the guard stops now."""
        named = {endpoint for one in self._looks for endpoint in one}
        return sum(self.lately(endpoint) >= MANY for endpoint in named)

    def note(self, endpoint: str) -> str:
        """Return the words for an endpoint that the guard stops now; "" for others."""
        count = self.lately(endpoint)
        if count < MANY:
            return ""
        return (
            f"the source guard dropped {count} packets of endpoint {endpoint} within "
            f"{LATELY * PERIOD:.0f} s: it sends from addresses that are not its own"
        )

    def _say(self) -> None:
        now = self._clock()
        self._said = {key: at for key, at in self._said.items() if now - at < SAID_FOR}
        for endpoint in self._looks[-1].keys() - self._said.keys():
            if self.lately(endpoint) >= MANY:
                self._said[endpoint] = now
                log.warning(
                    "endpoint sends from addresses that are not its own",
                    extra=fields(endpoint=endpoint, count=self.lately(endpoint)),
                )
