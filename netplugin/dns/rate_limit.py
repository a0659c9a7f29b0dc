"""How many DNS queries each pod may ask: a token bucket for each. Pure: the clock is an argument.

`netplugin.dns.nameserver` asks before it reads a message, so that a pod that floods the agent costs
it as little as possible. Open vSwitch bounds what reaches the agent before that: it takes packets
for the controller from all ports in turn (`netplugin.ovsdb.rows.BridgeSpec`).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from core.ids import EndpointKey

BURST_SECONDS: Final = 2
"""A pod that was quiet may ask what it could have asked in this time, at once."""

MAX_PODS: Final = 4096
"""Buckets kept; of more pods those that have not asked for the longest time start anew."""


class RateLimit:
    """The buckets of all pods; `rate` is in queries a second, 0 for no limit."""

    def __init__(self, rate: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[EndpointKey, tuple[float, float]] = OrderedDict()

    def allows(self, pod: EndpointKey) -> bool:
        """Return whether a pod may ask now, and count the query if so."""
        if not self._rate:
            return True
        now, most = self._clock(), self._rate * BURST_SECONDS
        tokens, since = self._buckets.get(pod, (float(most), now))
        tokens = min(most, tokens + (now - since) * self._rate)
        allowed = tokens >= 1
        self._buckets[pod] = tokens - 1 if allowed else tokens, now
        self._buckets.move_to_end(pod)
        if len(self._buckets) > MAX_PODS:
            self._buckets.popitem(last=False)
        return allowed
