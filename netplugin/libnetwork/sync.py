"""Follows the engine of this host: looks at its state after each event, and now and then.

In come the engine's events (`netplugin.libnetwork.engine`); out goes its state to all that follow
it: docker's networks (`netplugin.libnetwork.docknets`), what netmaster is told of containers
(`netplugin.libnetwork.containers`), and the endpoints that docker has forgotten
(`netplugin.libnetwork.endpoint_check`). An engine that is away is waited for: whatever happened
meanwhile, the first look shows what has become of it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from core.collections.grace_period import GracePeriod
from core.errors import ContivError
from core.retry import REMOTE, Loop, retry
from netplugin.bridges.reconcile_loop import set_on_change
from netplugin.bridges.record_events import RecordEvents
from netplugin.libnetwork.containers import Containers
from netplugin.libnetwork.docknets import Docknets
from netplugin.libnetwork.endpoint_check import EndpointCheck
from netplugin.libnetwork.endpoints import NetworkDriver
from netplugin.libnetwork.engine import Engine, EngineState
from netplugin.libnetwork.networks import NetworkNames

log = logging.getLogger(__name__)

PAUSE: Final = 0.2
"""Seconds between an event and the look that it causes: one look serves many events."""
DOUBT: Final = 1.0
"""Seconds between looks while something is not as it should be."""
RENEWAL: Final = 120.0
"""Seconds between looks without events, in which reservations are renewed; netmaster keeps them for
five times as long."""
FORGET: Final = 60.0
"""Seconds for which a network must be absent before what was learned of it is forgotten."""


class EngineSync:
    """Follows one engine. One per agent."""

    def __init__(
        self,
        engine: Engine,
        names: NetworkNames,
        driver: NetworkDriver,
        followers: "Followers",
        records: RecordEvents,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._names = names
        self._driver = driver
        self._followers = followers
        self._records = records
        self._clock = clock
        self._gone = GracePeriod[str](FORGET)
        self._renewed = -RENEWAL
        self._following = Loop(log, "docker engine cannot be followed", patience=REMOTE)
        self._looking = Loop(log, "docker engine not in sync", patience=REMOTE)

    async def run(self) -> None:
        """Follow the engine for ever."""
        due = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(retry(self._following, partial(self._follow_events, due)))
            tasks.create_task(set_on_change(self._records.networks_changed, due))
            tasks.create_task(set_on_change(self._records.groups_changed, due))
            await self._look_forever(due)

    async def _follow_events(self, due: asyncio.Event) -> None:
        def notify() -> None:
            self._following.works()
            due.set()

        await self._engine.follow(notify)

    async def _look_forever(self, due: asyncio.Event) -> None:
        async def look() -> bool:
            due.clear()
            return await self.look()

        async def wait(seconds: float) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await due.wait()
            await asyncio.sleep(PAUSE)

        while True:
            doubt = await retry(self._looking, look, wait)
            await wait(DOUBT if doubt else RENEWAL)

    async def look(self) -> bool:
        """Look once, and do what is due; return whether something is not as it should be.

        Raises ContivError if the engine or netmaster does not answer.
        """
        try:
            state = await self._engine.state()
        except ContivError:
            self._followers.endpoint_check.reset()
            self._gone.reset()
            raise
        for network in state.networks:
            await self._names.learn(network)
        await self._forget(state)
        await self._renew(state)
        doubt = await self._followers.endpoint_check.take(state)
        if self._followers.docknets is not None:
            doubt = await self._followers.docknets.converge(state) or doubt
        await self._followers.containers.converge(state)
        return doubt

    async def _forget(self, state: EngineState) -> None:
        there = {network.docker_id for network in state.networks}
        gone = (one.docker_id for one in self._names.known() if one.docker_id not in there)
        for docker_id in self._gone.observe(gone, self._clock()):
            await self._names.removed(docker_id)

    async def _renew(self, state: EngineState) -> None:
        now = self._clock()
        if self._renewed + RENEWAL > now:
            return
        self._renewed = now
        there = {network.docker_id for network in state.networks}
        for one in self._names.known():
            if one.docker_id in there and one.auxiliary:
                await self._driver.keep_auxiliary(one.place, one.auxiliary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followers:
    """What is given the engine's state at each look."""

    containers: Containers
    endpoint_check: EndpointCheck
    docknets: Docknets | None
    """None where netmaster alone makes docker's networks."""
