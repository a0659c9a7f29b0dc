"""Repeats an idempotent piece of work, so that one part of the host stays as it should be.

In come what does the work, what it depends on, and events that tell of changes; the work is done
anew after every change, after failures, and on an interval, for changes that raise no event. While
it fails, a fault of the host says so (`netplugin.masters.progress`). Used by
`netplugin.bridges.host_access`, `netplugin.bridges.infra`, `netplugin.bridges.service_access`,
`netplugin.bridges.pod_guard`, `netplugin.bridges.host_guard`, `netplugin.bridges.host_names`,
`netplugin.pods.host_interfaces`, `netplugin.pods.port_mappings` and `netplugin.bgp.host`;
`set_on_change` serves loops of other shapes too. Nothing here knows what the work is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.errors import ContivError
from core.logs import fields
from core.tasks import backoff

log = logging.getLogger(__name__)

MAX_BACKOFF: Final = 10.0
"""Seconds between attempts of work that keeps failing."""
FIRST_BACKOFF: Final = 0.05
"""Seconds before the first further attempt."""


ShowFaults = Callable[[str, Iterable[str]], None]
"""Replaces the faults of the host about one subject (`Progress.show`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileLoop:
    """One piece of work: its name in the log, the work, what it depends on, and its triggers.

    `observe` returns the inputs and results of the work as they are now; `converge` returns them as
    it left them. Each trigger returns an event that the next change sets. After an event of `anew`
    the work is repeated whatever `observe` returns: it is about results that are not observed.
    """

    name: str
    converge: Callable[[], Awaitable[object]]
    observe: Callable[[], object]
    triggers: Sequence[Callable[[], asyncio.Event]]
    interval: float
    show: ShowFaults
    anew: Sequence[Callable[[], asyncio.Event]] = ()
    _lost: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    @property
    def subject(self) -> str:
        """What the faults of the loop are about."""
        return f"{self.name} not in sync"

    async def run(self) -> None:
        """Repeat the work, for ever; failures are logged, shown as a fault, and retried."""
        due = asyncio.Event()
        async with asyncio.TaskGroup() as triggers:
            for changed in self.triggers:
                triggers.create_task(set_on_change(changed, due))
            for lost in self.anew:
                triggers.create_task(_set_after_change(lost, self._lost, due))
            await self._converge_forever(due)

    async def _converge_forever(self, due: asyncio.Event) -> None:
        waits = backoff(limit=MAX_BACKOFF)
        told = ""
        while True:
            self._lost.clear()
            try:
                converged = await self.converge()
            except ContivError as exc:
                log.warning("%s not in sync, retrying", self.name, extra=fields(error=exc))
                told = f"{self.subject}: {exc}"
                self.show(self.subject, [told])
                await self._pause(next(waits), due)
                continue
            if told:
                log.info("%s in sync again", self.name)
                told = ""
                self.show(self.subject, [])
            waits = backoff(limit=MAX_BACKOFF)
            # Compared with what `converge` saw, not with what is there now: a change in the middle
            # of the work would be taken for its result otherwise. The work's own changes raise
            # events as well, and they compare equal.
            await self._changed(self.interval, converged, due)

    async def _pause(self, seconds: float, due: asyncio.Event) -> None:
        """Wait before the next attempt: in full, or until there is something else to do."""
        # What part of a host cannot have, for instance IPv6, must not delay changes of the rest.
        # Compared with what the failed attempt left, so that its own changes are no reason.
        left = self.observe()
        shortest = min(seconds, FIRST_BACKOFF)
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
