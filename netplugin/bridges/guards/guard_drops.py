"""Counts what source guard and pod guard drop; of the first also by the endpoint that sent it.

In come the counters of the guards' flows, and requests in another's name that the agent refused
(`ofnet.agent`), read every few seconds; out go totals for metrics, what the source guard dropped
lately for traces, and a line in the log. A pod that has just started asks for routers and
neighbours of IPv6 in vain where its network has none: some packets are nothing, while a request of
ARP or DNS in another's name is no accident.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, TypeVar

from core.errors import SwitchRefused, SwitchUnavailable
from core.logs import fields
from core.retry import REMOTE, Loop
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.world import Bridge

log = logging.getLogger(__name__)

PERIOD: Final = 5.0
"""Seconds between two looks. One takes 10 ms of processor time for each bridge with 300 pods."""
LATELY: Final = 6
"""Looks that count as now."""
MANY: Final = 30
"""Packets of an endpoint that are worth a line, if so many were dropped lately."""
FEW: Final = 3
"""The same of requests in another's name."""
SAID_FOR: Final = 300.0
"""Seconds until the same endpoint is named in the log again."""


_Kind = tuple[str, bool]
"""An endpoint, and whether its requests in another's name are counted, or its other packets."""


_K = TypeVar("_K", bound=Hashable)


class _Counters(Generic[_K]):
    """Counters of flows that may be added anew, and so count from nothing again."""

    def __init__(self) -> None:
        self._read: Mapping[_K, int] = {}

    def news(self, read: Mapping[_K, int]) -> Counter[_K]:
        """Return what was counted since the last time; take the counters of now."""
        before, self._read = self._read, read
        known = ((key, count, before.get(key, 0)) for key, count in read.items())
        return Counter({key: count - old if count >= old else count for key, count, old in known})


def _nobody(_endpoint: str, _packets: int) -> None:
    """Tell nobody."""


class GuardDrops:
    """What the guards of one host have dropped.

    `note` hears of each endpoint how many packets the source guard has dropped since the last look.
    `clock` is monotonic.
    """

    def __init__(
        self,
        agents: Mapping[Bridge, BridgeAgent],
        *,
        note: Callable[[str, int], None] = _nobody,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agents = agents
        self._note = note
        self._clock = clock
        self._of_endpoints = {bridge: _Counters[_Kind]() for bridge in agents}
        self._of_ports = {bridge: _Counters[str]() for bridge in agents}
        self._looks: deque[Mapping[_Kind, int]] = deque(maxlen=LATELY)
        self._said: dict[str, float] = {}
        self._loops = {
            bridge: Loop(log, "drops by the guard not counted", about=bridge, patience=REMOTE)
            for bridge in agents
        }
        self.dropped = 0
        """Packets that the source guard dropped, since this agent began to look."""
        self.closed = 0
        """The same of the pod guard in the switches: what pods sent to management ports."""

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(PERIOD)

    async def look(self) -> None:
        """Read the counters once; a switch that does not answer is asked the next time."""
        news: Counter[_Kind] = Counter()
        for bridge, agent in self._agents.items():
            try:
                guarded = await agent.guarded()
                closed = await agent.hits(ObjectKind.MANAGEMENT_PORT)
            except (SwitchUnavailable, SwitchRefused) as exc:
                self._loops[bridge].failed(exc)
                continue
            self._loops[bridge].succeeded()
            counters = {(key, False): count for key, count in guarded.items()}
            counters |= {(key, True): count for key, count in agent.forged.items()}
            news += self._of_endpoints[bridge].news(counters)
            ports = {name: hits.packets for name, hits in closed.items()}
            self.closed += self._of_ports[bridge].news(ports).total()
        present = {str(key) for agent in self._agents.values() for key in agent.world.local}
        self.dropped += news.total()
        for (endpoint, _), count in news.items():
            self._note(endpoint, count)
        self._looks.append({kind: count for kind, count in news.items() if kind[0] in present})
        self._say()

    @property
    def stopped(self) -> int:
        """How many endpoints the guard stops now."""
        return len({endpoint for one in self._looks for endpoint, _ in one if self.note(endpoint)})

    def note(self, endpoint: str) -> str:
        """Return the words for an endpoint that the guard stops now; "" for others."""
        dropped, forged = self._lately((endpoint, False)), self._lately((endpoint, True))
        if dropped < MANY and forged < FEW:
            return ""
        return (
            f"the source guard dropped {dropped + forged} packets of endpoint {endpoint} within "
            f"{LATELY * PERIOD:.0f} s: it sends from addresses that are not its own"
        )

    def _lately(self, kind: _Kind) -> int:
        return sum(one.get(kind, 0) for one in self._looks)

    def _say(self) -> None:
        now = self._clock()
        self._said = {key: at for key, at in self._said.items() if now - at < SAID_FOR}
        for endpoint in {name for name, _ in self._looks[-1]} - self._said.keys():
            if told := self.note(endpoint):
                self._said[endpoint] = now
                log.warning(
                    "endpoint sends from addresses that are not its own",
                    extra=fields(endpoint=endpoint, error=told),
                )
