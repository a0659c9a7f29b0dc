"""Repeats an idempotent piece of work, so that one part of the host stays as it should be.

In come what does the work, what it depends on, and events that tell of changes; the work is done
anew after every change, after failures (`core.retry`), and on an interval, for changes that raise
no event. Used by `netplugin.bridges.host.host_access`, `netplugin.bridges.host.infra`,
`netplugin.bridges.services.service_access`, `netplugin.bridges.guards.pod_guard`,
`netplugin.bridges.guards.host_guard`, `netplugin.bridges.host.host_names`,
`netplugin.pods.host_interfaces`, `netplugin.pods.host_port_mappings.port_mappings` and
`netplugin.bgp.host_bgp`; `set_on_change` serves loops of other shapes too. Nothing here knows what
the work is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from core.retry import PACE, Loop, Pace, retry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileLoop:
    """One piece of work: its name, the work, what it depends on, and its triggers.

    `observe` returns the inputs and results of the work as they are now; `converge` returns them as
    it left them. Each trigger returns an event that the next change sets. After an event of `anew`
    the work is repeated whatever `observe` returns: it is about results that are not observed.
    """

    name: str
    converge: Callable[[], Awaitable[object]]
    observe: Callable[[], object]
    triggers: Sequence[Callable[[], asyncio.Event]]
    interval: float
    pace: Pace = PACE
    anew: Sequence[Callable[[], asyncio.Event]] = ()
    _lost: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    async def run(self) -> None:
        """Repeat the work, for ever."""
        due = asyncio.Event()
        async with asyncio.TaskGroup() as triggers:
            for changed in self.triggers:
                triggers.create_task(set_on_change(changed, due))
            for lost in self.anew:
                triggers.create_task(_set_after_change(lost, self._lost, due))
            await self._converge_forever(due)

    async def _converge_forever(self, due: asyncio.Event) -> None:
        loop = Loop(log, f"{self.name} not in sync", pace=self.pace)
        while True:
            converged = await retry(loop, self._attempt, partial(self._pause, due=due))
            # Compared with what `converge` saw, not with what is there now: a change in the middle
            # of the work would be taken for its result otherwise. The work's own changes raise
            # events as well, and they compare equal.
            await self._changed(self.interval, converged, due)

    async def _attempt(self) -> object:
        self._lost.clear()
        return await self.converge()

    async def _pause(self, seconds: float, due: asyncio.Event) -> None:
        """Wait before the next attempt: in full, or until there is something else to do."""
        # What part of a host cannot have, for instance IPv6, must not delay changes of the rest.
        # Compared with what the failed attempt left, so that its own changes are no reason.
        left = self.observe()
        shortest = min(seconds, PACE.first)
        await asyncio.sleep(shortest)
        await self._changed(seconds - shortest, left, due)

    async def _changed(self, seconds: float, seen: object, due: asyncio.Event) -> None:
        """Return when something differs from what was seen, or after some seconds."""
        try:
            async with asyncio.timeout(seconds):
                while self.observe() == seen and not self._lost.is_set():
                    due.clear()
                    await due.wait()
        except TimeoutError:
            return


async def set_on_change(changed: Callable[[], asyncio.Event], due: asyncio.Event) -> None:
    """Set `due` at once and then after every change, for ever.

    `changed` returns an event that the next change sets. It is taken before `due` is set, so that a
    change while the work is under way sets `due` again.
    """
    while True:
        event = changed()
        due.set()
        await event.wait()


async def _set_after_change(changed: Callable[[], asyncio.Event], *due: asyncio.Event) -> None:
    """Set all of `due` after every change, for ever; not at once."""
    while True:
        await changed().wait()
        for one in due:
            one.set()
