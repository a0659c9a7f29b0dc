"""Compares the endpoints of this host with those that docker knows (pure but for the releases).

In comes the engine's state; out go releases of endpoints that the engine has forgotten. An engine
that got no answer to DeleteEndpoint forgets the endpoint, and moves its link back to the host, so
that nothing of it looks dead (`netplugin.pods.garbage_collection`). The reverse, an endpoint of
docker's that this host does not have, is reported: its container has no network.
"""

import logging
import time
from collections.abc import Callable

from core.collections.grace_period import GracePeriod
from core.logs import fields
from core.retry import FaultBoard
from netplugin.libnetwork.engine import EngineState
from netplugin.pods.handler import Pods
from netplugin.pods.registry.endpoint_registry import EndpointRegistry
from netplugin.pods.registry.journal_entry import JournalEntry

log = logging.getLogger(__name__)


class EndpointCheck:
    """One per agent; `grace` in seconds, 0 releases nothing."""

    # An endpoint is one of docker's only after CreateEndpoint has been answered, and the engine's
    # lists are not of one moment. So absence counts only if every look of a grace period saw it,
    # and the time in which the engine did not answer is not part of it.

    def __init__(
        self,
        registry: EndpointRegistry,
        pods: Pods,
        board: FaultBoard,
        *,
        grace: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._pods = pods
        self._board = board
        self._clock = clock
        self._enabled = grace > 0
        self._forgotten = GracePeriod[JournalEntry](grace)
        self._missing = GracePeriod[str](grace)

    async def take(self, state: EngineState) -> bool:
        """Compare once, and release what is due; return whether some are in doubt."""
        now, known = self._clock(), state.endpoints
        own = [entry for entry in self._registry.idle() if entry.spec.handed_over]
        forgotten = [entry for entry in own if entry.spec.endpoint not in known]
        if self._enabled:
            for entry in self._forgotten.observe(forgotten, now):
                log.warning(
                    "endpoint unknown to docker, releasing it", extra=fields(endpoint=entry.key)
                )
                await self._pods.release(entry)
        here = {entry.spec.endpoint for entry in self._registry.entries()}
        on_ours = frozenset().union(*(network.endpoints for network in state.networks))
        missing = self._missing.observe(on_ours - here, now)
        self._board.set_faults(
            "docker endpoints",
            (
                f"docker's endpoint {one[:12]} is not on this host: its container has no network, "
                "restart it"
                for one in sorted(missing)
            ),
        )
        return bool(forgotten or on_ours - here)

    def reset(self) -> None:
        """Begin anew: the engine did not answer."""
        self._forgotten.reset()
        self._missing.reset()
